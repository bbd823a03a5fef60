/* Flash attention forward, per mask and head dim, as a function of keys per sequence and query tiles.
 *
 * Formula (seconds), from how FlashAttention 3 schedules: a tile of `rows` queries (192 for head dims up to 96, else
 * 128) walks n = ceil(keys / block) blocks of keys, on average (n+1)/2 if causal, on one of 132 SMs:
 *   tile(n) = a*n + b;  full: tile(n) * waves;  causal: norm( tile(n), tile((n+1)/2) * waves ) + floor
 * and waves lies between tiles/132 and its ceiling. With few tiles and n > 4 it splits the keys over SMs
 * (FlashAttention's rule) and pays for the sum. A tile that is not full costs `fill` of a full one and the rest by its
 * rows.
 *
 * The causal rows are of a serving build and carry three things besides, fitted alongside and kept apart for checks
 * against rows (struct attention_row): the write of K and V into a paged cache, in blocks of up to 512 threads a token;
 * slower kernels wherever a single sequence would be split; and query heads packed 4, 8 or 16 to a key head run faster,
 * which is kept (a table of its own).
 *
 * What the rows say beyond the formula (log ratio) is a smooth surface over log keys and log waves: bilinear, least
 * squares with small second differences, outliers weighing less. */
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "calib/fit_section.h"
#include "calib/monotone.h"
#include "calib/nonlinear.h"
#include "calib/number_list.h"
#include "sim/base/sorted.h"
#include "sim/base/text_stream.h"
#include "sim/base/units.h"

#define SMS 132.0
#define SPLIT_BELOW (0.8 * SMS)
#define SPLIT_BLOCKS 4 /* never for so few */
#define WRITE_VALUES 512.0
#define MAX_NODES 128
#define RISE_PASSES 12

struct kernel {
  int head_dim, rows, block;
};
/* Query rows and keys of a tile, as FlashAttention 3 compiles them. */
static const struct kernel full_kernels[] = {{64, 192, 192}, {72, 192, 144},  {80, 192, 144},
                                             {96, 192, 144}, {128, 128, 176}, {256, 128, 80}};
static const struct kernel causal_kernels[] = {{64, 192, 128}, {72, 192, 128},  {80, 192, 128},
                                               {96, 192, 128}, {128, 128, 128}, {256, 128, 80}};
enum { KERNELS = sizeof full_kernels / sizeof *full_kernels };

/* Constants of the formula, in microseconds. Those after CONSTANTS_FULL are of causal rows only. */
enum { FLOOR, BLOCK, TILE, WAVE, FILLING, COMBINE, COMBINE_BYTES, NORM, PARTIAL, CONSTANTS_FULL };
enum { WRITE = CONSTANTS_FULL, WRITE_BEYOND, SPLIT_SLOWER, GROUPED_FASTER, CONSTANTS };
static const double start_full[CONSTANTS] = {7, 1.5, 3, .3, .5, 5, .3, 3, .3, 1, 1, 1, 1};
static const double start_causal[CONSTANTS] = {7, 1.5, 4, 1, 1.5, 3, .01, 10, .3, 9, 3.5, .15, .06};

struct shape {
  double keys, tiles, whole_tiles; /* tiles with the fill rule; as launched */
  double values;                   /* K or V values of a token: kv_heads * head_dim */
  double tokens;
  bool grouped, splittable; /* a single sequence would be split */
};

struct point {
  struct shape s;
  double time_us, batch, heads;
};

struct family { /* one mask and head dim */
  bool causal;
  const struct kernel *kernel;
  double fill;
  struct point *v;
  size_t n, cap;
  double c[CONSTANTS];
  double *surface; /* (surface keys, surface waves) */
  double best;     /* FLOP/s of the fastest row */
};

