/* CSV of length,weight: a distribution, from which samples are drawn with the seed. Rows are few and kept in memory. */
#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/rng.h"
#include "sim/base/units.h"
#include "traces/csv.h"

#define HISTOGRAM_DEFAULT_DRAWS 100000
#define HISTOGRAM_MAX_ROWS 10000000u

static bool detect(const struct trace_peek *peek) {
  return !peek->column && csv_line_has(peek->line, peek->line_n, "length") &&
         csv_line_has(peek->line, peek->line_n, "weight");
}

struct weights {
  double *v;
  size_t n, cap;
};

static bool parse_weight(struct csv_field f, double *out) {
  char copy[64], *end;
  if (f.n == 0 || f.n >= sizeof copy)
    return false;
  memcpy(copy, f.s, f.n);
  copy[f.n] = 0;
  *out = strtod(copy, &end);
  return *end == 0 && isfinite(*out) && *out >= 0;
}

static int read_rows(struct trace_source *src, const struct csv_table *table, struct trace_sink *rows,
                     struct weights *weights, struct err *err) {
  int length_at = csv_find(table, (const char *const[]){"length", NULL});
  int weight_at = csv_find(table, (const char *const[]){"weight", NULL});
  struct csv_field record, length, weight;
  int64_t line;
  int rc;
  if (length_at < 0 || weight_at < 0)
    return csv_no_column(table, rows, src->line, length_at < 0 ? "length" : "weight", err);
  while ((rc = csv_record(src, table, rows, &record, &line, err)) > 0) {
    double w = 0;
    size_t before = rows->n;
    if (!csv_get(&record, table->separator, length_at, &length))
      length = (struct csv_field){"", 0};
    if (!csv_get(&record, table->separator, weight_at, &weight) || !parse_weight(weight, &w)) {
      if (trace_sink_bad(rows, line, err, "'weight' must be a number >= 0"))
        return -1;
      continue;
    }
    if (trace_sink_text(rows, line, "'length'", length.s, length.n, err))
      return -1;
    if (rows->n > before)
      VEC_PUSH(weights->v, weights->n, weights->cap, w);
    if (rows->n > HISTOGRAM_MAX_ROWS)
      return trace_sink_broken(rows, line, err, "a histogram of more than %u rows", HISTOGRAM_MAX_ROWS);
  }
  return rc;
}

static int draw(const struct trace_sink *rows, const struct weights *weights, int64_t draws, uint64_t seed,
                struct trace_sink *sink, struct err *err) {
  double sum = 0;
  struct rng rng;
  for (size_t i = 0; i < weights->n; i++)
    sum += weights->v[i];
  if (!(sum > 0) || !isfinite(sum))
    return err_set(err, "trace '%s': the weights of the histogram must have a positive sum", sink->path);
  gsl_ran_discrete_t *table = gsl_ran_discrete_preproc(weights->n, weights->v);
  ASSERT(table);
  rng_init(&rng, seed, "trace histogram");
  int rc = 0;
  for (int64_t i = 0; i < draws && rc == 0; i++)
    rc = trace_sink_add(sink, i, rows->samples[gsl_ran_discrete(rng.gsl, table)], err);
  rng_release(&rng);
  gsl_ran_discrete_free(table);
  return rc;
}

static int read_histogram(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                          struct err *err) {
  struct trace_sink rows = {.path = sink->path, .place = sink->place, .skip_bad = sink->skip_bad};
  struct weights weights = {0};
  struct csv_table table;
  if (csv_table_open(&table, src, sink, err))
    return -1;
  int rc = read_rows(src, &table, &rows, &weights, err);
  sink->skipped_bad = rows.skipped_bad;
  if (rc == 0 && rows.n > 0)
    rc = draw(&rows, &weights, options->draws > 0 ? options->draws : HISTOGRAM_DEFAULT_DRAWS, options->seed, sink, err);
  csv_table_release(&table);
  free(rows.samples);
  free(weights.v);
  return rc;
}

const struct trace_format format_histogram = {
    .name = "histogram",
    .help = "CSV of length,weight: --samples N (100000) lengths are drawn with --seed",
    .detect = detect,
    .read = read_histogram,
};
