/* Sections of a parameter file from rows of `calibrate run`, on any device: no formula of its kernels is known, so the
 * times are sums of terms and a smooth correction (smooth_fit.h), written as tables that rise with work.
 *   GEMM       1, mnk, mk, kn, mn, m, n
 *   attention  per mask and head dim: 1, queries, queries * keys, keys
 *   memory     one floor, and a rate per class */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/check.h"
#include "calib/fit_section.h"
#include "calib/monotone.h"
#include "calib/number_list.h"
#include "calib/run_file.h"
#include "calib/smooth_fit.h"
#include "sim/base/sorted.h"
#include "sim/base/text_stream.h"
#include "sim/base/units.h"

#define NODES_MAX 128
#define RISE_PASSES 12
#define TILE_ROWS 64 /* queries that count as one tile; parts of tiles count as parts */
enum { LEAST_GEMM_ROWS = 12, LEAST_ATTENTION_ROWS = 6, FAMILIES_MAX = 16, LENGTHS_MAX = 64, PAIRS_MAX = 512 };

struct points {
  struct smooth_point *v;
  size_t n, cap;
};

struct nodes {
  double v[NODES_MAX];
  size_t n;
};

static void add_node(struct nodes *nodes, double x) {
  size_t at = 0;
  while (at < nodes->n && nodes->v[at] < x)
    at++;
  if (nodes->n == NODES_MAX || (at < nodes->n && nodes->v[at] == x))
    return;
  memmove(nodes->v + at + 1, nodes->v + at, (nodes->n - at) * sizeof *nodes->v);
  nodes->v[at] = x;
  nodes->n++;
}

static struct nodes powers_of_two(int from, int to) {
  struct nodes nodes = {.n = 0};
  for (int k = from; k <= to; k++)
    add_node(&nodes, exp2(k));
  return nodes;
}

/* ---- GEMM ---- */

static struct smooth_point gemm_point(double m, double n, double k) {
  return (struct smooth_point){.term = {1, m * n * k, m * k, k * n, m * n, m, n}, .place = {log(m), log(n), log(k)}};
}

/* Weight gradients over products of the same shape, as the fit has them. */
static double wgrad_factor(const struct fit_source *s, const struct smooth_fit *fit, double otherwise, size_t *rows) {
  double ratio[PAIRS_MAX];
  *rows = 0;
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
      const struct row *r = &s->own.files[f].v[i];
      if (r->op != ROW_OP_GEMM_WGRAD || !fit_uses(s, &s->own, f, i) || *rows == PAIRS_MAX)
        continue;
      const struct smooth_point at =
          gemm_point((double)r->shape[SHAPE_M], (double)r->shape[SHAPE_N], (double)r->shape[SHAPE_K]);
      ratio[(*rows)++] = r->time_s / exp(smooth_fit_log_s(fit, &at));
    }
  return *rows ? fmin(10, fmax(1, median_sort(ratio, *rows))) : otherwise;
}

static void write_gemm(FILE *out, const struct fit_source *s, const struct smooth_fit *fit, const struct nodes axes[3],
                       double best, const json_t *given) {
  const size_t shape[3] = {axes[0].n, axes[1].n, axes[2].n}, total = shape[0] * shape[1] * shape[2];
  static const char *const names[] = {"m", "n", "k"};
  double *v = xcalloc(total, sizeof *v);
  size_t wgrad_rows;
  const double factor = wgrad_factor(s, fit, json_number_value(json_object_get(given, "wgrad_factor")), &wgrad_rows);
  for (size_t i = 0; i < total; i++) {
    const double m = axes[0].v[i / (shape[1] * shape[2])], n = axes[1].v[i / shape[2] % shape[1]],
                 k = axes[2].v[i % shape[2]];
    const struct smooth_point at = gemm_point(m, n, k);
    v[i] = fmax(smooth_fit_log_s(fit, &at), log(m * n * k) - best); /* nothing beats the fastest row */
  }
  monotone_table(v, shape, 3, RISE_PASSES);
  fprintf(out, "{\n    \"source\": \"%zu rows of calibrate run: a sum of terms and a smooth correction\"", fit->n);
  for (int a = 0; a < 3; a++) {
    fprintf(out, ",\n    \"%s\": ", names[a]);
    number_list(out, axes[a].v, axes[a].n, 9, 6);
  }
  fprintf(out, ",\n    \"wgrad_factor\": %.6g,\n    \"wgrad_source\": \"", factor);
  if (wgrad_rows)
    fprintf(out, "median of %zu rows over the products of their shapes, 1 at least", wgrad_rows);
  else
    fprintf(out, "%s", json_string_value(json_object_get(given, "wgrad_source")));
  fprintf(out, "\",\n    \"time_ns\": ");
  number_list_ns(out, v, total, 6);
  fprintf(out, "\n  }");
  free(v);
}

