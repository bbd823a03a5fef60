/* GEMM: which of many kernels a library picks, and what it then takes.
 *
 * Formula (seconds): floor + norm( compute, bytes / bandwidth ), where compute is the least over tile shapes a x b and
 * over splits s of k of
 *   waves(ceil(m/a) * ceil(n/b) * s) * ( k/s * efficiency(a,b) * (c0*a*b + c1*(a+b)) + e0 + e1*a*b ) [+ split cost]
 * and waves(t) lies between t/132 and its ceiling. What the rows say beyond it (log of measured over formula) jumps
 * with tile and wave counts, because the library picks another kernel: boosted trees follow it on those counts and on
 * what the formula chose (tile, split, how near the next choice and the memory bound are). A row is met where there is
 * one; what it says beyond the trees is spread to nodes around it. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "calib/boosted.h"
#include "calib/fit_section.h"
#include "calib/monotone.h"
#include "calib/nonlinear.h"
#include "calib/number_list.h"
#include "sim/base/sorted.h"
#include "sim/base/text_stream.h"
#include "sim/base/units.h"

#define SMS 132.0
#define MAX_NODES 128
#define FIT_ROWS 2500 /* of the formula: rows at equal distances */
#define RISE_PASSES 12

static const int tile_shapes[][2] = {{64, 64},   {64, 128},  {64, 256}, {128, 64},  {128, 128},
                                     {128, 192}, {128, 256}, {256, 64}, {256, 128}, {192, 128}};
enum { TILE_SHAPES = sizeof tile_shapes / sizeof *tile_shapes };

