/* One JSON array of numbers (or of objects that hold a length). */
#include "traces/format.h"
#include "traces/json_array.h"

static bool detect(const struct trace_peek *peek) { return peek->line_n && *peek->line == '['; }

static int read_json(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                     struct err *err) {
  char c;
  src->line = 1;
  int rc = json_array_char(src, &c, err);
  if (rc < 0)
    return -1;
  if (rc == 0 || c != '[')
    return trace_sink_broken(sink, src->line, err, "a JSON array begins with '['");
  if (json_array_lengths(src, options->column, sink, err))
    return -1;
  rc = json_array_char(src, &c, err);
  if (rc > 0)
    return trace_sink_broken(sink, src->line, err, "data after the end of the JSON array");
  return rc;
}

static int write_json(const struct trace *t, FILE *out, struct err *err) {
  (void)err;
  fputc('[', out);
  for (int64_t i = 0; i < t->n; i++)
    fprintf(out, "%s%u", i == 0 ? "" : i % 20 ? ", " : ",\n", t->samples[i].a);
  fputs("]\n", out);
  return 0;
}

const struct trace_format format_json = {
    .name = "json",
    .suffix = ".json",
    .help = "one JSON array of numbers, or of objects as in jsonl",
    .detect = detect,
    .read = read_json,
    .write = write_json,
};
