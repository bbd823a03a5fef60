/* source.h: the bytes of a trace file, decompressed, in a window that readers look into. Fixed buffers but for one line
 * (or one JSON value) longer than the window, which makes it grow up to TRACE_MAX_LINE_BYTES. */
#ifndef TRACES_SOURCE_H
#define TRACES_SOURCE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zlib.h>
#include <zstd.h>

#include "sim/base/err.h"

enum trace_codec { CODEC_PLAIN, CODEC_GZIP, CODEC_ZSTD };

struct trace_source {
  const char *path; /* for messages; not owned */
  int fd;
  enum trace_codec codec;
  bool in_frame; /* the compressed frame (member) begun is not complete yet */
  z_stream gzip;
  ZSTD_DStream *zstd;
  unsigned char *raw; /* compressed bytes [raw_pos, raw_len) not used yet */
  size_t raw_pos, raw_len;
  bool raw_eof;
  char *buf; /* decompressed bytes [pos, len) not used yet */
  size_t pos, len, cap;
  size_t line_start;
  int64_t line; /* number of the line read last, from 1 */
};

/* Opens the file (path "-": stdin), finds its compression, skips a UTF-8 byte order mark. `shown` is the name used in
 * messages and must outlive the source. *missing tells
 * that the file does not exist, which is an error too. */
int trace_source_open(struct trace_source *src, const char *path, const char *shown, bool *missing, struct err *err);
void trace_source_release(struct trace_source *src);

/* Adds bytes to the window, dropping those before pos: how many (0: end of file), or -1. Pointers into buf move. */
int64_t trace_source_fill(struct trace_source *src, struct err *err);

/* Makes at least n bytes available unless the file ends sooner; returns how many there are, or -1. */
int64_t trace_source_peek(struct trace_source *src, size_t n, struct err *err);

/* The next line without its newline: 1, or 0 at the end of the file, or -1. It lies in the window until the next call.
 */
int trace_source_line(struct trace_source *src, const char **line, size_t *n, struct err *err);

/* The line just read together with the one after it (a quoted field that contains a newline); 0 if there is none. */
int trace_source_line_extend(struct trace_source *src, const char **line, size_t *n, struct err *err);

#endif
