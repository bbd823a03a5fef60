/* number_list.h: long lists of numbers in JSON files, wrapped to the line width. */
#ifndef CALIB_NUMBER_LIST_H
#define CALIB_NUMBER_LIST_H
#include <stddef.h>
#include <stdio.h>

/* "[1,2,...]" with continuation lines indented by `indent`; %.*g with `digits`. */
void number_list(FILE *out, const double *v, size_t n, int digits, int indent);

/* The same of nanoseconds, whole and at least 1, from log seconds. */
void number_list_ns(FILE *out, const double *log_s, size_t n, int indent);

/* JSON text with the lines after its first indented by `indent` more. */
void number_list_indent(FILE *out, const char *json, int indent);

#endif