char *fit_measured_gemm(const struct fit_source *s, const struct json_doc *constants, struct err *err) {
  struct nodes axes[3] = {powers_of_two(0, 15), powers_of_two(5, 16), powers_of_two(5, 16)};
  struct points points = {NULL, 0, 0};
  struct smooth_fit fit;
  char *text = NULL;
  size_t size;
  double best = -INFINITY;
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
      const struct row *r = &s->own.files[f].v[i];
      if (r->op != ROW_OP_GEMM || !fit_uses(s, &s->own, f, i))
        continue;
      struct smooth_point point =
          gemm_point((double)r->shape[SHAPE_M], (double)r->shape[SHAPE_N], (double)r->shape[SHAPE_K]);
      point.time_s = r->time_s;
      point.weight = run_file_weight(&s->own.files[f], i);
      VEC_PUSH(points.v, points.n, points.cap, point);
      best = fmax(best, log(point.term[1]) - log(r->time_s));
      for (int a = 0; a < 3; a++)
        add_node(&axes[a], (double)r->shape[a]);
    }
  if (points.n < LEAST_GEMM_ROWS) {
    err_set(err, "%zu gemm rows are too few to fit %s (at least %d)", points.n, s->device, LEAST_GEMM_ROWS);
    goto out;
  }
  smooth_fit_make(&fit, points.v, points.n, 7, 3);
  FILE *out = text_stream_begin(&text, &size);
  write_gemm(out, s, &fit, axes, best, json_object_get(constants->root, "gemm"));
  text_stream_end(out);
  smooth_fit_release(&fit);
out:
  free(points.v);
  return text;
}

/* ---- Attention ---- */

struct family { /* one mask and head dim */
  bool causal;
  int64_t head_dim;
  struct points points;
  double best; /* log of keys * tiles over seconds, of the fastest row */
};

static struct smooth_point attention_point(double keys, double tiles) {
  return (struct smooth_point){.term = {1, tiles, tiles * keys, keys}, .place = {log(keys), log(tiles)}};
}

static int compare_families(const void *a, const void *b) {
  const struct family *x = a, *y = b;
  return x->causal != y->causal ? x->causal - y->causal : (x->head_dim > y->head_dim) - (x->head_dim < y->head_dim);
}

static struct family *family_of(struct family *all, size_t *n, const struct row *r) {
  const bool causal = r->shape[SHAPE_CAUSAL] != 0;
  for (size_t i = 0; i < *n; i++)
    if (all[i].causal == causal && all[i].head_dim == r->shape[SHAPE_HEAD_DIM])
      return &all[i];
  if (*n == FAMILIES_MAX)
    return NULL;
  all[*n] = (struct family){.causal = causal, .head_dim = r->shape[SHAPE_HEAD_DIM], .best = -INFINITY};
  return &all[(*n)++];
}

static void add_attention_row(struct family *f, const struct row *r, double weight) {
  const int64_t *s = r->shape;
  const double keys = (double)s[SHAPE_SEQLEN],
               tiles = (double)(s[SHAPE_BATCH] * s[SHAPE_HEADS] * s[SHAPE_SEQLEN]) / TILE_ROWS;
  struct smooth_point point = attention_point(keys, tiles);
  point.time_s = r->time_s;
  point.weight = weight;
  VEC_PUSH(f->points.v, f->points.n, f->points.cap, point);
  f->best = fmax(f->best, log(keys * tiles / r->time_s));
}

