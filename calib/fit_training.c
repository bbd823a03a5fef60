#include "calib/fit_training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/text_file.h"
#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/base/units.h"

static const double derates[] = {1.00, 1.05, 1.10, 1.15, 1.20, 1.25, 1.30, 1.35, 1.40, 1.45, 1.50};
static const double hosts_s[] = {1e-6, 2e-6, 4e-6, 7e-6, 10e-6, 15e-6, 20e-6, 30e-6, 0}; /* 0: the file's */
enum {
  DERATES = sizeof derates / sizeof derates[0],
  HOSTS = sizeof hosts_s / sizeof hosts_s[0],
  FILE_HOST = HOSTS - 1
};

struct grid {
  size_t rows;
  int *source; /* of each row */
  int n_sources;
  int rows_of[FIT_SOURCES_MAX];
  double (*log_ratio)[HOSTS][DERATES]; /* of predicted over measured, by row */
};

static double host_of(const struct training_fit *fit, int host) {
  return host == FILE_HOST ? fit->before.host_op_s : hosts_s[host];
}

/* log(predicted / measured) of a row, between the derates of the grid. */
static double row_log_ratio(const struct grid *g, size_t row, int host, double derate) {
  const double *v = g->log_ratio[row][host];
  int i = 0;
  while (i + 2 < DERATES && derates[i + 1] <= derate)
    i++;
  double w = (derate - derates[i]) / (derates[i + 1] - derates[i]);
  return log((1 - w) * exp(v[i]) + w * exp(v[i + 1]));
}

static double huber(double x) {
  const double limit = 0.10;
  x = fabs(x);
  return x <= limit ? x * x / 2 : limit * (x - limit / 2);
}

/* Of all sources but `without` (-1: of all). */
static double loss(const struct grid *g, int host, double derate, int without) {
  double sum = 0;
  for (size_t i = 0; i < g->rows; i++)
    if (g->source[i] != without)
      sum += huber(row_log_ratio(g, i, host, derate)) / g->rows_of[g->source[i]];
  return sum;
}

/* Golden section over the derate; the loss has one minimum, as every row's time rises with it. */
static double best_derate(const struct grid *g, int host, int without) {
  const double golden = 0.6180339887498949;
  double low = derates[0], high = derates[DERATES - 1];
  for (int i = 0; i < 60; i++) {
    double a = high - golden * (high - low), b = low + golden * (high - low);
    if (loss(g, host, a, without) <= loss(g, host, b, without))
      high = b;
    else
      low = a;
  }
  return floor((low + high) / 2 * 1e4 + 0.5) / 1e4;
}

/* The host time of the grid with the least loss, the file's where it is as good to 1 %. */
static int best_host(const struct grid *g, int without, double *derate) {
  int best = FILE_HOST;
  double losses[HOSTS], best_derates[HOSTS];
  for (int h = 0; h < HOSTS; h++) {
    best_derates[h] = best_derate(g, h, without);
    losses[h] = loss(g, h, best_derates[h], without);
  }
  for (int h = 0; h < HOSTS; h++)
    if (losses[h] < 0.99 * losses[FILE_HOST] && losses[h] < losses[best])
      best = h;
  *derate = best_derates[best];
  return best;
}

static double mean_error(const struct grid *g, int host, double derate, int source) {
  double sum = 0;
  size_t n = 0;
  for (size_t i = 0; i < g->rows; i++)
    if (source < 0 || g->source[i] == source) {
      sum += fabs(exp(row_log_ratio(g, i, host, derate)) - 1);
      n++;
    }
  return n ? sum / (double)n : 0;
}

/* "OWNER/REPO" of a source, or the whole of it. */
static void repository(const char *source, char *buf, size_t size) {
  const char *start = strncmp(source, "github ", 7) == 0 ? source + 7 : source;
  snprintf(buf, size, "%.*s", (int)strcspn(start, " "), start);
}

static int find_source(struct training_fit *fit, const char *name) {
  for (int i = 0; i < fit->n_sources; i++)
    if (strcmp(fit->sources[i].name, name) == 0)
      return i;
  ASSERT(fit->n_sources < FIT_SOURCES_MAX);
  snprintf(fit->sources[fit->n_sources].name, sizeof fit->sources[0].name, "%s", name);
  return fit->n_sources++;
}

static bool is_fitted(const struct training_check_row *row, const char *framework) {
  return row->c.for_fit && strcmp(row->c.framework.name, framework) == 0;
}

