#include "calib/smooth_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/sorted.h"
#include "sim/base/units.h"

enum { WEIGHT_ROUNDS = 8, SWEEPS = 4000 };
#define OUTLIER 2.0 /* relative errors beyond this many medians weigh less */
#define LEAST_SCALE 0.02
#define PRIOR_ROWS 0.3 /* rows of no correction that stand at every place */
#define LEAST_SUM_S 1e-9

static double sum_s(const struct smooth_fit *f, const struct smooth_point *at) {
  double sum = 0;
  for (int j = 0; j < f->terms; j++)
    sum += f->coefficient[j] * at->term[j];
  return fmax(sum, LEAST_SUM_S);
}

/* ---- Coefficients ---- */

/* Least squares of 1 - sum/time with weights, coefficients >= 0: one coefficient at a time, on the normal equations of
 * terms scaled to one size. */
static void solve(struct smooth_fit *f, const double *weight) {
  double gram[SMOOTH_TERMS_MAX][SMOOTH_TERMS_MAX] = {{0}}, right[SMOOTH_TERMS_MAX] = {0}, scale[SMOOTH_TERMS_MAX] = {0};
  double x[SMOOTH_TERMS_MAX] = {0};
  for (size_t i = 0; i < f->n; i++)
    for (int j = 0; j < f->terms; j++)
      scale[j] += weight[i] * pow(f->points[i].term[j] / f->points[i].time_s, 2);
  for (int j = 0; j < f->terms; j++)
    scale[j] = scale[j] > 0 ? sqrt(scale[j]) : 1;
  for (size_t i = 0; i < f->n; i++)
    for (int j = 0; j < f->terms; j++) {
      const double a = f->points[i].term[j] / f->points[i].time_s / scale[j];
      right[j] += weight[i] * a;
      for (int k = 0; k < f->terms; k++)
        gram[j][k] += weight[i] * a * f->points[i].term[k] / f->points[i].time_s / scale[k];
    }
  for (int sweep = 0; sweep < SWEEPS; sweep++)
    for (int j = 0; j < f->terms; j++) {
      double left = right[j];
      for (int k = 0; k < f->terms; k++)
        left -= gram[j][k] * x[k];
      x[j] = gram[j][j] > 0 ? fmax(0, x[j] + left / gram[j][j]) : 0;
    }
  for (int j = 0; j < f->terms; j++)
    f->coefficient[j] = x[j] / scale[j];
}

static void fit_coefficients(struct smooth_fit *f) {
  double *weight = xcalloc(f->n, sizeof *weight);
  for (size_t i = 0; i < f->n; i++)
    weight[i] = f->points[i].weight;
  for (int round = 0; round < WEIGHT_ROUNDS; round++) {
    solve(f, weight);
    for (size_t i = 0; i < f->n; i++)
      f->miss[i] = log(f->points[i].time_s / sum_s(f, &f->points[i]));
    const double scale = OUTLIER * fmax(LEAST_SCALE, median_abs(f->miss, f->n));
    for (size_t i = 0; i < f->n; i++)
      weight[i] = f->points[i].weight * fmin(1, scale / fmax(1e-12, fabs(f->miss[i])));
  }
  free(weight);
}

/* ---- Correction ---- */

/* Mean of the misses around a place; row `without` does not count. */
static double correction(const struct smooth_fit *f, const struct smooth_point *at, double width, size_t without) {
  double sum = 0, count = PRIOR_ROWS;
  for (size_t i = 0; i < f->n; i++) {
    double distance = 0;
    for (int k = 0; k < f->axes; k++)
      distance += pow((at->place[k] - f->points[i].place[k]) / width, 2);
    if (i == without || distance > 50)
      continue;
    const double weight = f->points[i].weight * exp(-0.5 * distance);
    sum += weight * f->miss[i];
    count += weight;
  }
  return sum / count;
}

static void choose_width(struct smooth_fit *f) {
  static const double widths[] = {0.4, 0.7, 1, 1.5, 2.5, 5};
  double *left = xcalloc(f->n, sizeof *left), best = INFINITY;
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
    for (size_t i = 0; i < f->n; i++)
      left[i] = f->miss[i] - correction(f, &f->points[i], widths[w], i);
    const double error = median_abs(left, f->n);
    if (error < best) {
      best = error;
      f->width = widths[w];
    }
  }
  free(left);
}

void smooth_fit_make(struct smooth_fit *f, const struct smooth_point *points, size_t n, int terms, int axes) {
  ASSERT(n >= 1 && terms <= SMOOTH_TERMS_MAX && axes <= SMOOTH_AXES_MAX);
  *f = (struct smooth_fit){.terms = terms, .axes = axes, .n = n};
  f->points = xcalloc(n, sizeof *f->points);
  f->miss = xcalloc(n, sizeof *f->miss);
  memcpy(f->points, points, n * sizeof *points);
  fit_coefficients(f);
  choose_width(f);
}

void smooth_fit_release(struct smooth_fit *f) {
  free(f->points);
  free(f->miss);
  *f = (struct smooth_fit){.n = 0};
}

double smooth_fit_log_s(const struct smooth_fit *f, const struct smooth_point *at) {
  return log(sum_s(f, at)) + correction(f, at, f->width, f->n);
}