/* FlashAttention's choice: the fewest splits within 15 % of the best use of SMs. */
static int splits_of(double tiles, double blocks) {
  double best = 0;
  int most = (int)fmin(SMS, blocks);
  if (tiles >= SPLIT_BELOW || blocks <= SPLIT_BLOCKS)
    return 1;
  for (int s = 1; s <= most; s++)
    best = fmax(best, tiles * s / SMS / ceil(tiles * s / SMS));
  for (int s = 1; s <= most; s++)
    if (tiles * s / SMS / ceil(tiles * s / SMS) >= 0.85 * best)
      return s;
  return 1;
}

static double kernel_us(const struct family *f, const double *c, const struct shape *s, bool grouped) {
  const double blocks = ceil(s->keys / f->kernel->block), part = pow(fmin(1, s->keys / f->kernel->block), c[PARTIAL]);
  const int splits = splits_of(s->whole_tiles, blocks);
  const double w = s->tiles * splits / SMS, longest = c[BLOCK] * ceil(blocks / splits) * part + c[TILE];
  double time;
  if (f->causal) {
    const double mean = splits > 1 ? longest : c[BLOCK] * 0.5 * (blocks + 1) * part + c[TILE];
    const double total = mean * (fmax(1, ceil(w - 1e-9)) + c[WAVE] * w) / (1 + c[WAVE]), e = fmin(40, 1 + c[NORM]);
    time = longest * pow(1 + pow(total / longest, e), 1 / e);
    if (grouped)
      time *= 1 - fmin(0.3, c[GROUPED_FASTER]) * w / (1 + w);
  } else {
    time = longest * (ceil(w - 1e-9) + c[WAVE] * fmax(w, 1)) / (1 + c[WAVE]);
  }
  if (splits > 1)
    time += c[COMBINE] + c[COMBINE_BYTES] * s->tiles * f->kernel->rows * f->kernel->head_dim * splits * 8e-6;
  return c[FLOOR] + time + c[FILLING] * fmin(1, s->tiles / SMS);
}

/* What a row has besides the kernel: a factor on its time, and the write of K and V. */
static double row_factor(const struct family *f, const double *c, const struct shape *s) {
  return f->causal && s->splittable && s->whole_tiles >= SPLIT_BELOW ? 1 + c[SPLIT_SLOWER] : 1;
}

static double row_write_us(const struct family *f, const double *c, const struct shape *s) {
  if (!f->causal)
    return 0;
  return 1e-6 * s->tokens *
         (c[WRITE] * fmin(s->values, WRITE_VALUES) + c[WRITE_BEYOND] * fmax(0, s->values - WRITE_VALUES));
}

static void residuals(const double *c, const void *context, double *out) {
  const struct family *f = context;
  for (size_t i = 0; i < f->n; i++) {
    const struct shape *s = &f->v[i].s;
    out[i] = log((kernel_us(f, c, s, s->grouped) * row_factor(f, c, s) + row_write_us(f, c, s)) / f->v[i].time_us);
  }
}

/* ---- Surface ---- */

static const double surface_keys[] = {1,    16,   32,   64,   104,  128,  192,  256,   400,   512,   768,  1024,
                                      1296, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 32768, 65536};
static const double surface_waves[] = {.008, .03, .1, .25, .5, .75, 1,  1.01, 1.5, 2,   2.01,
                                       2.5,  3,   4,  6,   8,  12,  20, 50,   200, 1000};
enum { KEYS = sizeof surface_keys / sizeof *surface_keys, WAVES = sizeof surface_waves / sizeof *surface_waves };
enum { CELLS = KEYS * WAVES };
#define SMOOTH 0.03      /* weight of second differences, in rows */
#define RIDGE 0.02       /* pull to the formula */
#define LEAST_STEP 0.15  /* of log keys or waves, in differences */
#define SURFACE_ROUNDS 3 /* of weights */

struct place {
  int i;
  double w;
};

static struct place place_of(const double *knots, int n, double x) {
  int i = 0;
  if (x <= knots[0])
    return (struct place){0, 0};
  if (x >= knots[n - 1])
    return (struct place){n - 2, 1};
  while (x >= knots[i + 1])
    i++;
  return (struct place){i, log(x / knots[i]) / log(knots[i + 1] / knots[i])};
}

