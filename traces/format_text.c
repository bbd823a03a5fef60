/* One integer per line. Blank lines and lines that begin with # are not samples. */
#include <string.h>

#include "traces/format.h"

static bool detect(const struct trace_peek *peek) {
  uint32_t length;
  return !peek->column && peek->line_n && length_parse(peek->line, peek->line_n, &length) == LENGTH_OK;
}

static void trim(const char **s, size_t *n) {
  while (*n && (**s == ' ' || **s == '\t'))
    ++*s, --*n;
  while (*n && ((*s)[*n - 1] == '\r' || (*s)[*n - 1] == ' ' || (*s)[*n - 1] == '\t'))
    --*n;
}

static int add_line(struct trace_sink *sink, int64_t line, const char *s, size_t n, struct err *err) {
  struct sample one = {0, 1};
  enum length_verdict verdict = length_parse(s, n, &one.a);
  if (verdict == LENGTH_OK)
    return trace_sink_add(sink, line, one, err);
  if (verdict == LENGTH_NOT_NUMBER && sink->n == 0)
    return trace_sink_bad(sink, line, err,
                          "expected one positive integer per line, got '%s' (for a CSV with a header, name the column "
                          "with --column)",
                          excerpt_make(s, n).text);
  return trace_sink_text(sink, line, "length", s, n, err);
}

static int read_text(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                     struct err *err) {
  const char *s;
  size_t n;
  int rc;
  (void)options;
  while ((rc = trace_source_line(src, &s, &n, err)) > 0) {
    trim(&s, &n);
    if (n && *s != '#' && add_line(sink, src->line, s, n, err))
      return -1;
  }
  return rc;
}

static int write_text(const struct trace *t, FILE *out, struct err *err) {
  (void)err;
  for (int64_t i = 0; i < t->n; i++)
    fprintf(out, "%u\n", t->samples[i].a);
  return 0;
}

const struct trace_format format_text = {
    .name = "text",
    .suffix = ".txt",
    .help = "one positive integer per line; blank lines and # comments are left out",
    .detect = detect,
    .read = read_text,
    .write = write_text,
};
