/* format.h: the table of trace formats. A format is one file that ends in its row: how it is recognised, read, written.
 * To add one: write format_NAME.c, declare its row here, list it in format.c. */
#ifndef TRACES_FORMAT_H
#define TRACES_FORMAT_H
#include <stddef.h>

#include "traces/sink.h"
#include "traces/source.h"
#include "traces/trace.h"

/* The beginning of a file (up to 64 KiB, decompressed), for recognition. */
struct trace_peek {
  const char *bytes;
  size_t n;
  const char *line; /* first line that is neither blank nor a # comment, trimmed */
  size_t line_n;
  const char *column; /* --column, or NULL */
};

struct trace_format {
  const char *name;
  const char *suffix; /* of file names, for `trace convert` without --to; NULL if it shares another format's */
  const char *help;   /* one line for `list formats` */
  bool (*detect)(const struct trace_peek *peek);
  int (*read)(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink, struct err *err);
  int (*write)(const struct trace *t, FILE *out, struct err *err); /* NULL: read only */
};

extern const struct trace_format format_npy, format_megatron_idx, format_mds, format_batches, format_json, format_jsonl,
    format_histogram, format_video_csv, format_csv, format_text;

/* The row of that name; unknown: usage error naming the valid ones. */
const struct trace_format *trace_format_find(const char *name, struct err *err);
/* The writable row whose suffix ends `path`; NULL if none. */
const struct trace_format *trace_format_of_suffix(const char *path);
/* By content; `name` for messages. Binary files of known other kinds are refused with advice. */
const struct trace_format *trace_format_detect(struct trace_source *src, const struct trace_options *options,
                                               struct err *err);

#endif