struct corners {
  int at[4];
  double w[4];
};

static struct corners corners_of(double keys, double waves) {
  const struct place k = place_of(surface_keys, KEYS, keys), w = place_of(surface_waves, WAVES, waves);
  const int at = k.i * WAVES + w.i;
  return (struct corners){{at, at + 1, at + WAVES, at + WAVES + 1},
                          {(1 - k.w) * (1 - w.w), (1 - k.w) * w.w, k.w * (1 - w.w), k.w * w.w}};
}

static double surface_at(const double *z, double keys, double waves) {
  const struct corners c = corners_of(keys, waves);
  return c.w[0] * z[c.at[0]] + c.w[1] * z[c.at[1]] + c.w[2] * z[c.at[2]] + c.w[3] * z[c.at[3]];
}

/* Adds SMOOTH * (second difference)^2 of the cells at, at + stride, at + 2 stride. */
static void add_difference(gsl_matrix *m, const double *knots, int i, int at, int stride) {
  const double h0 = fmax(LEAST_STEP, log(knots[i + 1] / knots[i])),
               h1 = fmax(LEAST_STEP, log(knots[i + 2] / knots[i + 1]));
  const double c[3] = {1 / h0, -1 / h0 - 1 / h1, 1 / h1};
  for (int a = 0; a < 3; a++)
    for (int b = 0; b < 3; b++)
      *gsl_matrix_ptr(m, (size_t)(at + a * stride), (size_t)(at + b * stride)) += SMOOTH * c[a] * c[b];
}

static void add_smoothness(gsl_matrix *m) {
  for (int k = 0; k < KEYS; k++)
    for (int w = 0; w < WAVES; w++) {
      const int at = k * WAVES + w;
      *gsl_matrix_ptr(m, (size_t)at, (size_t)at) += RIDGE;
      if (k + 2 < KEYS)
        add_difference(m, surface_keys, k, at, WAVES);
      if (w + 2 < WAVES)
        add_difference(m, surface_waves, w, at, 1);
    }
}

static void fit_surface(struct family *f) {
  double *miss = xcalloc(f->n, sizeof *miss), *weight = xcalloc(f->n, sizeof *weight),
         *left = xcalloc(f->n, sizeof *left);
  gsl_matrix *m = gsl_matrix_alloc(CELLS, CELLS);
  gsl_vector *b = gsl_vector_alloc(CELLS), *z = gsl_vector_alloc(CELLS);
  for (size_t i = 0; i < f->n; i++) {
    const struct shape *s = &f->v[i].s;
    const double time = f->v[i].time_us, kernel = fmax(0.2 * time, time - row_write_us(f, f->c, s));
    miss[i] = log(kernel / (kernel_us(f, f->c, s, s->grouped) * row_factor(f, f->c, s)));
    weight[i] = 1;
  }
  for (int round = 0; round < SURFACE_ROUNDS; round++) {
    gsl_matrix_set_zero(m);
    gsl_vector_set_zero(b);
    add_smoothness(m);
    for (size_t i = 0; i < f->n; i++) {
      const struct corners c = corners_of(f->v[i].s.keys, f->v[i].s.tiles / SMS);
      for (int p = 0; p < 4; p++) {
        *gsl_vector_ptr(b, (size_t)c.at[p]) += weight[i] * c.w[p] * miss[i];
        for (int q = 0; q < 4; q++)
          *gsl_matrix_ptr(m, (size_t)c.at[p], (size_t)c.at[q]) += weight[i] * c.w[p] * c.w[q];
      }
    }
    gsl_linalg_cholesky_decomp1(m);
    gsl_linalg_cholesky_solve(m, b, z);
    for (size_t i = 0; i < f->n; i++)
      left[i] = miss[i] - surface_at(z->data, f->v[i].s.keys, f->v[i].s.tiles / SMS);
    const double scale = 2.25 * fmax(0.01, median_abs(left, f->n));
    for (size_t i = 0; i < f->n; i++)
      weight[i] = fmin(1, scale / fmax(1e-12, fabs(left[i])));
  }
  memcpy(f->surface, z->data, CELLS * sizeof *f->surface);
  gsl_matrix_free(m);
  gsl_vector_free(b);
  gsl_vector_free(z);
  free(miss);
  free(weight);
  free(left);
}

