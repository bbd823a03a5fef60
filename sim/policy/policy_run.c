/* policy_run.c: what is done around every policy's own rule: naming samples, times of odd sizes, merging. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/policy/bucket_queues.h"
#include "sim/policy/merge.h"
#include "sim/policy/policy.h"

#define TIME_CACHE_SLOTS 1024 /* power of two */

struct cached_time {
  int bucket, sp;
  int64_t count; /* 0: empty */
  double time_s;
};

struct policy_run {
  const struct policy *policy;
  struct policy_input in;
  void *state;
  bool has_queues;
  struct bucket_queues queues;
  struct merge merge;
  struct cached_time times[TIME_CACHE_SLOTS];
};

int64_t policy_bucket_samples(const struct policy_input *in, int bucket) {
  if (in->profile->buckets[bucket].infeasible)
    return 0;
  return in->queues ? bucket_queues_count(in->queues, bucket) : in->profile->buckets[bucket].samples;
}

int policy_open(struct policy_run **out, const struct policy *policy, const struct policy_input *in, struct err *err) {
  const struct policy_options *o = &in->options;
  if (!in->samples && (policy->flags & POLICY_NEEDS_SAMPLES))
    return err_usage(err, "policy '%s' needs samples: it cannot run from a profile alone", policy->name);
  if (!in->samples && o->tokens_per_step > 0)
    return err_usage(err, "tokens per step needs samples: a profile does not say how long they are");
  struct policy_run *run = xcalloc(1, sizeof *run);
  run->policy = policy;
  run->in = *in;
  if (in->samples && (policy->flags & POLICY_BUCKETED)) {
    bucket_queues_init(&run->queues, in->samples, in->profile->n_buckets);
    run->has_queues = true;
    run->in.queues = &run->queues;
  }
  if (policy->open(&run->state, &run->in, err) < 0) {
    err_prefix(err, "policy '%s'", policy->name);
    policy_close(run);
    return -1;
  }
  *out = run;
  return 0;
}

void policy_close(struct policy_run *run) {
  if (!run)
    return;
  if (run->state)
    run->policy->close(run->state);
  if (run->has_queues)
    bucket_queues_release(&run->queues);
  merge_release(&run->merge);
  free(run);
}

static const struct candidate *find_profiled(const struct bucket_profile *p, int sp, int64_t count) {
  if (p->best.sp == sp && p->best.batch == count)
    return &p->best;
  for (int i = 0; i < p->n_detail; i++)
    if (p->detail[i].sp == sp && p->detail[i].batch == count)
      return &p->detail[i];
  return NULL;
}

/* The rules plan with scaled or whole times of a bucket; what such a micro-batch takes is asked once it is decided. */
static double exact_time_s(struct policy_run *run, int sp, const struct plan_micro_batch *m) {
  uint64_t hash = ((uint64_t)m->bucket * 31 + (uint64_t)sp) * 2654435761u + (uint64_t)m->count * 40503u;
  struct cached_time *c = &run->times[hash & (TIME_CACHE_SLOTS - 1)];
  if (c->count != m->count || c->bucket != m->bucket || c->sp != sp)
    *c = (struct cached_time){
        m->bucket, sp, m->count,
        run->in.costs.padded_time_s(run->in.costs.context, sp, m->count, m->shape, m->recompute_blocks)};
  return c->time_s;
}

static void set_exact_times(struct policy_run *run, struct plan_iteration *it) {
  for (size_t i = 0; i < it->n_groups; i++)
    for (size_t j = 0; j < it->groups[i].n_micro_batches; j++) {
      struct plan_micro_batch *m = &it->micro_batches[it->groups[i].first_micro_batch + j];
      if (m->bucket < 0)
        continue;
      const struct candidate *c = find_profiled(&run->in.profile->buckets[m->bucket], it->groups[i].sp, m->count);
      m->time_s = c ? c->time_s : exact_time_s(run, it->groups[i].sp, m);
    }
}

static void count_tokens(const struct sample_set *samples, struct plan_iteration *it) {
  for (size_t i = 0; i < it->n_micro_batches; i++) {
    struct plan_micro_batch *m = &it->micro_batches[i];
    for (int64_t j = 0; m->bucket < 0 && j < m->count; j++)
      m->tokens += sample_tokens(samples->samples[m->samples[j]]);
  }
}

/* One iteration of the published rule, its samples named and its times summed. */
static int next_of_rule(void *context, struct plan_iteration *it, struct err *err) {
  struct policy_run *run = context;
  plan_iteration_clear(it);
  int rc = run->policy->next(run->state, it, err);
  if (rc < 0)
    return err_prefix(err, "policy '%s'", run->policy->name);
  if (run->has_queues)
    bucket_queues_assign(&run->queues, it);
  else if (run->in.samples)
    count_tokens(run->in.samples, it);
  if (run->in.costs.padded_time_s)
    set_exact_times(run, it);
  plan_iteration_finish(it, run->in.world, run->in.options.lockstep);
  return rc;
}

int policy_next(struct policy_run *run, struct plan_iteration *it, struct err *err) {
  const struct policy_options *o = &run->in.options;
  if (o->tokens_per_step == 0 || !(run->policy->flags & POLICY_MERGES))
    return next_of_rule(run, it, err);
  int rc = merge_next(&run->merge, next_of_rule, run, o->tokens_per_step, it, err);
  if (rc > 0)
    plan_iteration_finish(it, run->in.world, o->lockstep);
  return rc;
}
