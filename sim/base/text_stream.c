#include "sim/base/text_stream.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

struct buffer {
  char **text;
  size_t *size, cap;
};

static ssize_t append(void *cookie, const char *bytes, size_t n) {
  struct buffer *b = cookie;
  while (b->cap - *b->size < n + 1) {
    b->cap = size_mul(b->cap, 2);
    *b->text = xrealloc(*b->text, b->cap);
  }
  memcpy(*b->text + *b->size, bytes, n);
  *b->size += n;
  (*b->text)[*b->size] = '\0';
  return (ssize_t)n;
}

static int end(void *cookie) {
  free(cookie);
  return 0;
}

FILE *text_stream_begin(char **text, size_t *size) {
  static const cookie_io_functions_t functions = {.write = append, .close = end};
  struct buffer *b = xmalloc(sizeof *b);
  *b = (struct buffer){text, size, 256};
  *text = xmalloc(b->cap);
  **text = '\0';
  *size = 0;
  FILE *stream = fopencookie(b, "w", functions);
  if (!stream)
    out_of_memory(sizeof *stream);
  return stream;
}

void text_stream_end(FILE *stream) { ASSERT(fclose(stream) == 0); }
