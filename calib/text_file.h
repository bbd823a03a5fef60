/* text_file.h: a whole text file in memory. */
#ifndef CALIB_TEXT_FILE_H
#define CALIB_TEXT_FILE_H
#include <stddef.h>

#include "sim/base/err.h"

#define TEXT_FILE_MAX_BYTES (256u << 20)

/* Reads `path` ("-" is stdin) as *n bytes and a final NUL; *text is the caller's to free. `kind` is what messages call
 * the file: "log", "rows", ... A file with NUL bytes is not text and refused, as is one over the limit. */
int text_file_read(const char *kind, const char *path, char **text, size_t *n, struct err *err);

/* "standard input" for "-". */
const char *text_file_name(const char *path);

#endif
