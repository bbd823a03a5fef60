#include "calib/leave_out.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "calib/check.h"
#include "sim/base/sorted.h"
#include "sim/base/units.h"

enum part { GEMM, CAUSAL, FULL, COLLECTIVES, PARTS, NOT_SCORED = -1 };
static const char *const part_names[PARTS] = {"gemm", "attention_forward causal", "attention_forward full",
                                              "collectives on one node"};

static const struct column {
  const char *name;
  enum row_class class;
  int place, section;
} columns[] = {
    {"m", ROW_GEMM, SHAPE_M, SECTION_GEMM},
    {"n", ROW_GEMM, SHAPE_N, SECTION_GEMM},
    {"k", ROW_GEMM, SHAPE_K, SECTION_GEMM},
    {"seqlen", ROW_ATTENTION, SHAPE_SEQLEN, SECTION_ATTENTION},
    {"batch", ROW_ATTENTION, SHAPE_BATCH, SECTION_ATTENTION},
    {"heads", ROW_ATTENTION, SHAPE_HEADS, SECTION_ATTENTION},
    {"bytes", ROW_COLLECTIVE, SHAPE_BYTES, SECTION_NETWORK},
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Distinct values of the column in one part, rising. */
struct values {
  int64_t *v;
  size_t n, cap;
};

/* One refit: leaves out `value`, or each part's two largest. */
struct job {
  int64_t value;
  bool largest;
};

struct work {
  const struct fit_source *source;
  const struct json_doc *constants;
  const struct column *column;
  const struct fit_sections *full;
  struct cluster cluster;
  struct values values[PARTS];
  struct job *jobs;
  size_t n_jobs, jobs_cap;
  atomic_size_t next, done;
  double *interior, *largest; /* predictions by row */
  size_t *first;              /* of each own file, in these */
  pthread_mutex_t lock;       /* of what follows */
  int rc;
  struct err err;
};

static bool names_library(const struct rows *rows, size_t i) {
  const struct table *t = &rows->table;
  return *table_field(t, i, table_column(t, "library")) || *table_field(t, i, table_column(t, "device"));
}

static int part_of(const struct work *w, size_t f, size_t i) {
  const struct rows *rows = &w->source->own.files[f];
  const struct row *row = &rows->v[i];
  if (row_op_class(row->op) != w->column->class || !fit_uses(w->source, &w->source->own, f, i))
    return NOT_SCORED;
  switch (w->column->class) {
  case ROW_GEMM:
    return row->op == ROW_OP_GEMM ? GEMM : NOT_SCORED;
  case ROW_ATTENTION:
    if (row->op != ROW_OP_ATTENTION_FORWARD || names_library(rows, i))
      return NOT_SCORED;
    return row->shape[SHAPE_CAUSAL] ? CAUSAL : FULL;
  case ROW_COLLECTIVE:
    return row->shape[SHAPE_NODES] == 1 && row->op <= ROW_OP_SEND_RECV ? COLLECTIVES : NOT_SCORED;
  case ROW_MEMORY:
    break;
  }
  return NOT_SCORED;
}

static int compare_values(const void *a, const void *b) {
  const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static bool contains(const struct values *v, int64_t x) {
  return v->n > 0 && bsearch(&x, v->v, v->n, sizeof x, compare_values);
}

static bool is_interior(const struct values *v, int64_t x) { return v->n > 2 && x > v->v[0] && x < v->v[v->n - 1]; }

static bool is_largest(const struct values *v, int64_t x) { return v->n > 3 && x >= v->v[v->n - 2]; }

static void add_value(struct values *v, int64_t x) {
  if (contains(v, x))
    return;
  VEC_PUSH(v->v, v->n, v->cap, x);
  qsort(v->v, v->n, sizeof *v->v, compare_values);
}

static void plan_jobs(struct work *w) {
  struct values all = {NULL, 0, 0};
  for (size_t f = 0; f < w->source->own.n_files; f++)
    for (size_t i = 0; i < w->source->own.files[f].table.n_rows; i++) {
      int part = part_of(w, f, i);
      if (part != NOT_SCORED)
        add_value(&w->values[part], w->source->own.files[f].v[i].shape[w->column->place]);
    }
  for (int p = 0; p < PARTS; p++)
    for (size_t i = 1; i + 1 < w->values[p].n; i++)
      add_value(&all, w->values[p].v[i]);
  if (all.n > 0) { /* the longest first: nothing waits for it at the end */
    struct job job = {0, true};
    VEC_PUSH(w->jobs, w->n_jobs, w->jobs_cap, job);
  }
  for (size_t i = 0; i < all.n; i++) {
    struct job job = {all.v[i], false};
    VEC_PUSH(w->jobs, w->n_jobs, w->jobs_cap, job);
  }
  free(all.v);
}

/* Whether the job leaves this row out of the fit, and, if it is to be scored, its part. */
static bool leaves_out(const struct work *w, const struct job *job, const struct rows *rows, size_t i, int part) {
  const int64_t value = rows->v[i].shape[w->column->place];
  if (row_op_class(rows->v[i].op) != w->column->class)
    return false;
  if (!job->largest)
    return value == job->value && !(w->column->class == ROW_ATTENTION && names_library(rows, i));
  return part != NOT_SCORED && is_largest(&w->values[part], value);
}

static bool **skip_rows(const struct work *w, const struct job *job, const struct fit_rows *rows, bool own) {
  bool **skip = xcalloc(rows->n_files + 1, sizeof *skip);
  for (size_t f = 0; f < rows->n_files; f++) {
    skip[f] = xcalloc(rows->files[f].table.n_rows, sizeof **skip);
    for (size_t i = 0; i < rows->files[f].table.n_rows; i++) {
      int part = own ? part_of(w, f, i) : w->column->class == ROW_GEMM ? GEMM : NOT_SCORED;
      skip[f][i] = leaves_out(w, job, &rows->files[f], i, part);
    }
  }
  return skip;
}

static void free_skip(bool **skip) {
  for (size_t f = 0; skip[f]; f++)
    free(skip[f]);
  free(skip);
}

static int predict(const struct work *w, const struct job *job, const char *text, struct err *err) {
  struct params *params = NULL;
  if (params_parse(&params, w->source->device, text, err))
    return -1;
  const struct row_predictor predictor = {params, &w->cluster};
  for (size_t f = 0; f < w->source->own.n_files; f++)
    for (size_t i = 0; i < w->source->own.files[f].table.n_rows; i++) {
      const struct rows *rows = &w->source->own.files[f];
      const int part = part_of(w, f, i);
      const char *why_not;
      if (part == NOT_SCORED || !leaves_out(w, job, rows, i, part))
        continue;
      if (!job->largest && !is_interior(&w->values[part], rows->v[i].shape[w->column->place]))
        continue;
      (job->largest ? w->largest : w->interior)[w->first[f] + i] = row_predict_s(&predictor, rows, i, &why_not);
    }
  params_free(params);
  return 0;
}

static int run_job(const struct work *w, const struct job *job, struct err *err) {
  struct fit_sections sections = {NULL, NULL, NULL};
  struct fit_source source = *w->source;
  bool **own = skip_rows(w, job, &source.own, true), **sibling = skip_rows(w, job, &source.sibling, false);
  source.own.skip = (const bool *const *)own;
  source.sibling.skip = (const bool *const *)sibling;
  int rc = fit_update(&sections, w->column->section, &source, w->constants, err);
  if (rc == 0) {
    const struct fit_sections whole = {sections.gemm ? sections.gemm : w->full->gemm,
                                       sections.attention ? sections.attention : w->full->attention,
                                       sections.network ? sections.network : w->full->network};
    char *text = fit_text(&whole, &source, w->constants, "{}");
    rc = predict(w, job, text, err);
    free(text);
  } else if (job->largest) {
    err_prefix(err, "without the two largest values of '%s'", w->column->name);
  } else {
    err_prefix(err, "without '%s' = %lld", w->column->name, (long long)job->value);
  }
  free_skip(own);
  free_skip(sibling);
  fit_sections_release(&sections);
  return rc;
}

static void *run_jobs(void *argument) {
  struct work *w = argument;
  for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n_jobs;) {
    struct err err = {.set = false};
    if (run_job(w, &w->jobs[i], &err)) {
      pthread_mutex_lock(&w->lock);
      if (w->rc == 0)
        w->err = err;
      w->rc = -1;
      pthread_mutex_unlock(&w->lock);
    }
    atomic_fetch_add(&w->done, 1);
  }
  return NULL;
}

static int run_all(struct work *w, const struct leave_out_options *options, struct err *err) {
  enum { THREADS_MAX = 64 };
  pthread_t threads[THREADS_MAX];
  const int n = (int)int64_max(1, int64_min(options->threads, THREADS_MAX));
  int started = 0;
  while (started < n && pthread_create(&threads[started], NULL, run_jobs, w) == 0)
    started++;
  if (started == 0)
    run_jobs(w);
  while (options->progress && atomic_load(&w->done) < w->n_jobs) {
    const struct timespec pause = {0, 100 * 1000 * 1000};
    options->progress(options->to, atomic_load(&w->done), w->n_jobs);
    nanosleep(&pause, NULL);
  }
  for (int i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  return w->rc ? err_set(err, "%s", w->err.msg) : 0;
}

static void score(const struct work *w, struct leave_out *out, int part, bool largest) {
  const double *predicted = largest ? w->largest : w->interior;
  double *errors = NULL, sum = 0;
  size_t n = 0, cap = 0;
  for (size_t f = 0; f < w->source->own.n_files; f++)
    for (size_t i = 0; i < w->source->own.files[f].table.n_rows; i++)
      if (predicted[w->first[f] + i] > 0 && part_of(w, f, i) == part) {
        double error = fabs(predicted[w->first[f] + i] / w->source->own.files[f].v[i].time_s - 1);
        VEC_PUSH(errors, n, cap, error);
        sum += error;
      }
  if (n == 0)
    return;
  sort_doubles(errors, n);
  out->groups[out->n_groups++] = (struct leave_out_group){.op = part_names[part],
                                                          .largest = largest,
                                                          .rows = n,
                                                          .values = largest ? 2 : w->values[part].n - 2,
                                                          .median = sorted_quantile(errors, n, 50),
                                                          .p90 = sorted_quantile(errors, n, 90),
                                                          .max = errors[n - 1],
                                                          .mean = sum / (double)n};
  free(errors);
}

static const struct column *column_of(const char *name, struct err *err) {
  for (int i = 0; i < COLUMNS; i++)
    if (strcmp(columns[i].name, name) == 0)
      return &columns[i];
  err_usage(err, "--leave-out: no column '%s' to leave out (valid: m, n, k, seqlen, batch, heads, bytes)", name);
  return NULL;
}

static int load_cluster(struct cluster *cluster, const char *device, struct err *err) {
  char name[80];
  snprintf(name, sizeof name, "%.*s_8x1", (int)strcspn(device, "_"), device);
  return cluster_load(cluster, name, NULL) ? cluster_load(cluster, "h200_8x1", err) : 0;
}

int leave_out_run(struct leave_out *out, const struct fit_source *source, const struct json_doc *constants,
                  const struct leave_out_options *options, struct err *err) {
  struct fit_sections full = {NULL, NULL, NULL};
  struct work w = {.source = source, .constants = constants, .full = &full, .lock = PTHREAD_MUTEX_INITIALIZER};
  size_t total = 0;
  int rc = -1;
  *out = (struct leave_out){0};
  w.column = column_of(options->column, err);
  if (!w.column || load_cluster(&w.cluster, source->device, err))
    return -1;
  w.first = xcalloc(source->own.n_files + 1, sizeof *w.first);
  for (size_t f = 0; f < source->own.n_files; f++) {
    w.first[f] = total;
    total += source->own.files[f].table.n_rows;
  }
  w.interior = xcalloc(total + 1, sizeof *w.interior);
  w.largest = xcalloc(total + 1, sizeof *w.largest);
  plan_jobs(&w);
  if (w.n_jobs == 0) {
    err_set(err, "no rows with three values of '%s' to leave one out", options->column);
    goto out;
  }
  if (fit_update(&full, source->defaults ? 0 : SECTION_ALL & ~w.column->section, source, constants, err) ||
      run_all(&w, options, err))
    goto out;
  for (int part = 0; part < PARTS; part++) {
    score(&w, out, part, false);
    score(&w, out, part, true);
  }
  out->refits = w.n_jobs;
  out->predicted_s = w.interior;
  w.interior = NULL;
  rc = 0;
out:
  fit_sections_release(&full);
  for (int part = 0; part < PARTS; part++)
    free(w.values[part].v);
  free(w.jobs);
  free(w.first);
  free(w.interior);
  free(w.largest);
  return rc;
}

void leave_out_release(struct leave_out *out) {
  free(out->predicted_s);
  *out = (struct leave_out){0};
}
