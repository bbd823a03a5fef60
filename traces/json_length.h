/* json_length.h: the length of a sample that is a JSON object: a line of JSON Lines, or an element of a JSON array. */
#ifndef TRACES_JSON_LENGTH_H
#define TRACES_JSON_LENGTH_H
#include "traces/sink.h"

/* Adds the length of the object `s`: the number in the first of length, num_tokens, seq_len, input_length that it has,
 * or the size of the array input_ids or tokens; with `column` the number in, or the size of, that key. */
int json_length_add(struct trace_sink *sink, int64_t line, const char *s, size_t n, const char *column,
                    struct err *err);

#endif
