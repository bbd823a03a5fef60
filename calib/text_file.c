#include "calib/text_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

const char *text_file_name(const char *path) { return strcmp(path, "-") == 0 ? "standard input" : path; }

static int read_all(FILE *file, const char *kind, const char *path, char **text, size_t *n, struct err *err) {
  size_t cap = 1u << 16;
  *text = xmalloc(cap + 1);
  *n = 0;
  for (;;) {
    size_t got = fread(*text + *n, 1, cap - *n, file);
    *n += got;
    if (got == 0)
      break;
    if (*n > TEXT_FILE_MAX_BYTES)
      return err_set(err, "%s '%s' is larger than %u MiB", kind, path, TEXT_FILE_MAX_BYTES >> 20);
    if (*n == cap) {
      cap *= 2;
      *text = xrealloc(*text, cap + 1);
    }
  }
  if (ferror(file))
    return err_set(err, "cannot read %s '%s': %s", kind, path, strerror(errno));
  (*text)[*n] = '\0';
  if (memchr(*text, '\0', *n))
    return err_set(err, "%s '%s' is not a text file", kind, path);
  return 0;
}

int text_file_read(const char *kind, const char *path, char **text, size_t *n, struct err *err) {
  FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
  *text = NULL;
  if (!file)
    return err_set(err, "cannot open %s '%s': %s", kind, path, strerror(errno));
  int rc = read_all(file, kind, text_file_name(path), text, n, err);
  if (file != stdin)
    fclose(file);
  if (rc) {
    free(*text);
    *text = NULL;
  }
  return rc;
}
