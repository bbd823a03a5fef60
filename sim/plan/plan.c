#include "sim/plan/plan.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

static void free_pools(struct plan_iteration *it) {
  for (size_t i = 0; i < it->n_pools; i++)
    free(it->pools[i]);
  it->n_pools = 0;
}

void plan_iteration_clear(struct plan_iteration *it) {
  free_pools(it);
  it->n_groups = it->n_micro_batches = it->n_drops = 0;
  it->rounds = 0;
  it->tokens = 0;
  it->over_tokens = false;
  it->time_s = it->imbalance_s = 0;
}

void plan_iteration_release(struct plan_iteration *it) {
  free_pools(it);
  free(it->groups);
  free(it->micro_batches);
  free(it->drops);
  free(it->pools);
  *it = (struct plan_iteration){0};
}

struct plan_group *plan_add_group(struct plan_iteration *it, int first_rank, int sp, int bucket) {
  struct plan_group g = {
      .first_rank = first_rank, .sp = sp, .bucket = bucket, .first_micro_batch = it->n_micro_batches};
  VEC_PUSH(it->groups, it->n_groups, it->groups_cap, g);
  return &it->groups[it->n_groups - 1];
}

struct plan_micro_batch *plan_add_micro_batch(struct plan_iteration *it) {
  ASSERT(it->n_groups > 0);
  struct plan_group *g = &it->groups[it->n_groups - 1];
  struct plan_micro_batch m = {.bucket = g->bucket};
  VEC_PUSH(it->micro_batches, it->n_micro_batches, it->micro_batches_cap, m);
  g->n_micro_batches++;
  return &it->micro_batches[it->n_micro_batches - 1];
}

uint32_t *plan_pool(struct plan_iteration *it, size_t n) {
  uint32_t *pool = xmalloc(size_mul(n ? n : 1, sizeof *pool));
  VEC_PUSH(it->pools, it->n_pools, it->pools_cap, pool);
  return pool;
}

void plan_add_drop(struct plan_iteration *it, int bucket, int64_t count, const uint32_t *samples, bool tail) {
  struct plan_drop d = {.bucket = bucket, .count = count, .samples = samples, .tail = tail};
  if (count > 0)
    VEC_PUSH(it->drops, it->n_drops, it->drops_cap, d);
}

/* One round: groups are disjoint, so no array over ranks is needed. */
static double longest_of_one_round(const struct plan_iteration *it) {
  double longest = 0;
  for (size_t i = 0; i < it->n_groups; i++)
    if (it->groups[i].time_s > longest)
      longest = it->groups[i].time_s;
  return longest;
}

static double longest_rank(const struct plan_iteration *it, int world) {
  double *busy_s = xcalloc((size_t)world, sizeof *busy_s), longest = 0;
  for (size_t i = 0; i < it->n_groups; i++)
    for (int r = 0; r < it->groups[i].sp; r++) {
      double *t = &busy_s[it->groups[i].first_rank + r];
      *t += it->groups[i].time_s;
      if (*t > longest)
        longest = *t;
    }
  free(busy_s);
  return longest;
}

/* All groups of a round run their j-th micro-batches together. */
static double longest_in_lockstep(const struct plan_iteration *it) {
  double sum = 0;
  for (size_t first = 0, end; first < it->n_groups; first = end) {
    size_t most = 0;
    for (end = first; end < it->n_groups && it->groups[end].round == it->groups[first].round; end++)
      most = it->groups[end].n_micro_batches > most ? it->groups[end].n_micro_batches : most;
    for (size_t j = 0; j < most; j++) {
      double longest_s = 0;
      for (const struct plan_group *g = it->groups + first; g < it->groups + end; g++)
        if (j < g->n_micro_batches)
          longest_s = fmax(longest_s, it->micro_batches[g->first_micro_batch + j].time_s);
      sum += longest_s;
    }
  }
  return sum;
}

void plan_iteration_finish(struct plan_iteration *it, int world, bool lockstep) {
  double busy_rank_s = 0;
  it->rounds = it->n_groups > 0;
  it->tokens = 0;
  for (size_t i = 0; i < it->n_groups; i++) {
    struct plan_group *g = &it->groups[i];
    ASSERT(g->first_rank >= 0 && g->sp > 0 && g->first_rank + g->sp <= world);
    g->time_s = 0;
    for (size_t j = 0; j < g->n_micro_batches; j++) {
      g->time_s += it->micro_batches[g->first_micro_batch + j].time_s;
      it->tokens += it->micro_batches[g->first_micro_batch + j].tokens;
    }
    busy_rank_s += g->time_s * g->sp;
    if (g->round >= it->rounds)
      it->rounds = g->round + 1;
  }
  if (lockstep)
    it->time_s = longest_in_lockstep(it);
  else
    it->time_s = it->rounds > 1 ? longest_rank(it, world) : longest_of_one_round(it);
  it->imbalance_s = fmax(0.0, it->time_s - busy_rank_s / world); /* rounding must not make it negative */
}
