/* csv.h: records and columns of CSV with a header: quoted fields (with doubled quotes and newlines inside), CRLF,
 * spaces around fields; the separator is the first of comma, semicolon and tab in the header. */
#ifndef TRACES_CSV_H
#define TRACES_CSV_H
#include "traces/format.h"

struct csv_field {
  const char *s; /* trimmed, without the quotes; a doubled quote inside is left doubled */
  size_t n;
};

struct csv_table {
  char *header;
  size_t header_n;
  char separator;
};

/* Reads the header: the first line that is neither blank nor a # comment. */
int csv_table_open(struct csv_table *table, struct trace_source *src, const struct trace_sink *sink, struct err *err);
void csv_table_release(struct csv_table *table);

/* Index of the first of `names` (NULL-terminated; exact, else in any letter case) in the header, or -1. */
int csv_find(const struct csv_table *table, const char *const *names);
/* An error at the header: no such column, and which there are. */
int csv_no_column(const struct csv_table *table, const struct trace_sink *sink, int64_t line, const char *name,
                  struct err *err);

/* The next record that is neither blank nor a # comment, as one span, and the number of its first line: 1, 0 at the
 * end, -1. It lies in the source's window until the next call. */
int csv_record(struct trace_source *src, const struct csv_table *table, const struct trace_sink *sink,
               struct csv_field *record, int64_t *line, struct err *err);
/* Field `index` of a record; false if it has fewer. */
bool csv_get(const struct csv_field *record, char separator, int index, struct csv_field *out);

/* Whether `line` (a header) names the column, in any letter case; for recognition. */
bool csv_line_has(const char *line, size_t n, const char *name);

#endif
