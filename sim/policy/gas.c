#include "sim/policy/gas.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

/* The times that occur, each once. */
struct distinct {
  double time_s;
  int first;   /* entry that has it first */
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

/* The penalty falls towards the target and rises beyond it, so the least one is at the last k not above the target or
 * at the next: two to compare, around a quotient that may be rounded across an integer. The first of equal ones. */
static void choose_k(struct distinct *d, double target_s) {
  int low = (int)(target_s / d->time_s);
  low = low < d->largest ? low : d->largest;
  low = low > 1 ? low : 1;
  d->k = low;
  d->penalty = penalty_of(low, d->time_s, target_s);
  if (low == d->largest)
    return;
  double next = penalty_of(low + 1, d->time_s, target_s);
  if (next < d->penalty) {
    d->penalty = next;
    d->k = low + 1;
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

/* The times that cost most where they miss come first: they rule a target out soonest. */
static int by_weight(const void *a, const void *b) {
  const struct distinct *x = a, *y = b;
  double wx = x->count * x->time_s, wy = y->count * y->time_s;
  return wx != wy ? (wx < wy) - (wx > wy) : x->first - y->first;
}

static int by_first(const void *a, const void *b) {
  const struct distinct *const *x = a, *const *y = b;
  return (*x)->first - (*y)->first;
}

/* Fills kind[] and distinct[]; returns the longest time. Groups equal times by sorting, O(n log n). */
static double find_distinct(struct search *s, const double *times) {
  const double **sorted = xmalloc(size_mul((size_t)s->n, sizeof *sorted));
  int *kind_of_first = xmalloc(size_mul((size_t)s->n, sizeof *kind_of_first));
  for (int i = 0; i < s->n; i++)
    sorted[i] = &times[i];
  qsort(sorted, (size_t)s->n, sizeof *sorted, by_time);
  for (int i = 0; i < s->n; i++) {
    if (i == 0 || *sorted[i] != *sorted[i - 1])
      s->distinct[s->n_distinct++] = (struct distinct){.time_s = *sorted[i], .first = (int)(sorted[i] - times)};
    s->distinct[s->n_distinct - 1].count++;
    s->kind[sorted[i] - times] = s->distinct[s->n_distinct - 1].first;
  }
  qsort(s->distinct, (size_t)s->n_distinct, sizeof *s->distinct, by_weight);
  for (int d = 0; d < s->n_distinct; d++)
    kind_of_first[s->distinct[d].first] = d;
  for (int i = 0; i < s->n; i++)
    s->kind[i] = kind_of_first[s->kind[i]];
  double longest_s = *sorted[s->n - 1];
  free(sorted);
  free(kind_of_first);
  return longest_s;
}

/* All multiples of every time up to the cap, times in order of their first entry. */
static void try_all_targets(struct search *s) {
  const struct distinct **order = xmalloc(size_mul((size_t)s->n_distinct, sizeof *order));
  for (int d = 0; d < s->n_distinct; d++)
    order[d] = &s->distinct[d];
  qsort(order, (size_t)s->n_distinct, sizeof *order, by_first);
  for (int d = 0; d < s->n_distinct; d++)
    for (int m = 1; m <= order[d]->largest && s->best_total > 0; m++)
      try_target(s, m * order[d]->time_s);
  free(order);
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
  try_all_targets(&s);
  for (int i = 0; i < n; i++)
    gas[i] = s.best_k[s.kind[i]];
  raise_to_min(gas, n, min_gas);
  free(s.kind);
  free(s.distinct);
  free(s.best_k);
}
