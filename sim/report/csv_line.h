/* csv_line.h: the lines of a CSV file, taken apart. Quotes as RFC 4180, but no line breaks inside them. */
#ifndef SIM_REPORT_CSV_LINE_H
#define SIM_REPORT_CSV_LINE_H
#include <stdbool.h>
#include <stdint.h>

/* Splits a line in place and unquotes; cells point into it. The number of cells; max + 1: there are more than
 * `max`. */
int csv_split(char *line, char **cells, int max);
/* The first cell that equals `name`; -1: none. */
int csv_column(char *const *cells, int n, const char *name);
/* The whole cell is a finite number. */
bool csv_number(const char *text, double *out);
/* The whole cell is an integer from 0. */
bool csv_count(const char *text, int64_t *out);

#endif