/* Constants of the formula, in microseconds; EFFICIENCY + i: of tile shape i. */
enum { FLOOR, PER_PRODUCT, PER_EDGE, TILE, TILE_AREA, BANDWIDTH, WAVE, NORM, SPLIT_AREA, SPLIT, EFFICIENCY };
enum { CONSTANTS = EFFICIENCY + TILE_SHAPES };
static const double start[CONSTANTS] = {2.2, .16, 10, 1, 1, 3.3, 1, 3, .05, 1.5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* Sizes that models use, so that they are nodes even where no row was measured. */
static const double usual_m[] = {1,    2,    4,    8,    16,   32,   64,   96,   128,  192,   256,   384,
                                 512,  640,  768,  896,  1024, 1152, 1280, 1536, 1792, 2048,  2304,  2560,
                                 2816, 3072, 3328, 3584, 3840, 4096, 5120, 6144, 8192, 12288, 16384, 32768};
static const double usual_n[] = {32,   64,   128,   256,   512,   768,   1024,  1152,  1536,
                                 2048, 2560, 3072,  3456,  3584,  4096,  4608,  5120,  6144,
                                 7168, 8192, 10240, 12288, 16384, 20480, 32768, 51200, 65536};

struct point {
  double m, n, k, log_s;
  bool sibling;
};

struct points {
  struct point *v;
  size_t n, cap;
};

static double waves(double tiles, double softness) {
  const double t = tiles / SMS;
  return (ceil(t) + softness * fmax(t, 1)) / (1 + softness);
}

/* What the formula chose. */
struct choice {
  double compute_us, memory_us, second_us; /* second: the best of another tile shape */
  int tile, split;
};

static double formula_us(const double *c, double m, double n, double k, struct choice *choice) {
  static const int splits[] = {1, 2, 4, 8, 16};
  double compute = INFINITY, second = INFINITY;
  int tile = 0, split = 1;
  for (int i = 0; i < TILE_SHAPES; i++) {
    const double a = tile_shapes[i][0], b = tile_shapes[i][1], tiles = ceil(m / a) * ceil(n / b);
    const double per_k = c[EFFICIENCY + i] * (c[PER_PRODUCT] * a * b + c[PER_EDGE] * (a + b)) * 1e-6;
    const double per_tile = c[TILE] + c[TILE_AREA] * a * b * 1e-5;
    double least = INFINITY;
    int least_split = 1;
    for (int s = 0; s < 5; s++) {
      double t = waves(tiles * splits[s], c[WAVE]) * (fmax(k / splits[s], 64) * per_k + per_tile);
      if (s > 0)
        t += c[SPLIT] + c[SPLIT_AREA] * m * n * splits[s] * 1e-6;
      if (t < least) {
        least = t;
        least_split = splits[s];
      }
    }
    if (least < compute) {
      second = compute;
      compute = least;
      tile = i;
      split = least_split;
    } else {
      second = fmin(second, least);
    }
  }
  const double memory = 2e-6 * (m * k + k * n + m * n) / c[BANDWIDTH], e = 1 + c[NORM];
  if (choice)
    *choice = (struct choice){compute, memory, second, tile, split};
  return c[FLOOR] + compute * pow(1 + pow(memory / compute, e), 1 / e);
}

struct sample {
  const struct point *v;
  size_t stride;
};

static void formula_residuals(const double *c, const void *context, double *out) {
  const struct sample *s = context;
  size_t n = 0;
  for (const struct point *p = s->v; n < FIT_ROWS && p->log_s < 0; p += s->stride, n++)
    out[n] = log(formula_us(c, p->m, p->n, p->k, NULL) * 1e-6) - p->log_s;
}

/* The formula's constants from the points v[n], all of one device. */
static void fit_formula(const struct point *v, size_t n, double *c) {
  struct point *chosen = xcalloc(FIT_ROWS + 1, sizeof *chosen);
  size_t count = n < FIT_ROWS ? n : FIT_ROWS;
  for (size_t i = 0; i < count; i++)
    chosen[i] = v[i * n / count];
  struct sample sample = {chosen, 1}; /* ends with a zeroed point */
  struct nonlinear problem = {count, CONSTANTS, formula_residuals, &sample, 1, 3, 8};
  memcpy(c, start, sizeof start);
  nonlinear_fit(&problem, c);
  free(chosen);
}

/* ---- Trees ---- */

enum { LOGS = 7, FRACTIONS = 4, CHOICE = LOGS + FRACTIONS + TILE_SHAPES, FEATURES = CHOICE + 9 };

static double set_features(double *x, const double *c, double m, double n, double k, bool sibling) {
  struct choice choice;
  const double formula_log_s = log(formula_us(c, m, n, k, &choice) * 1e-6);
  static const double edges[FRACTIONS] = {64, 128, 192, 256};
  const double logs[LOGS] = {log(m), log(n), log(k), log(m * n), log(n * k), log(m * k), log(m * n * k)};
  memcpy(x, logs, sizeof logs);
  for (int i = 0; i < FRACTIONS; i++)
    x[LOGS + i] = m / edges[i] - floor(m / edges[i]);
  for (int i = 0; i < TILE_SHAPES; i++) {
    const double t = ceil(m / tile_shapes[i][0]) * ceil(n / tile_shapes[i][1]) / SMS;
    x[LOGS + FRACTIONS + i] = t / ceil(t);
  }
  const double a = tile_shapes[choice.tile][0], b = tile_shapes[choice.tile][1];
  const double tiles = ceil(m / a) * ceil(n / b) * choice.split;
  const double rest[FEATURES - CHOICE] = {formula_log_s,
                                          sibling,
                                          log(choice.memory_us / choice.compute_us),
                                          log(choice.second_us / choice.compute_us),
                                          a,
                                          b,
                                          choice.split,
                                          log(tiles),
                                          tiles / SMS / ceil(tiles / SMS)};
  memcpy(x + CHOICE, rest, sizeof rest);
  return formula_log_s;
}

struct gemm_model {
  double constants[2][CONSTANTS]; /* own, sibling */
  struct boosted *trees;
};

static double model_log_s(const struct gemm_model *g, double m, double n, double k) {
  double x[FEATURES];
  const double formula = set_features(x, g->constants[0], m, n, k, false);
  return formula + boosted_predict(g->trees, x);
}

static void fit_model(struct gemm_model *g, const struct points *p, size_t n_own) {
  static const struct boosted_options options = {.trees = 180, .depth = 6, .rate = 0.18, .min_rows = 8};
  double *x = xcalloc(size_mul(p->n, FEATURES), sizeof *x), *y = xcalloc(p->n, sizeof *y);
  fit_formula(p->v, n_own, g->constants[0]);
  if (p->n > n_own)
    fit_formula(p->v + n_own, p->n - n_own, g->constants[1]);
  for (size_t i = 0; i < p->n; i++) {
    const struct point *v = &p->v[i];
    const double formula = set_features(x + i * FEATURES, g->constants[v->sibling], v->m, v->n, v->k, v->sibling);
    y[i] = v->log_s - formula;
  }
  g->trees = boosted_fit(x, y, p->n, FEATURES, &options);
  free(x);
  free(y);
}

/* ---- Table ---- */

struct nodes {
  double v[MAX_NODES];
  size_t n;
};

static void add_node(struct nodes *nodes, double x) {
  for (size_t i = 0; i < nodes->n; i++)
    if (nodes->v[i] == x)
      return;
  if (nodes->n < MAX_NODES)
    nodes->v[nodes->n++] = x;
}

/* All values of a column, and the usual ones within their range. */
static void set_nodes(struct nodes *nodes, const struct fit_source *s, int column, const double *usual,
                      size_t n_usual) {
  double least = INFINITY, most = 0;
  nodes->n = 0;
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
      const struct row *r = &s->own.files[f].v[i];
      if (r->op != ROW_OP_GEMM)
        continue;
      add_node(nodes, (double)r->shape[column]);
      least = fmin(least, (double)r->shape[column]);
      most = fmax(most, (double)r->shape[column]);
    }
  for (size_t i = 0; i < n_usual; i++)
    if (usual[i] > least && usual[i] < most)
      add_node(nodes, usual[i]);
  sort_doubles(nodes->v, nodes->n);
}