static void fit_family(struct family *f) {
  struct nonlinear problem = {f->n, f->causal ? CONSTANTS : CONSTANTS_FULL, residuals, f, 0.3, 4, 12};
  memcpy(f->c, f->causal ? start_causal : start_full, sizeof f->c);
  nonlinear_fit(&problem, f->c);
  f->surface = xcalloc(CELLS, sizeof *f->surface);
  fit_surface(f);
}

/* ---- Rows ---- */

static const struct kernel *kernel_of(bool causal, int64_t head_dim) {
  const struct kernel *kernels = causal ? causal_kernels : full_kernels;
  for (int i = 0; i < KERNELS; i++)
    if (kernels[i].head_dim == head_dim)
      return &kernels[i];
  return NULL;
}

static double flops_of(bool causal, const int64_t *s) {
  return (causal ? 2.0 : 4.0) * (double)s[SHAPE_BATCH] * (double)s[SHAPE_HEADS] * (double)s[SHAPE_HEAD_DIM] *
         (double)s[SHAPE_SEQLEN] * (double)s[SHAPE_SEQLEN];
}

static void add_point(struct family *f, const struct row *row) {
  const int64_t *s = row->shape;
  const double group = (double)(s[SHAPE_HEADS] / s[SHAPE_KV_HEADS]), rows = (double)s[SHAPE_SEQLEN] * group;
  const double per_sequence = ceil(rows / f->kernel->rows), sequences = (double)(s[SHAPE_BATCH] * s[SHAPE_KV_HEADS]);
  const double blocks = ceil((double)s[SHAPE_SEQLEN] / f->kernel->block);
  struct point p = {.time_us = row->time_s * 1e6, .batch = (double)s[SHAPE_BATCH], .heads = (double)s[SHAPE_HEADS]};
  p.s = (struct shape){.keys = (double)s[SHAPE_SEQLEN],
                       .whole_tiles = sequences * per_sequence,
                       .tiles = sequences * (f->fill * per_sequence + (1 - f->fill) * rows / f->kernel->rows),
                       .values = (double)(s[SHAPE_KV_HEADS] * s[SHAPE_HEAD_DIM]),
                       .tokens = (double)(s[SHAPE_BATCH] * s[SHAPE_SEQLEN]),
                       .grouped = group == 4 || group == 8 || group == 16,
                       .splittable = (double)s[SHAPE_KV_HEADS] * per_sequence < SPLIT_BELOW && blocks > SPLIT_BLOCKS};
  VEC_PUSH(f->v, f->n, f->cap, p);
  f->best = fmax(f->best, flops_of(f->causal, s) / row->time_s);
}

/* A row of the serving build: those that name a library or device are pairs. */
static bool is_plain(const struct rows *rows, size_t i) {
  const struct table *t = &rows->table;
  return *table_field(t, i, table_column(t, "library")) || *table_field(t, i, table_column(t, "device"));
}

#define FAMILIES_MAX 12

struct families {
  struct family v[FAMILIES_MAX];
  size_t n;
};

static struct family *family_of(struct families *all, bool causal, int64_t head_dim) {
  const struct kernel *kernel = kernel_of(causal, head_dim);
  for (size_t i = 0; i < all->n; i++)
    if (all->v[i].causal == causal && all->v[i].kernel == kernel)
      return &all->v[i];
  if (!kernel || all->n == FAMILIES_MAX)
    return NULL;
  all->v[all->n] = (struct family){.causal = causal, .kernel = kernel, .fill = causal ? 0.4 : 1};
  return &all->v[all->n++];
}