static int collect_families(struct family *all, size_t *n, const struct fit_source *s, struct err *err) {
  bool have[2] = {false, false};
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
      const struct row *r = &s->own.files[f].v[i];
      if (r->op != ROW_OP_ATTENTION_FORWARD || !fit_uses(s, &s->own, f, i))
        continue;
      struct family *family = family_of(all, n, r);
      if (!family)
        return err_set(err, "attention rows of more than %d masks and head dims to fit %s", FAMILIES_MAX, s->device);
      add_attention_row(family, r, run_file_weight(&s->own.files[f], i));
    }
  qsort(all, *n, sizeof *all, compare_families);
  for (size_t i = 0; i < *n; i++) {
    have[all[i].causal] = true;
    if (all[i].points.n < LEAST_ATTENTION_ROWS)
      return err_set(err, "%zu %s attention_forward rows at head dim %lld are too few to fit %s (at least %d)",
                     all[i].points.n, all[i].causal ? "causal" : "full", (long long)all[i].head_dim, s->device,
                     LEAST_ATTENTION_ROWS);
  }
  if (!have[0] || !have[1])
    return err_set(err, "no %s attention_forward rows to fit %s", have[1] ? "full" : "causal", s->device);
  return 0;
}

static void write_family(FILE *out, const struct family *f) {
  const struct nodes keys = powers_of_two(0, 18), tiles = powers_of_two(-3, 20);
  const size_t shape[2] = {keys.n, tiles.n};
  double *v = xcalloc(keys.n * tiles.n, sizeof *v);
  struct smooth_fit fit;
  smooth_fit_make(&fit, f->points.v, f->points.n, 4, 2);
  for (size_t i = 0; i < keys.n * tiles.n; i++) {
    const double k = keys.v[i / tiles.n], t = tiles.v[i % tiles.n];
    const struct smooth_point at = attention_point(k, t);
    v[i] = fmax(smooth_fit_log_s(&fit, &at), log(k * t) - f->best);
  }
  monotone_table(v, shape, 2, RISE_PASSES);
  fprintf(out,
          "      {\n        \"source\": \"%zu rows of calibrate run\",\n        \"causal\": %s, \"head_dim\": %lld, "
          "\"tile_rows\": %d, \"tile_fill\": 0,\n        \"keys\": ",
          fit.n, f->causal ? "true" : "false", (long long)f->head_dim, TILE_ROWS);
  number_list(out, keys.v, keys.n, 9, 10);
  fprintf(out, ",\n        \"tiles\": ");
  number_list(out, tiles.v, tiles.n, 9, 10);
  fprintf(out, ",\n        \"time_ns\": ");
  number_list_ns(out, v, keys.n * tiles.n, 10);
  fprintf(out, "\n      }");
  smooth_fit_release(&fit);
  free(v);
}

struct lengths { /* backward over forward, by keys */
  struct length {
    double keys, ratio[PAIRS_MAX];
    size_t n;
  } v[LENGTHS_MAX];
  size_t n;
};

static void add_ratio(struct lengths *l, double keys, double ratio) {
  size_t at = 0;
  while (at < l->n && l->v[at].keys < keys)
    at++;
  if (at == l->n || l->v[at].keys != keys) {
    if (l->n == LENGTHS_MAX)
      return;
    memmove(l->v + at + 1, l->v + at, (l->n - at) * sizeof *l->v);
    l->v[at].keys = keys;
    l->v[at].n = 0;
    l->n++;
  }
  if (l->v[at].n < PAIRS_MAX)
    l->v[at].ratio[l->v[at].n++] = ratio;
}

/* The backward row of a forward row's shape, in any file; NULL if there is none. */
static const struct row *backward_of(const struct fit_source *s, const struct row *forward) {
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
      const struct row *r = &s->own.files[f].v[i];
      if (r->op == ROW_OP_ATTENTION_BACKWARD && memcmp(r->shape, forward->shape, sizeof r->shape) == 0 &&
          fit_uses(s, &s->own, f, i))
        return r;
    }
  return NULL;
}

static int write_ratios(FILE *out, const struct fit_source *s, struct err *err) {
  struct lengths *lengths = xcalloc(1, sizeof *lengths);
  double keys[LENGTHS_MAX], ratio[LENGTHS_MAX];
  size_t pairs = 0;
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
      const struct row *r = &s->own.files[f].v[i];
      const struct row *backward =
          r->op == ROW_OP_ATTENTION_FORWARD && fit_uses(s, &s->own, f, i) ? backward_of(s, r) : NULL;
      if (!backward)
        continue;
      add_ratio(lengths, (double)r->shape[SHAPE_SEQLEN], backward->time_s / r->time_s);
      pairs++;
    }
  const size_t n = lengths->n;
  for (size_t i = 0; i < n; i++) {
    keys[i] = lengths->v[i].keys;
    ratio[i] = median_sort(lengths->v[i].ratio, lengths->v[i].n);
  }
  free(lengths);
  if (n == 0)
    return err_set(err, "no attention_backward rows of the shapes of forward ones to fit %s", s->device);
  fprintf(out, "{\n      \"source\": \"medians by sequence length of %zu pairs of calibrate run\",\n      \"keys\": ",
          pairs);
  number_list(out, keys, n, 9, 8);
  fprintf(out, ", \"ratio\": ");
  number_list(out, ratio, n, 5, 8);
  fprintf(out, "\n    }");
  return 0;
}