static size_t node_index(const struct nodes *nodes, double x) {
  for (size_t i = 0; i < nodes->n; i++)
    if (nodes->v[i] == x)
      return i;
  return nodes->n;
}

struct gemm_nodes {
  struct nodes m, n, k;
};

/* What rows say beyond the model, spread to nodes without a row: each takes the mean of its neighbours along all axes,
 * nearer ones counting more, and of zero, so that it fades with distance. */
static void spread_corrections(double *v, const double *model, const double *count, const struct gemm_nodes *a) {
  static const double near = 0.2, fade = 0.5, most = 0.2; /* log sizes; weight of zero; log time */
  static const double share = 0.7;                        /* of a row's deviation: the rest is taken as its own noise */
  static const int sweeps = 8;
  const struct nodes *axes[3] = {&a->m, &a->n, &a->k};
  const size_t stride[3] = {a->n.n * a->k.n, a->k.n, 1}, total = a->m.n * stride[0];
  double *beyond = xcalloc(total, sizeof *beyond);
  for (size_t i = 0; i < total; i++)
    beyond[i] = count[i] > 0 ? share * fmax(-most, fmin(most, v[i] - model[i])) : 0;
  for (int turn = 0; turn < sweeps; turn++)
    for (size_t i = 0; i < total; i++) {
      double sum = 0, weight = fade;
      if (count[i] > 0)
        continue;
      for (int x = 0; x < 3; x++) {
        const size_t at = i / stride[x] % axes[x]->n;
        const double *size = axes[x]->v + at;
        if (at > 0) {
          const double w = 1 / (log(size[0] / size[-1]) + near);
          sum += w * beyond[i - stride[x]];
          weight += w;
        }
        if (at + 1 < axes[x]->n) {
          const double w = 1 / (log(size[1] / size[0]) + near);
          sum += w * beyond[i + stride[x]];
          weight += w;
        }
      }
      beyond[i] = sum / weight;
    }
  for (size_t i = 0; i < total; i++)
    if (!(count[i] > 0))
      v[i] += beyond[i];
  free(beyond);
}

static double *make_table(const struct gemm_model *g, const struct gemm_nodes *a, const struct points *p,
                          size_t n_own) {
  const size_t shape[3] = {a->m.n, a->n.n, a->k.n}, total = size_mul(shape[0], shape[1] * shape[2]);
  double *v = xcalloc(total, sizeof *v), *count = xcalloc(total, sizeof *count), best = -INFINITY;
  for (size_t i = 0; i < total; i++)
    v[i] = model_log_s(g, a->m.v[i / (shape[1] * shape[2])], a->n.v[i / shape[2] % shape[1]], a->k.v[i % shape[2]]);
  double *model = xcalloc(total, sizeof *model); /* before rows take its place */
  memcpy(model, v, total * sizeof *v);
  for (size_t i = 0; i < n_own; i++) { /* the mean of rows of one shape */
    const struct point *x = &p->v[i];
    const size_t m = node_index(&a->m, x->m), n = node_index(&a->n, x->n), k = node_index(&a->k, x->k);
    if (m == shape[0] || n == shape[1] || k == shape[2])
      continue; /* more sizes than nodes */
    const size_t at = (m * shape[1] + n) * shape[2] + k;
    v[at] = (count[at] * (count[at] > 0 ? v[at] : 0) + x->log_s) / (count[at] + 1);
    count[at] += 1;
    best = fmax(best, log(x->m * x->n * x->k) - x->log_s);
  }
  spread_corrections(v, model, count, a);
  for (int turn = 0; turn < 2; turn++) { /* nothing filled or smoothed may beat the fastest row */
    for (size_t i = 0; i < total; i++)
      v[i] = fmax(
          v[i], log(a->m.v[i / (shape[1] * shape[2])] * a->n.v[i / shape[2] % shape[1]] * a->k.v[i % shape[2]]) - best);
    if (turn == 0)
      monotone_table(v, shape, 3, RISE_PASSES);
  }
  free(count);
  free(model);
  return v;
}