static void fill_sources(struct training_fit *fit, struct grid *g, const struct training_check *check, bool by_table) {
  fit->n_sources = 0;
  size_t n = 0;
  for (size_t i = 0; i < check->n_rows; i++) {
    char name[160];
    if (!is_fitted(&check->rows[i], fit->framework))
      continue;
    if (by_table)
      training_source_label(check->rows[i].c.source, name, sizeof name);
    else
      repository(check->rows[i].c.source, name, sizeof name);
    g->source[n++] = find_source(fit, name);
  }
  memset(g->rows_of, 0, sizeof g->rows_of);
  for (size_t i = 0; i < n; i++)
    g->rows_of[g->source[i]]++;
  g->n_sources = fit->n_sources;
}

static void fill_grid(struct training_fit *fit, struct grid *g, const struct training_check *check,
                      const struct params *params) {
  size_t n = 0;
  for (size_t i = 0; i < check->n_rows; i++) {
    const struct training_check_row *row = &check->rows[i];
    if (!is_fitted(row, fit->framework))
      continue;
    for (int h = 0; h < HOSTS; h++)
      for (int d = 0; d < DERATES; d++) {
        const struct in_step_scalars scalars = {derates[d], host_of(fit, h)};
        struct training_prediction p;
        training_predict(&row->c, params, &scalars, &p);
        g->log_ratio[n][h][d] = log(p.step_s / row->c.measured_step_s);
      }
    n++;
  }
}

static void leave_out(struct training_fit *fit, const struct grid *g, int host) {
  for (int s = 0; s < fit->n_sources; s++) {
    struct training_fit_source *out = &fit->sources[s];
    double derate;
    out->rows = (size_t)g->rows_of[s];
    out->mean_with = mean_error(g, host, fit->scalars.compute_derate, s);
    out->without = fit->before;
    if (fit->n_sources > 1) {
      int other = best_host(g, s, &derate);
      out->without = (struct in_step_scalars){derate, host_of(fit, other)};
      out->mean_without = mean_error(g, other, derate, s);
    }
  }
}

void training_fit_run(struct training_fit *out, const char *framework, const struct training_check *check,
                      const struct params *params) {
  *out = (struct training_fit){.framework = framework, .before = params_in_step(params, framework)};
  struct grid g = {0};
  for (size_t i = 0; i < check->n_rows; i++)
    g.rows += is_fitted(&check->rows[i], framework);
  out->rows = g.rows;
  out->scalars = out->before;
  if (!g.rows)
    return;
  g.source = xcalloc(g.rows, sizeof *g.source);
  g.log_ratio = xcalloc(g.rows, sizeof *g.log_ratio);
  fill_grid(out, &g, check, params);
  fill_sources(out, &g, check, false);
  int host = best_host(&g, -1, &out->scalars.compute_derate);
  out->scalars.host_op_s = host_of(out, host);
  out->host_op_determined = host != FILE_HOST;
  out->mean_before = mean_error(&g, FILE_HOST, fmin(out->before.compute_derate, derates[DERATES - 1]), -1);
  out->mean_after = mean_error(&g, host, out->scalars.compute_derate, -1);
  double least = loss(&g, host, out->scalars.compute_derate, -1);
  for (int h = 0; h < HOSTS; h++)
    if (loss(&g, h, best_derate(&g, h, -1), -1) <= 1.01 * least)
      out->host_op_max_s = fmax(out->host_op_max_s, host_of(out, h));
  if (out->n_sources == 1)
    fill_sources(out, &g, check, true);
  leave_out(out, &g, host);
  free(g.source);
  free(g.log_ratio);
}

/* ---- output ---- */

void training_fit_write_table(FILE *out, const struct training_fit *fits, int n) {
  for (int i = 0; i < n; i++) {
    const struct training_fit *f = &fits[i];
    fprintf(out, "%s%s: %zu H100 rows\n", i ? "\n" : "", f->framework, f->rows);
    fprintf(out, "  compute_derate %.4f -> %.4f, host_op_s %.3g -> %.3g (%s; up to %.3g s the error is the same)\n",
            f->before.compute_derate, f->scalars.compute_derate, f->before.host_op_s, f->scalars.host_op_s,
            f->host_op_determined ? "fitted" : "kept: the rows do not determine it", f->host_op_max_s);
    fprintf(out, "  mean absolute error of the step time %.1f %% -> %.1f %%\n", 100 * f->mean_before,
            100 * f->mean_after);
    fprintf(out, "  %-62s %5s %10s %16s %10s\n", "left out", "rows", "its error", "fitted without", "derate");
    for (int s = 0; s < f->n_sources; s++)
      fprintf(out, "  %-62.62s %5zu %8.1f %% %14.1f %% %10.4f\n", f->sources[s].name, f->sources[s].rows,
              100 * f->sources[s].mean_with, 100 * f->sources[s].mean_without, f->sources[s].without.compute_derate);
  }
}

