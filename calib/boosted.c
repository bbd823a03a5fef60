#include "calib/boosted.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/sorted.h"
#include "sim/base/units.h"

#define BINS 256
#define DEPTH_MAX 8
#define CLIP 1.5           /* residuals beyond this many medians count as if they were there */
#define CLIP_EVERY 10      /* trees between new medians */
#define CLIP_LEAST 0.01    /* of log time */
#define LEAF_SHRINKAGE 1.0 /* rows of value 0 added to each leaf */

/* Node i has children 2i + 1 and 2i + 2; the leaves are the last level. A node without a split sends all left. */
struct tree {
  int16_t feature[(1 << DEPTH_MAX) - 1];
  double threshold[(1 << DEPTH_MAX) - 1]; /* left: x < threshold */
  double value[1 << DEPTH_MAX];
};

struct boosted {
  int n_trees, depth;
  double start;
  struct tree *trees;
};

/* Rows by bin of each feature, feature-major. */
struct binned {
  size_t n_rows, n_features;
  uint8_t *bin;
  double (*cut)[BINS]; /* cut[f][b]: a row is in bin b or less if x < cut[f][b] */
  int *n_bins;
};

struct training {
  const struct binned *data;
  const struct boosted_options *options;
  double *residual, *step; /* what is left, and the same clipped */
  uint16_t *leaf;          /* node of the current level that each row is in */
};

struct cell {
  double sum;
  double count;
};

static void bin_feature(struct binned *d, size_t f, const double *x, double *sorted) {
  size_t distinct = 1;
  for (size_t i = 0; i < d->n_rows; i++)
    sorted[i] = x[i * d->n_features + f];
  sort_doubles(sorted, d->n_rows);
  for (size_t i = 1; i < d->n_rows; i++)
    distinct += sorted[i] > sorted[i - 1];
  int n = 0;
  size_t since = 0;
  for (size_t i = 1; i < d->n_rows && n < BINS - 1; i++) {
    since++;
    if (!(sorted[i] > sorted[i - 1]))
      continue;
    if (distinct <= BINS || since * BINS >= d->n_rows) {
      d->cut[f][n++] = 0.5 * (sorted[i] + sorted[i - 1]);
      since = 0;
    }
  }
  d->n_bins[f] = n + 1;
  for (size_t i = 0; i < d->n_rows; i++) {
    double v = x[i * d->n_features + f];
    int low = 0, high = n; /* first cut above v */
    while (low < high) {
      int mid = (low + high) / 2;
      if (v < d->cut[f][mid])
        high = mid;
      else
        low = mid + 1;
    }
    d->bin[f * d->n_rows + i] = (uint8_t)low;
  }
}

static void bin_all(struct binned *d, const double *x, size_t n_rows, size_t n_features) {
  double *sorted = xcalloc(n_rows, sizeof *sorted);
  *d = (struct binned){.n_rows = n_rows,
                       .n_features = n_features,
                       .bin = xcalloc(size_mul(n_rows, n_features), 1),
                       .cut = xcalloc(n_features, sizeof *d->cut),
                       .n_bins = xcalloc(n_features, sizeof *d->n_bins)};
  for (size_t f = 0; f < n_features; f++)
    bin_feature(d, f, x, sorted);
  free(sorted);
}

struct split {
  double gain;
  int feature, bin; /* left: bins up to this one */
};

static double gain_of(struct cell c) { return c.sum * c.sum / (c.count + LEAF_SHRINKAGE); }

static void best_cut(const struct cell *cells, int n_bins, int feature, double min_rows, struct split *best) {
  struct cell all = {0, 0}, left = {0, 0};
  for (int b = 0; b < n_bins; b++) {
    all.sum += cells[b].sum;
    all.count += cells[b].count;
  }
  for (int b = 0; b + 1 < n_bins; b++) {
    left.sum += cells[b].sum;
    left.count += cells[b].count;
    struct cell right = {all.sum - left.sum, all.count - left.count};
    if (left.count < min_rows || right.count < min_rows)
      continue;
    double gain = gain_of(left) + gain_of(right) - gain_of(all);
    if (gain > best->gain + 1e-12)
      *best = (struct split){gain, feature, b};
  }
}