char *fit_measured_attention(const struct fit_source *s, struct err *err) {
  struct family all[FAMILIES_MAX];
  size_t n = 0, size;
  char *text = NULL;
  FILE *out = text_stream_begin(&text, &size);
  int rc = collect_families(all, &n, s, err);
  if (rc == 0) {
    fprintf(out, "{\n    \"source\": \"sums of terms and a smooth correction\",\n    \"backward_ratio\": ");
    rc = write_ratios(out, s, err);
    fprintf(out, ",\n    \"tables\": [\n");
    for (size_t i = 0; i < n && rc == 0; i++) {
      write_family(out, &all[i]);
      fputs(i + 1 < n ? ",\n" : "\n", out);
    }
    fprintf(out, "    ]\n  }");
  }
  for (size_t i = 0; i < n; i++)
    free(all[i].points.v);
  text_stream_end(out);
  if (rc == 0)
    return text;
  free(text);
  return NULL;
}

/* ---- What memory bounds ---- */

static const char *const class_names[MEMORY_CLASSES] = {"contiguous", "broadcast", "permute",
                                                        "reduction",  "mixed",     "optimizer"};

static void write_class(FILE *out, const json_t *given, int class, size_t rows, double s_per_byte) {
  const json_t *o = json_object_get(json_object_get(given, "classes"), class_names[class]);
  fprintf(out, "%s\"%s\": {\"bytes_per_s\": ", class ? ", " : "", class_names[class]);
  if (rows && s_per_byte > 0) {
    fprintf(out, "%.6g, \"source\": \"%zu rows of calibrate run\"}", 1 / s_per_byte, rows);
    return;
  }
  char *source = json_dumps(json_object_get(o, "source"), JSON_ENCODE_ANY);
  fprintf(out, "%.6g, \"source\": %s}", json_number_value(json_object_get(o, "bytes_per_s")), source ? source : "\"\"");
  free(source);
}

char *fit_measured_memory(const struct fit_source *s, const struct json_doc *constants) {
  const json_t *given = json_object_get(constants->root, "memory_bound");
  struct points points = {NULL, 0, 0};
  size_t rows[MEMORY_CLASSES] = {0}, size;
  struct smooth_fit fit = {.n = 0};
  char *text = NULL;
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
      const struct row *r = &s->own.files[f].v[i];
      if (row_op_class(r->op) != ROW_MEMORY || !fit_uses(s, &s->own, f, i))
        continue;
      const struct memory_traffic traffic = row_memory_traffic(r->op);
      struct smooth_point point = {.term = {1}, .time_s = r->time_s, .weight = run_file_weight(&s->own.files[f], i)};
      point.term[1 + traffic.class] =
          2 * traffic.values * (double)r->shape[SHAPE_ROWS] * (double)r->shape[SHAPE_HIDDEN];
      rows[traffic.class]++;
      VEC_PUSH(points.v, points.n, points.cap, point);
    }
  if (points.n > 0)
    smooth_fit_make(&fit, points.v, points.n, 1 + MEMORY_CLASSES, 1);
  FILE *out = text_stream_begin(&text, &size);
  fprintf(out, "{\"floor_s\": %.6g, \"floor_source\": \"%zu rows of calibrate run\", \"classes\": {",
          points.n > 0 ? fit.coefficient[0] : json_number_value(json_object_get(given, "floor_s")), points.n);
  for (int class = 0; class < MEMORY_CLASSES; class ++)
    write_class(out, given, class, rows[class], fit.coefficient[1 + class]);
  fprintf(out, "}}");
  text_stream_end(out);
  smooth_fit_release(&fit);
  free(points.v);
  return text;
}