static void json_fit(struct json_writer *w, const struct training_fit *f) {
  json_begin_object(w);
  json_key_str(w, "framework", f->framework);
  json_key_int(w, "rows", (int64_t)f->rows);
  json_key_double(w, "compute_derate", f->scalars.compute_derate);
  json_key_double(w, "host_op_s", f->scalars.host_op_s);
  json_key_bool(w, "host_op_determined", f->host_op_determined);
  json_key_double(w, "host_op_max_s", f->host_op_max_s);
  json_key_double(w, "mean_abs_rel_error_before", f->mean_before);
  json_key_double(w, "mean_abs_rel_error", f->mean_after);
  json_key(w, "leave_one_out");
  json_begin_array(w);
  for (int s = 0; s < f->n_sources; s++) {
    json_begin_object(w);
    json_key_str(w, "source", f->sources[s].name);
    json_key_int(w, "rows", (int64_t)f->sources[s].rows);
    json_key_double(w, "mean_abs_rel_error", f->sources[s].mean_with);
    json_key_double(w, "mean_abs_rel_error_left_out", f->sources[s].mean_without);
    json_key_double(w, "compute_derate_without", f->sources[s].without.compute_derate);
    json_end_object(w);
  }
  json_end_array(w);
  json_end_object(w);
}

void training_fit_write_json(FILE *out, const struct training_fit *fits, int n) {
  struct json_writer w = {.file = out, .indent = true};
  json_begin_object(&w);
  json_key_str(&w, "schema", "dcpsim.fit_training/1");
  json_key(&w, "fits");
  json_begin_array(&w);
  for (int i = 0; i < n; i++)
    json_fit(&w, &fits[i]);
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}

/* ---- the parameter file ---- */

/* The end of the object that begins at `open`, one past its bracket; NULL if there is none. */
static const char *object_end(const char *open) {
  int depth = 0;
  bool in_string = false;
  for (const char *s = open; *s; s++) {
    if (in_string && *s == '\\' && s[1])
      s++;
    else if (*s == '"')
      in_string = !in_string;
    else if (!in_string && *s == '{')
      depth++;
    else if (!in_string && *s == '}' && --depth == 0)
      return s + 1;
  }
  return NULL;
}

static void write_scalars(FILE *out, const char *name, const struct training_fit *f, const char *sha256, bool last) {
  char derate[32], host[32];
  double_text(f->scalars.compute_derate, derate);
  double_text(f->scalars.host_op_s, host);
  fprintf(out, "    \"%s\": {\n      \"compute_derate\": %s,\n      \"host_op_s\": %s,\n      \"source\": \"", name,
          derate, host);
  fprintf(out,
          "calibrate fit-training: %zu H100 rows of calib/data/training_throughput.csv (sha256 %.12s), mean error %.1f "
          "%%; ",
          f->rows, sha256, 100 * f->mean_after);
  fprintf(out, "host_op_s %s\"\n    }%s\n",
          f->host_op_determined ? "fitted" : "not determined by these rows: as estimated before", last ? "" : ",");
}

int training_fit_update_file(const char *path, const struct training_fit *fits, int n, const char *rows_sha256,
                             struct err *err) {
  char *text = NULL;
  size_t size;
  struct output out = {0};
  int rc = -1;
  if (text_file_read("parameters", path, &text, &size, err))
    return -1;
  const char *key = strstr(text, "\"in_step\""), *open = key ? strchr(key, '{') : NULL;
  const char *end = open ? object_end(open) : NULL;
  if (!end) {
    err_set(err, "parameters '%s': no object 'in_step'", path);
    goto out;
  }
  if (output_open(&out, path, err))
    goto out;
  fwrite(text, 1, (size_t)(open - text), out.file);
  fputs("{\n", out.file);
  for (int i = 0; i < n; i++) {
    bool eager = strcmp(fits[i].framework, "eager") == 0;
    write_scalars(out.file, fits[i].framework, &fits[i], rows_sha256, i + 1 == n && !eager);
    if (eager)
      write_scalars(out.file, "eager_apex", &fits[i], rows_sha256, i + 1 == n);
  }
  fputs("  }", out.file);
  fputs(end, out.file);
  rc = output_commit(&out, err);
out:
  output_discard(&out);
  free(text);
  return rc;
}
