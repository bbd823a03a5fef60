#include "sim/policy/recompute.h"

#include <math.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

#define MAX_MODULES 4

static double weight_of(const struct recompute_module *m, int count, int round_gib) {
  double bytes = m->activation_bytes * count;
  return round_gib ? ceil(bytes / GIB_BYTES) * GIB_BYTES : bytes;
}

/* The most blocks that fit; the weight grows with the count. */
static int most_that_fit(const struct recompute_module *m, int layers, double spare_bytes, int round_gib) {
  int low = 0, high = layers;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (weight_of(m, middle, round_gib) <= spare_bytes)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

struct knapsack {
  const struct recompute_module *modules;
  int layers, round_gib;
};

/* Best value of the first n modules in spare_bytes: counts of the last one are tried upwards, so among equal values the
 * one that keeps fewest of the LATER modules wins: what a table filled module by module, replacing on strict
 * improvement, leaves. */
static double solve(const struct knapsack *k, int n, double spare_bytes, int *keep) {
  const struct recompute_module *m = &k->modules[n - 1];
  int most = m->forward_s > 0 ? most_that_fit(m, k->layers, spare_bytes, k->round_gib) : 0;
  if (n == 1) {
    keep[0] = most;
    return most * m->forward_s;
  }
  double best = -1;
  int trial[MAX_MODULES];
  for (int c = 0; c <= most; c++) {
    double saved = solve(k, n - 1, spare_bytes - weight_of(m, c, k->round_gib), trial) + c * m->forward_s;
    if (saved <= best)
      continue;
    best = saved;
    trial[n - 1] = c;
    for (int i = 0; i < n; i++)
      keep[i] = trial[i];
  }
  return best;
}

double recompute_choose(const struct recompute_module *modules, int n_modules, int layers, double spare_bytes,
                        int round_gib, int *keep) {
  ASSERT(n_modules > 0 && n_modules <= MAX_MODULES);
  struct knapsack k = {modules, layers, round_gib};
  if (round_gib)
    spare_bytes = floor(spare_bytes / GIB_BYTES) * GIB_BYTES;
  for (int i = 0; i < n_modules; i++)
    keep[i] = 0;
  return spare_bytes >= 0 ? solve(&k, n_modules, spare_bytes, keep) : 0;
}
