#include "sim/policy/gas.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

/* The times that occur, each once, in order of first occurrence. */
struct distinct {
  double time_s;
  int largest; /* int(cap / time_s): the most micro-batches considered */
  int count;   /* entries with this time */
  int k;       /* choice at the target looked at */
  double penalty;
};

struct search {
  int n, n_distinct;
  int *kind; /* per entry: index into `distinct` */
  struct distinct *distinct;
  int *best_k; /* per distinct time */
  double best_total;
};

static double penalty_of(int k, double time_s, double target_s) {
  double over_s = k * time_s - target_s;
  return over_s > 0 ? 1.2 * over_s : target_s - k * time_s;
}

/* The penalty falls towards the target and rises beyond it, so only the neighbours of floor(target/time) can be least
 * (two of them: the division may round across an integer). */
static void choose_k(struct distinct *d, double target_s) {
  int middle = (int)(target_s / d->time_s);
  middle = middle < d->largest ? middle : d->largest;
  int from = middle > 2 ? middle - 1 : 1, to = middle + 1 < d->largest ? middle + 1 : d->largest;
  d->k = from;
  d->penalty = penalty_of(from, d->time_s, target_s);
  for (int k = from + 1; k <= to; k++) {
    double penalty = penalty_of(k, d->time_s, target_s);
    if (penalty < d->penalty) {
      d->penalty = penalty;
      d->k = k;
    }
  }
}

/* A target whose total is clearly above the best (beyond any rounding) needs no exact sum. */
static bool may_improve(struct search *s, double target_s) {
  double rough = 0, limit = s->best_total * (1 + 1e-9);
  for (int d = 0; d < s->n_distinct; d++) {
    choose_k(&s->distinct[d], target_s);
    rough += s->distinct[d].count * s->distinct[d].penalty;
    if (rough > limit)
      return false;
  }
  return true;
}

static void try_target(struct search *s, double target_s) {
  if (!may_improve(s, target_s))
    return;
  double total = 0; /* in entry order, as the triple loop adds: sums must agree to the last bit */
  for (int i = 0; i < s->n; i++)
    total += s->distinct[s->kind[i]].penalty;
  if (total < s->best_total) {
    s->best_total = total;
    for (int d = 0; d < s->n_distinct; d++)
      s->best_k[d] = s->distinct[d].k;
  }
}

static int by_time(const void *a, const void *b) {
  const double *const *x = a, *const *y = b;
  if (**x != **y)
    return **x < **y ? -1 : 1;
  return *x < *y ? -1 : *x > *y; /* same array: entry order */
}

/* Fills kind[] and distinct[]; returns the longest time. Groups equal times by sorting, O(n log n). */
static double find_distinct(struct search *s, const double *times) {
  const double **sorted = xmalloc(size_mul((size_t)s->n, sizeof *sorted));
  int *first_of = xmalloc(size_mul((size_t)s->n, sizeof *first_of)); /* per entry: first entry with its time */
  for (int i = 0; i < s->n; i++)
    sorted[i] = &times[i];
  qsort(sorted, (size_t)s->n, sizeof *sorted, by_time);
  for (int i = 0; i < s->n; i++) {
    int entry = (int)(sorted[i] - times);
    bool same = i > 0 && *sorted[i - 1] == *sorted[i];
    first_of[entry] = same ? first_of[sorted[i - 1] - times] : entry;
  }
  double longest_s = *sorted[s->n - 1];
  for (int i = 0; i < s->n; i++) {
    if (first_of[i] == i) {
      s->kind[i] = s->n_distinct;
      s->distinct[s->n_distinct++] = (struct distinct){.time_s = times[i]};
    } else {
      s->kind[i] = s->kind[first_of[i]];
    }
    s->distinct[s->kind[i]].count++;
  }
  free(sorted);
  free(first_of);
  return longest_s;
}

static void raise_to_min(int *gas, int n, int min_gas) {
  int most = 0;
  for (int i = 0; i < n; i++)
    most = gas[i] > most ? gas[i] : most;
  if (most >= min_gas)
    return;
  int factor = (min_gas + most - 1) / most;
  for (int i = 0; i < n; i++)
    gas[i] *= factor;
}

void gas_choose(const double *times, int n, int max_gas, int min_gas, int *gas) {
  ASSERT(n > 0 && max_gas > 0);
  struct search s = {.n = n, .best_total = INFINITY};
  s.kind = xmalloc(size_mul((size_t)n, sizeof *s.kind));
  s.distinct = xmalloc(size_mul((size_t)n, sizeof *s.distinct));
  double cap_s = find_distinct(&s, times) * max_gas;
  s.best_k = xcalloc((size_t)s.n_distinct, sizeof *s.best_k);
  for (int d = 0; d < s.n_distinct; d++) {
    double largest = cap_s / s.distinct[d].time_s;
    ASSERT(s.distinct[d].time_s > 0 && largest < GAS_MAX_MICRO_BATCHES + 1.0);
    s.distinct[d].largest = (int)largest;
  }
  for (int d = 0; d < s.n_distinct; d++)
    for (int m = 1; m <= s.distinct[d].largest && s.best_total > 0; m++)
      try_target(&s, m * s.distinct[d].time_s);
  for (int i = 0; i < n; i++)
    gas[i] = s.best_k[s.kind[i]];
  raise_to_min(gas, n, min_gas);
  free(s.kind);
  free(s.distinct);
  free(s.best_k);
}
