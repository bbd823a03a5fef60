#include "sim/experiment/profile_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/profile_memo.h"
#include "sim/experiment/program_cache.h"
#include "sim/plan/lower.h"
#include "sim/plan/program_time.h"
#include "sim/policy/profile_search.h"

struct search_context {
  const struct fit *fit;
  struct sample shape;
};

static bool fits(void *context, int sp, int64_t batch) {
  const struct search_context *c = context;
  return fit_padded(c->fit, sp, batch, c->shape);
}

/* Under adapted recomputation too the program is that of the micro-batch as it will run. */
static void lower(struct program *p, const struct search_context *c, int sp, int64_t batch, int recompute_blocks[2]) {
  struct microbatch mb = microbatch_padded(c->fit->system, batch, c->shape, (const int[2]){0, 0});
  fit_adapt(c->fit, sp, &mb, mb.recompute_blocks);
  memcpy(recompute_blocks, mb.recompute_blocks, sizeof mb.recompute_blocks);
  lower_micro_batch(p, c->fit->system, sp, &mb);
}

static double time_s(void *context, int sp, int64_t batch, int recompute_blocks[2]) {
  struct program p;
  lower(&p, context, sp, batch, recompute_blocks);
  double seconds = program_time_s(&p);
  program_release(&p);
  return seconds;
}

/* Policies that neither fix one SP nor accumulate choose batch and SP anew per iteration: from the largest batches. An
 * explicit --batch is used wherever it fits, so it leaves others the choice of SP alone. */
static bool search(const struct profile_search *s, const struct policy *policy, struct bucket_profile *b) {
  if (policy->flags & POLICY_FIXED_SP)
    return profile_search_fixed(s, s->sps[0], &b->best);
  b->detail = xcalloc((size_t)s->n_sps, sizeof *b->detail);
  if (policy->flags & POLICY_UNEQUAL_COUNTS && s->max_batch == 0)
    return profile_search_best(s, b->detail, &b->n_detail, &b->best);
  return profile_search_largest(s, b->detail, &b->n_detail, &b->best);
}

static void search_bucket(const struct profile_rule *r, struct bucket_profile *b) {
  struct search_context context = {r->fit, b->shape};
  struct profile_search s = {.context = &context,
                             .fits = fits,
                             .time_s = time_s,
                             .sps = r->sps,
                             .n_sps = r->n_sps,
                             .max_batch = r->max_batch,
                             .sequential = r->sequential};
  b->infeasible = !search(&s, r->policy, b);
  int kept = 0;
  for (int i = 0; i < b->n_detail; i++)
    if (isfinite(b->detail[i].time_s))
      b->detail[kept++] = b->detail[i];
  b->n_detail = kept;
}

/* Whether the bucket can run in a time that the clock holds. */
static int check_time(const struct profile_rule *r, const struct bucket_profile *b, struct err *err) {
  if (b->infeasible || b->samples == 0 || isfinite(b->best.time_s))
    return 0;
  struct program p;
  int blocks[2];
  lower(&p, &(struct search_context){r->fit, b->shape}, b->best.sp, b->best.batch, blocks);
  int rc = program_check(&p, params_name(r->fit->system->params), err);
  program_release(&p);
  return rc;
}

int profile_model_make(struct profile *out, const struct profile_rule *rule, const struct bucketing *buckets,
                       struct profile_memo *memo, struct err *err) {
  struct memo_rule *known = memo ? profile_memo_rule(memo, rule) : NULL;
  *out = (struct profile){
      .world = system_world(rule->fit->system), .max_sp = rule->sps[rule->n_sps - 1], .n_buckets = buckets->n};
  out->buckets = xcalloc((size_t)buckets->n + 1, sizeof *out->buckets);
  for (int i = 0; i < buckets->n; i++) {
    struct bucket_profile *b = &out->buckets[i];
    b->shape = buckets->buckets[i].shape;
    if (!known || !profile_memo_find(known, b)) {
      search_bucket(rule, b);
      if (known)
        profile_memo_keep(memo, known, b);
    }
    memcpy(b->name, buckets->buckets[i].name, sizeof b->name);
    b->samples = buckets->buckets[i].samples;
    if (check_time(rule, b, err) < 0)
      return -1;
  }
  return 0;
}
