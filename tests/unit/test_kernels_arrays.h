/* Arrays that a call is tried on, each in double for the reference and in float for a device, with the same numbers. */
#ifndef TESTS_UNIT_TEST_KERNELS_ARRAYS_H
#define TESTS_UNIT_TEST_KERNELS_ARRAYS_H
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/rng.h"
#include "sim/base/units.h"

enum { MAX_ARRAYS = 16 };

struct arrays {
  int n;
  size_t size[MAX_ARRAYS];
  double *d[MAX_ARRAYS];
  float *f[MAX_ARRAYS];
};

static inline void arrays_init(struct arrays *a, int n, const size_t size[], uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed, "arrays");
  *a = (struct arrays){.n = n};
  for (int i = 0; i < n; i++) {
    a->size[i] = size[i];
    a->d[i] = xcalloc(size[i] + 1, sizeof(double));
    a->f[i] = xcalloc(size[i] + 1, sizeof(float));
    for (size_t j = 0; j < size[i]; j++)
      a->d[i][j] = a->f[i][j] = (float)rng_gaussian(&rng);
  }
  rng_release(&rng);
}

static inline void arrays_release(struct arrays *a) {
  for (int i = 0; i < a->n; i++) {
    free(a->d[i]);
    free(a->f[i]);
  }
}

static inline void arrays_pointers(const struct arrays *a, bool reference, void *p[MAX_ARRAYS]) {
  for (int i = 0; i < a->n; i++)
    p[i] = reference ? (void *)a->d[i] : (void *)a->f[i];
}

/* || f - d || / || d ||; infinities must agree; 0 for empty or twice zero. */
static inline double array_error(const double *d, const float *f, size_t n) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < n; i++) {
    if (isinf(d[i]) && (double)f[i] == d[i])
      continue;
    difference += (f[i] - d[i]) * (f[i] - d[i]);
    norm += d[i] * d[i];
  }
  return norm > 0 ? sqrt(difference / norm) : difference > 0 ? INFINITY : isnan(difference) ? NAN : 0;
}

static inline double array_dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

/* d + factor * direction; the direction is the seed's. Returns <slope, direction>. */
static inline double array_move(double *d, const double *slope, size_t n, double factor, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed, "direction");
  double along = 0;
  for (size_t i = 0; i < n; i++) {
    const double r = rng_gaussian(&rng);
    d[i] += factor * r;
    along += slope ? slope[i] * r : 0;
  }
  rng_release(&rng);
  return along;
}

#endif
