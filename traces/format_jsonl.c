/* JSON Lines: one object per line. */
#include <string.h>

#include "traces/format.h"
#include "traces/json_length.h"
#include "traces/json_scan.h"

struct length_key {
  const char *name;
  bool number, size;
};

static const struct length_key default_keys[] = {
    {"length", true, false},       {"num_tokens", true, false}, {"seq_len", true, false},
    {"input_length", true, false}, {"input_ids", true, true},   {"tokens", true, true},
};

static bool detect(const struct trace_peek *peek) { return peek->line_n && *peek->line == '{'; }

/* The value of the best key in *out and its number in *which (-1: none). False: not a JSON object. */
static bool find_value(const char *s, size_t n, const struct length_key *keys, int n_keys, struct json_span *out,
                       int *which) {
  struct json_cursor c = {s, s + n};
  struct json_span key, value;
  bool ok;
  *which = -1;
  json_scan_space(&c);
  if (!json_scan_object_begin(&c))
    return false;
  for (bool first = true; json_scan_object_next(&c, first, &key, &value, &ok); first = false)
    for (int k = 0; k < n_keys && (*which < 0 || k <= *which); k++)
      if (strlen(keys[k].name) == key.n && memcmp(keys[k].name, key.s, key.n) == 0) {
        *which = k;
        *out = value;
      }
  json_scan_space(&c);
  return ok && c.p == c.end;
}

int json_length_add(struct trace_sink *sink, int64_t line, const char *s, size_t n, const char *column,
                    struct err *err) {
  const struct length_key named = {column, true, true};
  const struct length_key *keys = column ? &named : default_keys;
  int n_keys = column ? 1 : (int)(sizeof default_keys / sizeof *default_keys), which;
  struct json_span value = {0};
  char label[64];
  if (!find_value(s, n, keys, n_keys, &value, &which))
    return trace_sink_bad(sink, line, err, "not a JSON object: '%s'", excerpt_make(s, n).text);
  if (which < 0 && column)
    return trace_sink_bad(sink, line, err, "no key '%s'", column);
  if (which < 0)
    return trace_sink_bad(sink, line, err,
                          "none of the keys length, num_tokens, seq_len, input_length, input_ids, tokens; name one "
                          "with --column");
  snprintf(label, sizeof label, "'%s'", excerpt_make(keys[which].name, strlen(keys[which].name)).text);
  if (value.kind == JSON_SCAN_NUMBER && keys[which].number)
    return trace_sink_text(sink, line, label, value.s, value.n, err);
  if (value.kind != JSON_SCAN_ARRAY || !keys[which].size)
    return trace_sink_bad(sink, line, err, "%s must be a number%s, got %s", label,
                          keys[which].size ? " or an array" : "", excerpt_make(value.s, value.n).text);
  if (value.elements == 0)
    return trace_sink_bad(sink, line, err, "%s is an empty array", label);
  return trace_sink_int(sink, line, label, value.elements, err);
}

static int read_jsonl(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                      struct err *err) {
  const char *s;
  size_t n;
  int rc;
  while ((rc = trace_source_line(src, &s, &n, err)) > 0) {
    struct json_cursor c = {s, s + n};
    json_scan_space(&c);
    if (c.p < c.end && json_length_add(sink, src->line, c.p, (size_t)(c.end - c.p), options->column, err))
      return -1;
  }
  return rc;
}

static int write_jsonl(const struct trace *t, FILE *out, struct err *err) {
  (void)err;
  for (int64_t i = 0; i < t->n; i++)
    fprintf(out, "{\"length\": %u}\n", t->samples[i].a);
  return 0;
}

const struct trace_format format_jsonl = {
    .name = "jsonl",
    .suffix = ".jsonl",
    .help = "JSON Lines: length, num_tokens, seq_len or input_length, or the size of input_ids or tokens (or --column)",
    .detect = detect,
    .read = read_jsonl,
    .write = write_jsonl,
};