static int compare_families(const void *a, const void *b) {
  const struct family *x = a, *y = b;
  return x->causal != y->causal
             ? x->causal - y->causal
             : (x->kernel->head_dim > y->kernel->head_dim) - (x->kernel->head_dim < y->kernel->head_dim);
}

static void collect(struct families *all, const struct fit_source *s) {
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
      const struct row *row = &s->own.files[f].v[i];
      if (row->op != ROW_OP_ATTENTION_FORWARD || is_plain(&s->own.files[f], i) || !fit_uses(s, &s->own, f, i))
        continue;
      struct family *family = family_of(all, row->shape[SHAPE_CAUSAL] != 0, row->shape[SHAPE_HEAD_DIM]);
      if (family)
        add_point(family, row);
    }
  qsort(all->v, all->n, sizeof *all->v, compare_families);
}

/* ---- Tables ---- */

struct nodes {
  double v[MAX_NODES];
  size_t n;
};

/* Both sides of the steps: multiples of a block of keys, waves of tiles; in between at equal ratios. */
static void set_key_nodes(struct nodes *nodes, int block) {
  static const double sizes[] = {1,    16,   32,   48,    64,    80,    104,   128,   192,   256,   400,
                                 512,  768,  1024, 1296,  1536,  2048,  2304,  3072,  4096,  5184,  6144,
                                 7744, 8192, 9216, 10240, 12288, 14400, 16384, 24576, 32768, 49152, 65536};
  nodes->n = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    nodes->v[nodes->n++] = sizes[i];
  for (int j = 1; j <= 18; j += j < 8 ? 1 : 2) {
    nodes->v[nodes->n++] = j * block;
    nodes->v[nodes->n++] = j * block + 1;
  }
}

static void set_tile_nodes(struct nodes *nodes) {
  static const double tiles[] = {1,    2,    4,    8,    16,   24,   33,   48,    66,    80,    96,     105,
                                 106,  119,  132,  133,  150,  174,  198,  231,   264,   265,   300,    330,
                                 396,  398,  460,  528,  531,  594,  660,  726,   792,   924,   1056,   1320,
                                 1584, 2112, 2640, 3168, 4224, 6336, 8448, 16896, 33792, 67584, 135168, 270336};
  nodes->n = sizeof tiles / sizeof *tiles;
  memcpy(nodes->v, tiles, sizeof tiles);
}

static void sort_nodes(struct nodes *nodes) {
  size_t n = 0;
  sort_doubles(nodes->v, nodes->n);
  for (size_t i = 0; i < nodes->n; i++)
    if (n == 0 || nodes->v[i] > nodes->v[n - 1])
      nodes->v[n++] = nodes->v[i];
  nodes->n = n;
}

struct grid {
  struct nodes keys, tiles;
};

static struct grid grid_of(const struct family *f) {
  struct grid g;
  set_key_nodes(&g.keys, f->kernel->block);
  set_tile_nodes(&g.tiles);
  sort_nodes(&g.keys);
  sort_nodes(&g.tiles);
  return g;
}

static double node_log_s(const struct family *f, double keys, double tiles, bool grouped) {
  const struct shape s = {.keys = keys, .tiles = tiles, .whole_tiles = tiles};
  return log(kernel_us(f, f->c, &s, grouped) * 1e-6) + surface_at(f->surface, keys, tiles / SMS);
}

static void finish_table(const struct family *f, const struct grid *g, double *v) {
  const size_t shape[2] = {g->keys.n, g->tiles.n};
  const double flops = (f->causal ? 2.0 : 4.0) * f->kernel->rows * f->kernel->head_dim;
  monotone_table(v, shape, 2, RISE_PASSES);
  for (size_t i = 0; i < shape[0] * shape[1]; i++) /* not faster than the fastest row */
    v[i] = fmax(v[i], log(flops * g->keys.v[i / shape[1]] * g->tiles.v[i % shape[1]] / f->best));
}

