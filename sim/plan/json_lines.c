#include "sim/plan/json_lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

void json_lines_open_file(struct json_lines *l, const char *kind, const char *path, FILE *file) {
  *l = (struct json_lines){.kind = kind, .path = path, .file = file, .limit = JSON_LINES_MAX_BYTES};
}

int json_lines_open(struct json_lines *l, const char *kind, const char *path, struct err *err) {
  json_lines_open_file(l, kind, path, strcmp(path, "-") == 0 ? stdin : fopen(path, "rbe"));
  if (!l->file)
    return err_set(err, "cannot open %s '%s': %s", kind, path, strerror(errno));
  return 0;
}

static void append(struct json_lines *l, const char *bytes, size_t n) {
  while (l->cap - l->size < n + 1) {
    l->cap = l->cap ? size_mul(l->cap, 2) : JSON_LINES_BLOCK_BYTES;
    l->text = xrealloc(l->text, l->cap);
  }
  memcpy(l->text + l->size, bytes, n);
  l->size += n;
  l->text[l->size] = '\0';
}

/* Reads up to a newline into l->text. 1, 0 at the end of the file, -1 when too long: unlike getline() it stops growing
 * at the limit, so a file without newlines cannot take all memory. */
static int read_line(struct json_lines *l) {
  bool any = false;
  l->size = 0;
  for (;;) {
    if (l->block_at == l->block_size) {
      l->block_at = 0;
      l->block_size = fread(l->block, 1, sizeof l->block, l->file);
      if (l->block_size == 0)
        return any;
    }
    any = true;
    const char *from = l->block + l->block_at;
    size_t left = l->block_size - l->block_at;
    const char *newline = memchr(from, '\n', left);
    size_t n = newline ? (size_t)(newline - from) : left;
    append(l, from, n);
    l->block_at += n + (newline != NULL);
    if (l->size > l->limit)
      return -1;
    if (newline)
      return 1;
  }
}

static bool blank(const struct json_lines *l) {
  for (size_t i = 0; i < l->size; i++)
    if (!strchr(" \t\r", l->text[i]) || l->text[i] == '\0')
      return false;
  return true;
}

int json_lines_next(struct json_lines *l, struct err *err) {
  for (;;) {
    errno = 0;
    int status = read_line(l);
    if (status <= 0 && ferror(l->file))
      return err_set(err, "cannot read %s '%s': %s", l->kind, l->path, strerror(errno ? errno : EIO));
    if (status == 0)
      return 0;
    l->line++;
    if (status < 0)
      return err_set(err, "%s '%s' line %" PRId64 ": longer than %zu bytes", l->kind, l->path, l->line, l->limit);
    if (!blank(l))
      return 1;
  }
}

void json_lines_release(struct json_lines *l) {
  if (l->file && l->file != stdin)
    fclose(l->file);
  free(l->text);
  *l = (struct json_lines){0};
}
