/* html.h: text and tables of a page. Whatever comes from a file goes through html_text(). */
#ifndef SIM_REPORT_HTML_H
#define SIM_REPORT_HTML_H
#include <stdint.h>
#include <stdio.h>

/* Escaped for element content and for attribute values in double quotes; control characters become '?'. */
void html_text(FILE *out, const char *text);
/* printf whose result is escaped; at most 1023 bytes. */
void html_printf(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A table that page.js sorts: begin, a html_th per column, rows of cells, end. The first column names the row. */
void html_table_begin(FILE *out, const char *caption);
void html_th(FILE *out, const char *title, const char *hint); /* of numbers; hint NULL: none */
void html_th_text(FILE *out, const char *title, const char *hint);
void html_table_rows(FILE *out); /* after the last html_th */
void html_row_begin(FILE *out);
void html_row_name(FILE *out, const char *text);
void html_cell(FILE *out, const char *text);
void html_number(FILE *out, double sort_by, const char *text);
void html_row_end(FILE *out);
void html_table_end(FILE *out);

#endif