static double *make_table(const struct family *f, const struct grid *g, bool grouped) {
  double *v = xcalloc(g->keys.n * g->tiles.n, sizeof *v);
  for (size_t i = 0; i < g->keys.n * g->tiles.n; i++)
    v[i] = node_log_s(f, g->keys.v[i / g->tiles.n], g->tiles.v[i % g->tiles.n], grouped);
  finish_table(f, g, v);
  return v;
}

/* Full attention of a head dim without full rows: the formula of full attention with the causal kernel's seconds per
 * key and tile, and the surface and floor of the full rows at the nearest head dim below (all their kernels are of one
 * library). */
static void derive_full(struct family *to, const struct family *causal, const struct family *full,
                        const struct family *full_causal) {
  memcpy(to->c, full->c, sizeof to->c);
  to->c[BLOCK] = causal->c[BLOCK] * to->kernel->block / causal->kernel->block;
  to->c[TILE] = causal->c[TILE];
  to->c[FLOOR] = full->c[FLOOR] + fmax(0, causal->c[FLOOR] - full_causal->c[FLOOR]);
  to->surface = xcalloc(CELLS, sizeof *to->surface);
  memcpy(to->surface, causal->surface, CELLS * sizeof *to->surface);
  to->best = causal->best * full->best / full_causal->best;
}

static void derive_missing(struct families *all) {
  const struct family *full = NULL, *full_causal = NULL;
  struct family derived[FAMILIES_MAX];
  size_t n = 0;
  for (size_t i = 0; i < all->n; i++)
    for (size_t j = 0; j < all->n && !full; j++)
      if (!all->v[i].causal && all->v[j].causal && all->v[i].kernel->head_dim == all->v[j].kernel->head_dim) {
        full = &all->v[i];
        full_causal = &all->v[j];
      }
  for (size_t i = 0; full && i < all->n; i++) {
    const struct family *causal = &all->v[i];
    bool have = !causal->causal;
    for (size_t j = 0; j < all->n; j++)
      have |= !all->v[j].causal && all->v[j].kernel->head_dim == causal->kernel->head_dim;
    if (have)
      continue;
    derived[n] = (struct family){.kernel = kernel_of(false, causal->kernel->head_dim), .fill = full->fill};
    derive_full(&derived[n++], causal, full, full_causal);
  }
  for (size_t i = 0; i < n && all->n < FAMILIES_MAX; i++)
    all->v[all->n++] = derived[i];
  qsort(all->v, all->n, sizeof *all->v, compare_families);
}

static void write_formula(FILE *out, const struct family *f) {
  static const char *const names[] = {
      "floor_us", "block_us", "tile_us", "wave", "filling_us", "combine_us", "combine_us_per_mbyte", "norm", "partial"};
  fprintf(out, "{\"block_keys\": %d", f->kernel->block);
  for (int i = 0; i < CONSTANTS_FULL; i++)
    fprintf(out, ", \"%s\": %.6g", names[i], f->c[i]);
  fprintf(out, "}");
}

