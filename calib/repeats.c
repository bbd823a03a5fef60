#include "calib/repeats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"

void repeats_add(struct repeats *r, double time_s, double spent_s) {
  ASSERT(r->n < REPEATS_MAX);
  r->time_s[r->n++] = time_s;
  r->spent_s += spent_s;
}

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

struct repeats_summary repeats_summarize(const struct repeats *r) {
  double v[REPEATS_MAX];
  const size_t n = r->n;
  ASSERT(n >= 1);
  memcpy(v, r->time_s, n * sizeof *v);
  qsort(v, n, sizeof *v, compare_doubles);
  const double median = n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
  /* Ranks between which the true median lies in 95 of 100: binomial, normal approximation. */
  const double below = floor(0.5 * (double)n - 0.98 * sqrt((double)n));
  const size_t low = below > 0 ? (size_t)below : 0, high = n - 1 - low;
  return (struct repeats_summary){.median_s = median,
                                  .spread_frac = (v[(3 * (n - 1) + 2) / 4] - v[(n - 1) / 4]) / median,
                                  .confidence_frac = 0.5 * (v[high] - v[low]) / median};
}

bool repeats_enough(const struct repeats *r, double confidence_frac, double limit_s) {
  if (r->n == REPEATS_MAX || (r->n >= 3 && r->spent_s >= limit_s))
    return true;
  return r->n >= REPEATS_LEAST && repeats_summarize(r).confidence_frac <= confidence_frac;
}
