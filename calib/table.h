/* table.h: a CSV file with a header, whole in memory, as rows of text fields with their line numbers.
 *
 * The separator is the first of comma, semicolon and tab in the header. Quoted fields (doubled quotes and newlines
 * inside), CRLF, spaces around fields, blank lines, # comment lines and a byte order mark are understood. Every row
 * must have as many fields as the header, and every column a name of its own. */
#ifndef CALIB_TABLE_H
#define CALIB_TABLE_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

struct table {
  const char *kind; /* what messages call the file: "rows", "table" (not owned) */
  char *path, *text;
  char **columns; /* [n_columns], into text; may be replaced by other names that outlive the table */
  size_t n_columns, n_rows;
  char **fields;  /* [n_rows * n_columns], into text */
  int64_t *lines; /* [n_rows]: 1-based line on which the row begins */
};

/* On failure nothing is left to release; a zeroed table may be released. */
int table_read(struct table *t, const char *kind, const char *path, struct err *err);
/* The same from text in memory (copied); `path` is only for messages. */
int table_parse(struct table *t, const char *kind, const char *path, const char *text, struct err *err);
void table_release(struct table *t);

/* Index of the column, or -1. */
int table_column(const struct table *t, const char *name);

/* Field of a row; "" for column -1. */
static inline const char *table_field(const struct table *t, size_t row, int column) {
  return column < 0 ? "" : t->fields[row * t->n_columns + (size_t)column];
}

/* "<kind> '<path>' line N: <message>"; returns -1. */
int table_error(const struct table *t, size_t row, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* "a, b, c" of the header, cut to fit. */
void table_list_columns(const struct table *t, char *buf, size_t size);

/* Writes one field of a comma-separated file, quoted where it must be. */
void table_put_field(FILE *out, const char *s);

#endif