static void write_family(FILE *out, const struct family *f) {
  const struct grid g = grid_of(f);
  double *v = make_table(f, &g, false);
  fprintf(out, "      {\n        \"source\": \"");
  if (f->n > 0)
    fprintf(out, "%zu rows of FlashAttention 3, %s", f->n,
            f->causal ? "causal; the write of K and V into a cache and the slower split kernels kept apart (row)"
                      : "full");
  else
    fprintf(out, "derived: causal rows at this head dim, without the mask");
  fprintf(out, "\",\n        \"causal\": %s, \"head_dim\": %d, \"tile_rows\": %d, \"tile_fill\": %.6g,\n",
          f->causal ? "true" : "false", f->kernel->head_dim, f->kernel->rows, f->fill);
  fprintf(out, "        \"formula\": ");
  write_formula(out, f);
  if (f->causal && f->n > 0)
    fprintf(out,
            ",\n        \"row\": {\"block_keys\": %d, \"split_tiles\": %.6g, \"split_slower_frac\": %.6g, "
            "\"write_values\": %.6g, \"write_s_per_value\": %.6g, \"write_s_per_value_beyond\": %.6g}",
            f->kernel->block, SPLIT_BELOW, f->c[SPLIT_SLOWER], WRITE_VALUES, f->c[WRITE] * 1e-12,
            f->c[WRITE_BEYOND] * 1e-12);
  fprintf(out, ",\n        \"keys\": ");
  number_list(out, g.keys.v, g.keys.n, 9, 10);
  fprintf(out, ",\n        \"tiles\": ");
  number_list(out, g.tiles.v, g.tiles.n, 9, 10);
  fprintf(out, ",\n        \"time_ns\": ");
  number_list_ns(out, v, g.keys.n * g.tiles.n, 10);
  free(v);
  if (f->causal && f->n > 0) {
    v = make_table(f, &g, true);
    fprintf(out, ",\n        \"grouped_ns\": ");
    number_list_ns(out, v, g.keys.n * g.tiles.n, 10);
    free(v);
  }
  fprintf(out, "\n      }");
}

/* ---- Backward over forward ---- */

#define LENGTHS_MAX 64
#define PAIRS_MAX 64

struct ratios {
  struct length {
    double keys, v[PAIRS_MAX];
    size_t n;
  } lengths[LENGTHS_MAX];
  size_t n;
};

static bool same_pair(const struct rows *rows, size_t i, size_t j) {
  const struct table *t = &rows->table;
  const struct row *a = &rows->v[i], *b = &rows->v[j];
  for (int k = 0; k < ROW_SHAPE_MAX; k++)
    if (a->shape[k] != b->shape[k])
      return false;
  return strcmp(a->dtype, b->dtype) == 0 &&
         strcmp(table_field(t, i, table_column(t, "library")), table_field(t, j, table_column(t, "library"))) == 0 &&
         strcmp(table_field(t, i, table_column(t, "device")), table_field(t, j, table_column(t, "device"))) == 0;
}

static void add_ratio(struct ratios *r, double keys, double ratio) {
  size_t at = 0;
  while (at < r->n && r->lengths[at].keys != keys)
    at++;
  if (at == LENGTHS_MAX)
    return;
  if (at == r->n)
    r->lengths[r->n++] = (struct length){.keys = keys};
  struct length *l = &r->lengths[at];
  if (l->n < PAIRS_MAX)
    l->v[l->n++] = ratio;
}

/* Pairs of one device, library and shape, head dims up to 128 (256 runs another backward). */
static void collect_ratios(struct ratios *r, const struct fit_source *s) {
  for (size_t f = 0; f < s->own.n_files; f++) {
    const struct rows *rows = &s->own.files[f];
    const int library = table_column(&rows->table, "library");
    for (size_t i = 0; i < rows->table.n_rows; i++) {
      if (rows->v[i].op != ROW_OP_ATTENTION_FORWARD ||
          strncmp(table_field(&rows->table, i, library), "cuDNN", 5) != 0 || rows->v[i].shape[SHAPE_HEAD_DIM] > 128 ||
          !fit_uses(s, &s->own, f, i))
        continue;
      for (size_t j = 0; j < rows->table.n_rows; j++)
        if (rows->v[j].op == ROW_OP_ATTENTION_BACKWARD && same_pair(rows, i, j)) {
          add_ratio(r, (double)rows->v[i].shape[SHAPE_SEQLEN], rows->v[j].time_s / rows->v[i].time_s);
          break;
        }
    }
  }
}

static int compare_lengths(const void *a, const void *b) {
  const struct length *x = a, *y = b;
  return (x->keys > y->keys) - (x->keys < y->keys);
}

