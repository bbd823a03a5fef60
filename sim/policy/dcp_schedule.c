#include "sim/policy/dcp_schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/policy/bucket_queues.h"
#include "sim/policy/fill.h"
#include "sim/policy/gas.h"

struct schedule {
  const struct policy_input *in;
  struct fill fill;
  struct fill_entry *entries; /* of the iteration in the making; room for `world` */
  int n_entries;
  double *times; /* scratch of `world`: of the entries, for gas_choose */
  int *gas;
  int64_t *used; /* per bucket: samples taken from the front of its queue, drops of whole iterations included */
  int64_t *scratch, *left; /* per bucket */
  bool started;
};

/* The accumulation search is linear in tmax/tmin: refuse what would never end. */
static int check_times(const struct schedule *s, struct err *err) {
  double shortest_s = INFINITY, longest_s = 0;
  for (int b = 0; b < s->in->profile->n_buckets; b++)
    if (s->fill.left[b] > 0) {
      shortest_s = fmin(shortest_s, s->in->profile->buckets[b].best.time_s);
      longest_s = fmax(longest_s, s->in->profile->buckets[b].best.time_s);
    }
  if (longest_s > 0 && longest_s / shortest_s * s->in->options.max_gas > GAS_MAX_MICRO_BATCHES)
    return err_set(err, "bucket times from %g s to %g s differ too much to balance with max-gas %d", shortest_s,
                   longest_s, s->in->options.max_gas);
  return 0;
}

int dcp_schedule_open(void **run, const struct policy_input *in, struct err *err) {
  struct schedule *s = xcalloc(1, sizeof *s);
  size_t world = (size_t)in->world, n_buckets = (size_t)in->profile->n_buckets;
  ASSERT(in->options.max_gas > 0 && in->options.min_gas > 0);
  s->in = in;
  s->entries = xcalloc(world, sizeof *s->entries);
  s->times = xcalloc(world, sizeof *s->times);
  s->gas = xcalloc(world, sizeof *s->gas);
  s->used = xcalloc(n_buckets + 1, sizeof *s->used);
  s->scratch = xcalloc(n_buckets + 1, sizeof *s->scratch);
  s->left = xcalloc(n_buckets + 1, sizeof *s->left);
  if (fill_init(&s->fill, in, "dcp.pick", false, err) < 0 || check_times(s, err) < 0) {
    dcp_schedule_close(s);
    return -1;
  }
  *run = s;
  return 0;
}

void dcp_schedule_close(void *run) {
  struct schedule *s = run;
  fill_release(&s->fill);
  free(s->entries);
  free(s->times);
  free(s->gas);
  free(s->used);
  free(s->scratch);
  free(s->left);
  free(s);
}

static int64_t batch_of(const struct schedule *s, int bucket) { return s->in->profile->buckets[bucket].best.batch; }

/* A. drop_last: every bucket starts as a multiple of its batch. */
static void drop_remainders(struct schedule *s, struct plan_iteration *it) {
  for (int b = 0; b < s->in->profile->n_buckets; b++) {
    int64_t rest = s->fill.left[b] > 0 ? s->fill.left[b] % batch_of(s, b) : 0;
    plan_add_drop(it, b, rest, NULL, true);
    fill_take(&s->fill, b, rest);
  }
}

/* B. Returns the ranks that no bucket could take. */
static int fill_ranks(struct schedule *s, int free_ranks) {
  while (free_ranks > 0) {
    int b = fill_pick(&s->fill, free_ranks);
    if (b < 0)
      return free_ranks;
    const struct candidate *best = &s->in->profile->buckets[b].best;
    int64_t count = int64_min(best->batch, s->fill.left[b]);
    s->entries[s->n_entries++] = (struct fill_entry){b, best->sp, count, best->time_s};
    fill_take(&s->fill, b, count);
    free_ranks -= best->sp;
  }
  return 0;
}

static void choose_gas(struct schedule *s) {
  for (int i = 0; i < s->n_entries; i++)
    s->times[i] = s->entries[i].time_s;
  gas_choose(s->times, s->n_entries, s->in->options.max_gas, s->in->options.min_gas, s->gas);
}

/* C. Evicts entries whose bucket cannot fill its accumulation, and closes the bucket. Returns the ranks freed. */
static int evict_short_buckets(struct schedule *s, struct plan_iteration *it) {
  int64_t *occurrences = s->scratch;
  memset(occurrences, 0, (size_t)s->in->profile->n_buckets * sizeof *occurrences);
  choose_gas(s);
  double longest_s = 0;
  for (int i = 0; i < s->n_entries; i++) {
    longest_s = fmax(longest_s, s->entries[i].time_s * s->gas[i]);
    occurrences[s->entries[i].bucket]++;
  }
  int kept = 0, freed = 0;
  for (int i = 0; i < s->n_entries; i++) {
    struct fill_entry e = s->entries[i];
    double required = (fill_floor_divide(longest_s, e.time_s) - 1) * (double)occurrences[e.bucket];
    int64_t left = s->fill.left[e.bucket];
    if ((double)(left / batch_of(s, e.bucket)) >= required) {
      s->entries[kept++] = e;
      continue;
    }
    plan_add_drop(it, e.bucket, left + e.count, NULL, true);
    fill_take(&s->fill, e.bucket, left);
    occurrences[e.bucket]--;
    freed += e.sp;
  }
  s->n_entries = kept;
  return freed;
}

