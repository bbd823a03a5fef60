/* json_array.h: a JSON array of lengths, scanned as it streams by: never in memory as a whole. */
#ifndef TRACES_JSON_ARRAY_H
#define TRACES_JSON_ARRAY_H
#include "traces/sink.h"
#include "traces/source.h"

/* Skips white space, counting lines: 1 with the next character in *c, which is not used up; 0 at the end of the file;
 * -1. */
int json_array_char(struct trace_source *src, char *c, struct err *err);

/* Extent of the value at pos: up to the comma or bracket after it. 1, 0 if the file ends inside, -1. */
int json_array_span(struct trace_source *src, size_t *n, struct err *err);

/* Adds the lengths of the array whose '[' is at pos, numbers or objects as in json_length.h, and moves past its ']'. */
int json_array_lengths(struct trace_source *src, const char *column, struct trace_sink *sink, struct err *err);

#endif
