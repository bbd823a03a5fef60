#include "calib/repeats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "sim/base/err.h"
#include "sim/base/sorted.h"

#define PATIENCE 3 /* limits to wait for repetitions without interruption */

void repeats_add(struct repeats *r, double time_s, double spent_s, bool interrupted) {
  ASSERT(r->n < REPEATS_MAX);
  r->interrupted[r->n] = interrupted;
  r->time_s[r->n++] = time_s;
  r->spent_s += spent_s;
}

struct repeats_summary repeats_summarize(const struct repeats *r) {
  double v[REPEATS_MAX];
  size_t n = 0;
  ASSERT(r->n >= 1);
  for (size_t i = 0; i < r->n; i++)
    if (!r->interrupted[i])
      v[n++] = r->time_s[i];
  if (n < REPEATS_FEWEST) {
    n = r->n;
    memcpy(v, r->time_s, n * sizeof *v);
  }
  const double median = median_sort(v, n);
  /* Ranks between which the true median lies in 95 of 100: binomial, normal approximation. */
  const double below = floor(0.5 * (double)n - 0.98 * sqrt((double)n));
  const size_t low = below > 0 ? (size_t)below : 0, high = n - 1 - low;
  return (struct repeats_summary){.used = n,
                                  .median_s = median,
                                  .spread_frac = (v[(3 * (n - 1) + 2) / 4] - v[(n - 1) / 4]) / median,
                                  .confidence_frac = 0.5 * (v[high] - v[low]) / median};
}

bool repeats_enough(const struct repeats *r, double confidence_frac, double limit_s) {
  size_t clean = 0;
  for (size_t i = 0; i < r->n; i++)
    clean += !r->interrupted[i];
  if (clean < REPEATS_FEWEST)
    limit_s *= PATIENCE;
  if (r->n == REPEATS_MAX || (r->n >= REPEATS_FEWEST && r->spent_s >= limit_s))
    return true;
  if (r->n < REPEATS_LEAST)
    return false;
  const struct repeats_summary summary = repeats_summarize(r);
  return summary.used >= REPEATS_LEAST && summary.confidence_frac <= confidence_frac;
}

long repeats_interruptions(void) {
  struct rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}