static void discard(struct schedule *s, struct plan_iteration *it) {
  for (int i = 0; i < s->n_entries; i++) {
    plan_add_drop(it, s->entries[i].bucket, s->entries[i].count, NULL, false);
    s->used[s->entries[i].bucket] += s->entries[i].count;
  }
}

/* Real tokens of the step at gas[]: of the samples next in the buckets' queues. */
static int64_t step_tokens(struct schedule *s) {
  int64_t *taken = s->scratch, *left = s->left, tokens = 0;
  for (int i = 0; i < s->n_entries; i++) {
    taken[s->entries[i].bucket] = 0;
    left[s->entries[i].bucket] = s->fill.left[s->entries[i].bucket];
  }
  for (int i = 0; i < s->n_entries; i++) {
    int b = s->entries[i].bucket;
    int64_t more = int64_min(left[b], (int64_t)(s->gas[i] - 1) * batch_of(s, b));
    taken[b] += s->entries[i].count + more;
    left[b] -= more;
  }
  for (int i = 0; i < s->n_entries; i++) {
    int b = s->entries[i].bucket;
    tokens += bucket_queues_tokens(s->in->queues, b, s->used[b], taken[b]);
    taken[b] = 0; /* a bucket of several entries counts once */
  }
  return tokens;
}

/* --tokens-per-step: lowers gas[] until the step is within the limit or runs one micro-batch per group. Once is usually
 * enough; again where samples are uneven or ran out before the planned number. Returns whether it is still over. */
static bool limit_tokens(struct schedule *s) {
  int64_t limit = s->in->options.tokens_per_step, tokens;
  while ((tokens = step_tokens(s)) > limit) {
    bool lowered = false;
    for (int i = 0; i < s->n_entries; i++) {
      int gas = (int)((__int128)s->gas[i] * limit / tokens);
      gas = gas > 1 ? gas : 1;
      lowered = lowered || gas < s->gas[i];
      s->gas[i] = gas;
    }
    if (!lowered)
      return true;
  }
  return false;
}

static void add_micro_batch(struct schedule *s, struct plan_iteration *it, int bucket, int64_t count) {
  const struct bucket_profile *p = &s->in->profile->buckets[bucket];
  struct plan_micro_batch *m = plan_add_micro_batch(it);
  m->count = count;
  m->shape = p->shape;
  m->time_s = p->best.time_s;
  memcpy(m->recompute_blocks, p->best.recompute_blocks, sizeof m->recompute_blocks);
  s->used[bucket] += count;
}

/* D. */
static void run_entries(struct schedule *s, struct plan_iteration *it) {
  fill_sort(s->entries, s->n_entries);
  choose_gas(s);
  if (s->in->options.tokens_per_step > 0)
    it->over_tokens = limit_tokens(s);
  int rank = 0;
  for (int i = 0; i < s->n_entries; i++) {
    const struct fill_entry *e = &s->entries[i];
    plan_add_group(it, rank, e->sp, e->bucket)->planned_gas = s->gas[i];
    rank += e->sp;
    add_micro_batch(s, it, e->bucket, e->count);
    for (int k = 1; k < s->gas[i] && s->fill.left[e->bucket] > 0; k++) {
      int64_t count = int64_min(batch_of(s, e->bucket), s->fill.left[e->bucket]);
      fill_take(&s->fill, e->bucket, count);
      add_micro_batch(s, it, e->bucket, count);
    }
  }
}

int dcp_schedule_next(void *run, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct schedule *s = run;
  enum remainder_rule remainder = s->in->options.remainder;
  if (!s->started && remainder == REMAINDER_DROP_LAST)
    drop_remainders(s, it);
  s->started = true;
  while (!fill_done(&s->fill)) {
    s->n_entries = 0;
    int idle = fill_ranks(s, s->in->world);
    for (int freed; idle == 0 && remainder == REMAINDER_DROP_LAST && (freed = evict_short_buckets(s, it)) > 0;)
      idle = fill_ranks(s, freed);
    if (s->n_entries > 0 && (idle == 0 || remainder == REMAINDER_FAIR)) {
      run_entries(s, it);
      return 1;
    }
    discard(s, it);
  }
  return 0;
}
