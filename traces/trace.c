#include "traces/trace.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/share.h"
#include "sim/base/units.h"
#include "traces/format.h"
#include "traces/shipped.h"

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static int no_such_trace(const char *path, struct err *err) {
  char names[256];
  const char *list[16] = {NULL}; /* NULL-terminated */
  shipped_trace_names(names, sizeof names);
  for (int i = 0; i + 1 < (int)(sizeof list / sizeof *list) && shipped_trace_at(i); i++)
    list[i] = shipped_trace_at(i)->name;
  const char *near = nearest_word(path, list);
  return err_usage(err, "trace '%s': no such file, and no shipped trace of that name%s%s%s (shipped: %s)", path,
                   near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "", names);
}

/* Reads a whole open source into the sink; *format is set as soon as it is known. */
static int read_source(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                       const struct trace_format **format, struct err *err) {
  *format = trace_format_detect(src, options, err);
  if (!*format || (*format)->read(src, options, sink, err))
    return -1;
  if (sink->n == 0 && sink->skipped_bad > 0)
    return err_set(err, "trace '%s': no good sample in it (%lld bad ones skipped)", sink->path,
                   (long long)sink->skipped_bad);
  if (sink->n == 0)
    return err_set(err, "trace '%s': no lengths in it", sink->path);
  return 0;
}

static int load_file(struct trace *out, const char *path, const char *shown, const char *name,
                     const struct trace_options *options, struct err *err) {
  struct trace_sink sink = {.path = shown, .place = "line", .skip_bad = options->skip_bad};
  const struct trace_format *format;
  struct trace_source src;
  bool missing = false;
  if (trace_source_open(&src, path, shown, &missing, err))
    return missing ? no_such_trace(path, err) : -1;
  int rc = read_source(&src, options, &sink, &format, err);
  trace_source_release(&src);
  if (rc) {
    free(sink.samples);
    free(sink.batch);
    return -1;
  }
  *out = (struct trace){
      .name = xstrdup(name),
      .format = format->name,
      .is_2d = sink.is_2d,
      .samples = xrealloc(sink.samples, size_mul(sink.n, sizeof *sink.samples)),
      .n = (int64_t)sink.n,
      .batch = sink.batch,
      .skipped_bad = sink.skipped_bad,
  };
  return 0;
}

int trace_load(struct trace *out, const char *name_or_path, const struct trace_options *options, struct err *err) {
  static const struct trace_options defaults;
  const struct shipped_trace *shipped = shipped_trace_find(name_or_path);
  char path[4096];
  options = options ? options : &defaults;
  if (!*name_or_path)
    return no_such_trace("", err);
  if (strcmp(name_or_path, "-") == 0)
    return load_file(out, "-", "stdin", "stdin", options, err);
  if (!shipped)
    return load_file(out, name_or_path, name_or_path, base_name(name_or_path), options, err);
  if (share_path(path, sizeof path, shipped->file))
    return err_set(err, "trace '%s': its file %s is not installed; set DCPSIM_SHARE to the folder that holds traces/",
                   shipped->name, shipped->file);
  return load_file(out, path, path, shipped->name, options, err);
}

void trace_release(struct trace *t) {
  free(t->name);
  free(t->samples);
  free(t->batch);
  *t = (struct trace){0};
}

int64_t trace_tokens(const struct trace *t) {
  int64_t sum = 0;
  for (int64_t i = 0; i < t->n; i++)
    sum += sample_tokens(t->samples[i]);
  return sum;
}

int64_t trace_batches(const struct trace *t) {
  int64_t batches = 0;
  for (int64_t i = 0; t->batch && i < t->n; i++)
    batches += i == 0 || t->batch[i] != t->batch[i - 1];
  return batches;
}

/* Least significant digit first, 11 bits at a time: lengths have 30 bits, so three passes sort a million in 10 ms. */
uint64_t *trace_sorted_tokens(const struct sample *samples, int64_t n) {
  enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS };
  size_t count = (size_t)n, bytes = size_mul(count + 1, sizeof(uint64_t));
  uint64_t *from = xmalloc(bytes), *to = xmalloc(bytes), all = 0;
  for (size_t i = 0; i < count; i++)
    all |= from[i] = (uint64_t)sample_tokens(samples[i]);
  for (int shift = 0; shift < 64 && all >> shift; shift += DIGIT_BITS) {
    size_t start[DIGITS] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
      start[from[i] >> shift & (DIGITS - 1)]++;
    for (int d = 0; d < DIGITS; d++) {
      size_t here = start[d];
      start[d] = sum;
      sum += here;
    }
    for (size_t i = 0; i < count; i++)
      to[start[from[i] >> shift & (DIGITS - 1)]++] = from[i];
    uint64_t *swap = from;
    from = to;
    to = swap;
  }
  free(to);
  return from;
}

uint64_t trace_quantile(const uint64_t *sorted, int64_t n, double percent) {
  ASSERT(n > 0 && percent >= 0 && percent <= 100);
  return sorted[(int64_t)((double)(n - 1) * percent / 100 + 0.5)];
}

void trace_list(FILE *out) {
  const struct shipped_trace *s;
  for (int i = 0; (s = shipped_trace_at(i)) != NULL; i++)
    fprintf(out, "%-16s %9lld samples %11lld tokens  %s\n", s->name, (long long)s->samples, (long long)s->tokens,
            s->help);
}