static void add_points(struct points *p, const struct fit_source *s, const struct fit_rows *rows, bool sibling) {
  for (size_t f = 0; f < rows->n_files; f++)
    for (size_t i = 0; i < rows->files[f].table.n_rows; i++) {
      const struct row *r = &rows->files[f].v[i];
      if (r->op != ROW_OP_GEMM || !fit_uses(s, rows, f, i))
        continue;
      struct point point = {(double)r->shape[SHAPE_M], (double)r->shape[SHAPE_N], (double)r->shape[SHAPE_K],
                            log(r->time_s), sibling};
      VEC_PUSH(p->v, p->n, p->cap, point);
    }
}

static void write_constants(FILE *out, const double *c) {
  static const char *const names[] = {"floor_us",  "per_product", "per_edge", "tile_us",    "tile_area",
                                      "bandwidth", "wave",        "norm",     "split_area", "split_us"};
  fprintf(out, "{");
  for (int i = 0; i < EFFICIENCY; i++)
    fprintf(out, "\"%s\": %.6g, ", names[i], c[i]);
  fprintf(out, "\"efficiency\": ");
  number_list(out, c + EFFICIENCY, TILE_SHAPES, 6, 6);
  fprintf(out, "}");
}

static void write_section(FILE *out, const struct gemm_model *g, const struct gemm_nodes *a, const double *table,
                          const struct points *p, size_t n_own, const struct json_doc *constants) {
  const json_t *given = json_object_get(constants->root, "gemm");
  fprintf(out, "{\n    \"source\": \"%zu rows", n_own);
  if (p->n > n_own)
    fprintf(out, ", and the choice of kernels from %zu rows of a sibling device", p->n - n_own);
  fprintf(out, ": tile formula and boosted trees, rows met where there are any\",\n    \"formula\": ");
  write_constants(out, g->constants[0]);
  fprintf(out, ",\n    \"m\": ");
  number_list(out, a->m.v, a->m.n, 9, 6);
  fprintf(out, ",\n    \"n\": ");
  number_list(out, a->n.v, a->n.n, 9, 6);
  fprintf(out, ",\n    \"k\": ");
  number_list(out, a->k.v, a->k.n, 9, 6);
  fprintf(out, ",\n    \"wgrad_factor\": %.6g,\n    \"wgrad_source\": \"%s\",\n    \"time_ns\": ",
          json_number_value(json_object_get(given, "wgrad_factor")),
          json_string_value(json_object_get(given, "wgrad_source")));
  number_list_ns(out, table, a->m.n * a->n.n * a->k.n, 6);
  fprintf(out, "\n  }");
}

char *fit_gemm(const struct fit_source *s, const struct json_doc *constants, struct err *err) {
  struct points points = {NULL, 0, 0};
  struct gemm_model model = {.trees = NULL};
  struct gemm_nodes nodes;
  char *text = NULL;
  size_t size;
  add_points(&points, s, &s->own, false);
  const size_t n_own = points.n;
  add_points(&points, s, &s->sibling, true);
  if (n_own < 100) {
    err_set(err, "%zu gemm rows are too few to fit %s (at least 100)", n_own, s->device);
    goto out;
  }
  fit_model(&model, &points, n_own);
  set_nodes(&nodes.m, s, SHAPE_M, usual_m, sizeof usual_m / sizeof *usual_m);
  set_nodes(&nodes.n, s, SHAPE_N, usual_n, sizeof usual_n / sizeof *usual_n);
  set_nodes(&nodes.k, s, SHAPE_K, usual_n, sizeof usual_n / sizeof *usual_n);
  double *table = make_table(&model, &nodes, &points, n_own);
  FILE *out = text_stream_begin(&text, &size);
  write_section(out, &model, &nodes, table, &points, n_own, constants);
  text_stream_end(out);
  free(table);
out:
  boosted_free(model.trees);
  free(points.v);
  return text;
}