static void write_ratios(FILE *out, struct ratios *r) {
  double keys[LENGTHS_MAX], ratio[LENGTHS_MAX];
  size_t pairs = 0;
  qsort(r->lengths, r->n, sizeof *r->lengths, compare_lengths);
  for (size_t i = 0; i < r->n; i++) {
    keys[i] = r->lengths[i].keys;
    pairs += r->lengths[i].n;
    ratio[i] = median_sort(r->lengths[i].v, r->lengths[i].n);
  }
  fprintf(out,
          "{\n      \"source\": \"medians by sequence length of %zu cuDNN forward and backward pairs, head dims 64 and "
          "128\",\n      \"keys\": ",
          pairs);
  number_list(out, keys, r->n, 9, 8);
  fprintf(out, ", \"ratio\": ");
  number_list(out, ratio, r->n, 5, 8);
  fprintf(out, "\n    }");
}

static void release(struct families *all) {
  for (size_t i = 0; i < all->n; i++) {
    free(all->v[i].v);
    free(all->v[i].surface);
  }
}

static const json_t *default_of(const struct fit_source *s, const char *key) {
  return s->defaults ? json_object_get(json_object_get(s->defaults, "attention"), key) : NULL;
}

static int check_enough(const struct families *all, const struct ratios *r, const struct fit_source *s,
                        struct err *err) {
  bool have[2] = {default_of(s, "tables"), default_of(s, "tables")};
  for (size_t i = 0; i < all->n; i++) {
    if (all->v[i].n < 50)
      return err_set(err, "%zu %s attention rows at head dim %d are too few to fit %s (at least 50)", all->v[i].n,
                     all->v[i].causal ? "causal" : "full", all->v[i].kernel->head_dim, s->device);
    have[all->v[i].causal] = true;
  }
  if (all->n == 0 || !have[0] || !have[1])
    return err_set(err, "no %s attention_forward rows to fit %s", have[1] && all->n ? "full" : "causal", s->device);
  if (r->n == 0 && !default_of(s, "backward_ratio"))
    return err_set(err, "no attention forward and backward pairs (rows with a library) to fit %s", s->device);
  return 0;
}

static void put_json(FILE *out, const json_t *value) {
  char *text = json_dumps(value, JSON_COMPACT);
  fputs(text ? text : "null", out);
  free(text);
}

/* The tables of one mask: fitted, or the defaults' where no row has it. Returns how many were written. */
static size_t write_mask(FILE *out, const struct families *all, const struct fit_source *s, bool causal,
                         size_t written) {
  const size_t before = written;
  size_t i;
  const json_t *table;
  for (i = 0; i < all->n; i++)
    if (all->v[i].causal == causal) {
      fputs(written++ ? ",\n" : "", out);
      write_family(out, &all->v[i]);
    }
  if (written > before)
    return written;
  json_array_foreach(default_of(s, "tables"), i, table) {
    if (json_is_true(json_object_get(table, "causal")) != causal)
      continue;
    fputs(written++ ? ",\n" : "", out);
    put_json(out, table);
  }
  return written;
}

char *fit_attention(const struct fit_source *s, struct err *err) {
  struct families all = {.n = 0};
  struct ratios *ratios = xcalloc(1, sizeof *ratios);
  char *text = NULL;
  size_t size;
  collect(&all, s);
  collect_ratios(ratios, s);
  if (check_enough(&all, ratios, s, err))
    goto out;
  for (size_t i = 0; i < all.n; i++)
    fit_family(&all.v[i]);
  derive_missing(&all);
  FILE *out = text_stream_begin(&text, &size);
  fprintf(out, "{\n    \"source\": \"formula of FlashAttention 3 tiles and a smooth correction\",\n    "
               "\"backward_ratio\": ");
  if (ratios->n > 0)
    write_ratios(out, ratios);
  else
    put_json(out, default_of(s, "backward_ratio"));
  fprintf(out, ",\n    \"tables\": [\n");
  write_mask(out, &all, s, true, write_mask(out, &all, s, false, 0));
  fprintf(out, "\n");
  fprintf(out, "    ]\n  }");
  text_stream_end(out);
out:
  release(&all);
  free(ratios);
  return text;
}
