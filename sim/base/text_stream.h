/* text_stream.h: a stream that writes into memory. Unlike open_memstream's it cannot lose text when memory is
 * exhausted: the program ends then as it does in xmalloc (units.h). */
#ifndef SIM_BASE_TEXT_STREAM_H
#define SIM_BASE_TEXT_STREAM_H
#include <stddef.h>
#include <stdio.h>

/* *text (NUL-terminated; the caller frees it) and *size are right after text_stream_end. */
FILE *text_stream_begin(char **text, size_t *size);
void text_stream_end(FILE *stream);

#endif