/* Splits the nodes of one level and moves every row to its child. */
static void split_level(const struct training *t, struct tree *tree, int level) {
  const struct binned *d = t->data;
  const size_t nodes = (size_t)1 << level;
  static const struct split none = {1e-9, -1, 0};
  struct split best[1 << (DEPTH_MAX - 1)];
  struct cell *cells = xcalloc(nodes * BINS, sizeof *cells);
  for (size_t n = 0; n < nodes; n++)
    best[n] = none;
  for (size_t f = 0; f < d->n_features; f++) {
    const uint8_t *bin = d->bin + f * d->n_rows;
    memset(cells, 0, nodes * BINS * sizeof *cells);
    for (size_t i = 0; i < d->n_rows; i++) {
      struct cell *c = &cells[(size_t)t->leaf[i] * BINS + bin[i]];
      c->sum += t->step[i];
      c->count += 1;
    }
    for (size_t n = 0; n < nodes; n++)
      best_cut(cells + n * BINS, d->n_bins[f], (int)f, (double)t->options->min_rows, &best[n]);
  }
  for (size_t n = 0; n < nodes; n++) {
    size_t at = nodes - 1 + n;
    tree->feature[at] = (int16_t)best[n].feature;
    tree->threshold[at] = best[n].feature < 0 ? 0 : d->cut[best[n].feature][best[n].bin];
  }
  for (size_t i = 0; i < d->n_rows; i++) {
    const struct split *s = &best[t->leaf[i]];
    bool right = s->feature >= 0 && d->bin[(size_t)s->feature * d->n_rows + i] > s->bin;
    t->leaf[i] = (uint16_t)(2 * t->leaf[i] + right);
  }
  free(cells);
}

static void set_leaves(const struct training *t, struct tree *tree) {
  const size_t leaves = (size_t)1 << t->options->depth;
  struct cell cells[1 << DEPTH_MAX] = {{0, 0}};
  for (size_t i = 0; i < t->data->n_rows; i++) {
    cells[t->leaf[i]].sum += t->step[i];
    cells[t->leaf[i]].count += 1;
  }
  for (size_t n = 0; n < leaves; n++)
    tree->value[n] = t->options->rate * cells[n].sum / (cells[n].count + LEAF_SHRINKAGE);
  for (size_t i = 0; i < t->data->n_rows; i++)
    t->residual[i] -= tree->value[t->leaf[i]];
}

/* The upper of two in the middle. */
static double median_of(const double *v, size_t n) {
  double *sorted = xcalloc(n, sizeof *sorted);
  for (size_t i = 0; i < n; i++)
    sorted[i] = v[i];
  sort_doubles(sorted, n);
  double median = sorted[n / 2];
  free(sorted);
  return median;
}

struct boosted *boosted_fit(const double *x, const double *y, size_t n_rows, size_t n_features,
                            const struct boosted_options *options) {
  struct boosted *b = xcalloc(1, sizeof *b);
  struct binned data;
  double clip = 0;
  ASSERT(n_rows > 0 && options->depth >= 1 && options->depth <= DEPTH_MAX);
  *b = (struct boosted){options->trees, options->depth, median_of(y, n_rows), NULL};
  b->trees = xcalloc((size_t)options->trees, sizeof *b->trees);
  bin_all(&data, x, n_rows, n_features);
  struct training t = {&data, options, xcalloc(n_rows, sizeof(double)), xcalloc(n_rows, sizeof(double)),
                       xcalloc(n_rows, sizeof(uint16_t))};
  for (size_t i = 0; i < n_rows; i++)
    t.residual[i] = y[i] - b->start;
  for (int k = 0; k < options->trees; k++) {
    if (k % CLIP_EVERY == 0)
      clip = fmax(CLIP_LEAST, CLIP * median_abs(t.residual, n_rows));
    for (size_t i = 0; i < n_rows; i++) {
      t.step[i] = fmax(-clip, fmin(clip, t.residual[i]));
      t.leaf[i] = 0;
    }
    for (int level = 0; level < options->depth; level++)
      split_level(&t, &b->trees[k], level);
    set_leaves(&t, &b->trees[k]);
  }
  free(t.residual);
  free(t.step);
  free(t.leaf);
  free(data.bin);
  free(data.cut);
  free(data.n_bins);
  return b;
}

double boosted_predict(const struct boosted *b, const double *x) {
  double sum = b->start;
  for (int k = 0; k < b->n_trees; k++) {
    const struct tree *t = &b->trees[k];
    size_t at = 0;
    for (int level = 0; level < b->depth; level++)
      at = 2 * at + (t->feature[at] >= 0 && !(x[t->feature[at]] < t->threshold[at]) ? 2 : 1);
    sum += t->value[at - (((size_t)1 << b->depth) - 1)];
  }
  return sum;
}

void boosted_free(struct boosted *b) {
  if (!b)
    return;
  free(b->trees);
  free(b);
}
