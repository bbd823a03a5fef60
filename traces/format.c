#include "traces/format.h"

#include <string.h>

#include "sim/base/output.h"
#include "traces/foreign.h"

#define PEEK_BYTES (64u << 10)

/* In the order in which they are tried: text takes what is left. */
static const struct trace_format *const trace_formats[] = {
    &format_npy,   &format_megatron_idx, &format_mds,       &format_batches, &format_json,
    &format_jsonl, &format_histogram,    &format_video_csv, &format_csv,     &format_text,
};
enum { FORMATS = sizeof trace_formats / sizeof *trace_formats };

const struct trace_format *trace_format_find(const char *name, struct err *err) {
  char names[256] = "";
  for (int i = 0; i < FORMATS; i++) {
    if (strcmp(trace_formats[i]->name, name) == 0)
      return trace_formats[i];
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", trace_formats[i]->name);
  }
  err_usage(err, "unknown trace format '%s' (one of: %s)", name, names);
  return NULL;
}

const struct trace_format *trace_format_of_suffix(const char *path) {
  const char *dot = strrchr(path, '.');
  for (int i = 0; dot && i < FORMATS; i++)
    if (trace_formats[i]->write && trace_formats[i]->suffix && strcmp(trace_formats[i]->suffix, dot) == 0)
      return trace_formats[i];
  return NULL;
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* The first line that is neither blank nor a comment. */
static void find_first_line(struct trace_peek *peek) {
  const char *p = peek->bytes, *end = p + peek->n;
  while (p < end) {
    const char *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline ? newline : end;
    const char *next = newline ? newline + 1 : end;
    while (p < stop && is_blank(*p))
      p++;
    while (stop > p && is_blank(stop[-1]))
      stop--;
    if (p < stop && *p != '#') {
      peek->line = p;
      peek->line_n = (size_t)(stop - p);
      return;
    }
    p = next;
  }
}

const struct trace_format *trace_format_detect(struct trace_source *src, const struct trace_options *options,
                                               struct err *err) {
  int64_t n = trace_source_peek(src, PEEK_BYTES, err);
  if (n < 0)
    return NULL;
  struct trace_peek peek = {.bytes = src->buf + src->pos, .n = (size_t)n, .line = "", .column = options->column};
  find_first_line(&peek);
  if (foreign_refuse(src->path, peek.bytes, peek.n, err))
    return NULL;
  if (options->format)
    return trace_format_find(options->format, err);
  if (peek.line_n == 0) {
    err_set(err, "trace '%s': is empty: no lengths in it", src->path);
    return NULL;
  }
  for (int i = 0; i < FORMATS; i++)
    if (trace_formats[i]->detect(&peek))
      return trace_formats[i];
  return &format_text;
}

static const char *trace_name(const struct trace *t) { return t->name ? t->name : "-"; }

static bool is_compressed_name(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot && (strcmp(dot, ".gz") == 0 || strcmp(dot, ".zst") == 0);
}

int trace_write(const struct trace *t, const char *format, const char *path, struct err *err) {
  const struct trace_format *f = trace_format_find(format, err);
  struct output out = {0};
  if (!f)
    return -1;
  if (!f->write)
    return err_usage(err, "trace format '%s' is read only", format);
  if (t->is_2d != (f == &format_video_csv))
    return err_usage(err, "trace '%s' is %s and cannot be written as %s", trace_name(t),
                     t->is_2d ? "2D (frames x positions: only video_csv holds it)" : "1D (lengths)", format);
  if (is_compressed_name(path))
    return err_usage(err, "trace '%s': traces are written uncompressed; write to - and pipe into gzip or zstd", path);
  if (output_open(&out, path, err))
    return -1;
  if (f->write(t, out.file, err)) {
    output_discard(&out);
    return -1;
  }
  return output_commit(&out, err);
}

void trace_formats_list(FILE *out) {
  for (int i = 0; i < FORMATS; i++)
    fprintf(out, "%-12s %s%s\n", trace_formats[i]->name, trace_formats[i]->help,
            trace_formats[i]->write ? "" : " (read only)");
  fprintf(out, "Any of them may be compressed with gzip or zstd. Parquet, Arrow and Feather are not read: the message "
               "says how to convert them.\n");
}
