/* What holds for every policy, option and input: samples are conserved and named once, groups are aligned and disjoint,
 * equal seeds give equal plans, tokens per step are capped and merging reorders nothing. */
#include "sim/plan/sample_set.h"
#include "tests/unit/test_policy_helpers.h"
#include "traces/bucket.h"

#define MAX_WORLD 32

struct workload {
  struct profile profile;
  struct sample_set samples;
  uint8_t *excluded;
  int world, fixed_sp;
};

static int random_sp(struct rng *rng, int world) { return 1 << rng_below(rng, (uint64_t)(__builtin_ctz(world) + 1)); }

static struct candidate random_candidate(struct rng *rng, int sp) {
  return (struct candidate){.sp = sp,
                            .batch = INT64_C(1) << rng_below(rng, 5),
                            .time_s = 0.05 * (double)(1 + rng_below(rng, 60)),
                            .recompute_blocks = {1, 2}};
}

static void random_bucket(struct rng *rng, struct bucket_profile *b, const struct workload *w, int index, bool fixed) {
  snprintf(b->name, sizeof b->name, "b%d", index);
  b->shape = (struct sample){(uint32_t)(100 * (index + 1)), 1};
  b->best = random_candidate(rng, fixed ? w->fixed_sp : random_sp(rng, w->world));
  b->detail = xcalloc(8, sizeof *b->detail);
  b->detail[b->n_detail++] = b->best;
  for (int sp = b->best.sp * 2; sp <= w->world; sp *= 2) {
    const struct candidate *last = &b->detail[b->n_detail - 1];
    b->detail[b->n_detail++] = (struct candidate){.sp = sp, .batch = last->batch * 2, .time_s = last->time_s * 1.125};
  }
  b->infeasible = rng_below(rng, 8) == 0;
}

/* Each sample's length is in the upper half of its bucket's interval or anywhere below it. */
static struct workload random_workload(struct rng *rng, bool fixed) {
  struct workload w = {.world = 1 << rng_below(rng, 6)};
  int n_buckets = 1 + (int)rng_below(rng, 7);
  w.fixed_sp = random_sp(rng, w.world);
  w.profile = (struct profile){.world = w.world, .max_sp = w.world, .n_buckets = n_buckets};
  w.profile.buckets = xcalloc((size_t)n_buckets, sizeof *w.profile.buckets);
  for (int b = 0; b < n_buckets; b++)
    random_bucket(rng, &w.profile.buckets[b], &w, b, fixed);
  size_t n = (size_t)rng_below(rng, 700);
  w.samples.n = (int64_t)n;
  w.samples.samples = xcalloc(n + 1, sizeof *w.samples.samples);
  w.samples.order = xcalloc(n + 1, sizeof *w.samples.order);
  w.samples.bucket = xcalloc(n + 1, sizeof *w.samples.bucket);
  w.samples.batch = xcalloc(n + 1, sizeof *w.samples.batch);
  w.excluded = xcalloc(n + 1, sizeof *w.excluded);
  for (size_t i = 0; i < n; i++) {
    int b = (int)rng_below(rng, (uint64_t)n_buckets);
    w.samples.order[i] = (uint32_t)i;
    w.samples.bucket[i] = (uint16_t)b;
    w.samples.samples[i] = (struct sample){w.profile.buckets[b].shape.a - (uint32_t)rng_below(rng, 100), 1};
    w.samples.batch[i] = i == 0 ? 3 : w.samples.batch[i - 1] + (w.samples.samples[i].a % 4 == 0);
    w.excluded[i] = rng_below(rng, 20) == 0;
    w.profile.buckets[b].samples++;
  }
  rng_shuffle(rng, w.samples.order, n);
  return w;
}

static void workload_release(struct workload *w) {
  profile_release(&w->profile);
  sample_set_release(&w->samples);
  free(w->excluded);
}

static double padded_time_s(void *context, int sp, int64_t batch, struct sample shape, const int recompute_blocks[2]) {
  (void)context, (void)recompute_blocks;
  return 1e-3 * (double)batch * shape.a / sp + 1e-3;
}

static double packed_time_s(void *context, int sp, const struct sample *samples, int64_t n, const int blocks[2]) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < n; i++)
    tokens += sample_tokens(samples[i]);
  return padded_time_s(context, sp, 1, (struct sample){(uint32_t)tokens, 1}, blocks);
}

static struct policy_input random_input(struct rng *rng, const struct workload *w, const struct policy *policy) {
  struct policy_input in = {
      .world = w->world, .profile = &w->profile, .samples = &w->samples, .seed = rng_below(rng, 1000)};
  in.options = (struct policy_options){.remainder = (enum remainder_rule)rng_below(rng, 3),
                                       .pick = (enum pick)rng_below(rng, 3),
                                       .max_gas = 1 + (int)rng_below(rng, 5),
                                       .min_gas = 1 + (int)rng_below(rng, 15),
                                       .packing = (enum packing)rng_below(rng, 3),
                                       .pack_tokens = 50 + (int64_t)rng_below(rng, 2000),
                                       .rank_tokens = 50 + (int64_t)rng_below(rng, 1000),
                                       .global_batch = (int64_t)rng_below(rng, 100),
                                       .batch = 1 + (int64_t)rng_below(rng, 9),
                                       .sp = w->fixed_sp,
                                       .per_octave = 4,
                                       .shuffle = rng_below(rng, 2),
                                       .lockstep = rng_below(rng, 2)};
  in.options.packed = in.seed % 2;
  if ((policy->flags & POLICY_NEEDS_SAMPLES) && !(policy->flags & POLICY_GIVEN))
    in.excluded = w->excluded;
  if (rng_below(rng, 2))
    in.costs = (struct policy_costs){NULL, padded_time_s, packed_time_s};
  return in;
}

static bool is_feasible(const struct policy_input *in, const struct policy *policy, int64_t entry) {
  if (policy->flags & POLICY_BUCKETED)
    return !in->profile->buckets[in->samples->bucket[entry]].infeasible;
  int64_t tokens = sample_tokens(in->samples->samples[entry]), most = INT64_MAX;
  if (policy->flags & POLICY_PACKS)
    most = policy->flags & POLICY_FIXED_SP ? in->options.pack_tokens : in->options.rank_tokens * in->world;
  return !(in->excluded && in->excluded[entry]) && tokens <= most;
}

static void mark(uint8_t *seen, const uint32_t *samples, int64_t n) {
  cr_assert(n == 0 || samples, "samples are named");
  for (int64_t i = 0; i < n; i++)
    cr_assert_eq(seen[samples[i]]++, 0, "sample %u twice", samples[i]);
}

static void check_micro_batch(const struct policy_input *in, const struct policy *policy,
                              const struct plan_micro_batch *m, int sp) {
  int64_t tokens = 0;
  cr_assert_gt(m->count, 0);
  for (int64_t i = 0; i < m->count; i++) {
    struct sample s = in->samples->samples[m->samples[i]];
    tokens += sample_tokens(s);
    cr_assert(m->packed || (s.a <= m->shape.a && s.b <= m->shape.b), "padded shape covers its samples");
    cr_assert(m->bucket < 0 || in->samples->bucket[m->samples[i]] == m->bucket);
  }
  cr_assert_eq(m->tokens, tokens);
  int64_t capacity = policy->flags & POLICY_FIXED_SP ? in->options.pack_tokens : in->options.rank_tokens * sp;
  cr_assert(!m->packed || tokens <= capacity || (policy->flags & POLICY_GIVEN));
}

/* With costs a micro-batch takes what its profile says of just this size, else what is asked for its shape. */
static void check_time(const struct policy_input *in, int sp, const struct plan_micro_batch *m) {
  if (!in->costs.padded_time_s || m->packed)
    return;
  double want_s = padded_time_s(NULL, sp, m->count, m->shape, m->recompute_blocks);
  for (int i = 0; m->bucket >= 0 && i < in->profile->buckets[m->bucket].n_detail; i++) {
    const struct candidate *c = &in->profile->buckets[m->bucket].detail[i];
    if (c->sp == sp && c->batch == m->count)
      want_s = c->time_s;
  }
  cr_assert_eq(m->time_s, want_s);
}

/* Groups aligned, within the ranks, by sp descending and disjoint in each round; times and tokens add up. */
static void check_iteration(const struct policy_input *in, const struct policy *policy,
                            const struct plan_iteration *it) {
  double busy_s[MAX_WORLD] = {0}, longest_s = 0, idle_s = 0;
  size_t next_micro_batch = 0;
  int rank = 0, round = 0, sp = in->world;
  int64_t tokens = 0;
  for (size_t i = 0; i < it->n_groups; i++) {
    const struct plan_group *g = &it->groups[i];
    if (g->round != round) {
      cr_assert_eq(g->round, round + 1);
      round++, rank = 0, sp = in->world;
    }
    cr_assert(g->first_rank >= rank && g->first_rank % g->sp == 0 && g->sp <= sp);
    rank = g->first_rank + g->sp;
    sp = g->sp;
    cr_assert(rank <= in->world && g->n_micro_batches > 0 && g->first_micro_batch == next_micro_batch);
    cr_assert_geq(g->planned_gas, (int)g->n_micro_batches);
    next_micro_batch += g->n_micro_batches;
    double time_s = 0;
    for (size_t j = 0; j < g->n_micro_batches; j++) {
      const struct plan_micro_batch *m = &it->micro_batches[g->first_micro_batch + j];
      check_micro_batch(in, policy, m, g->sp);
      check_time(in, g->sp, m);
      cr_assert(g->bucket < 0 || g->bucket == m->bucket);
      time_s += m->time_s;
      tokens += m->tokens;
    }
    cr_assert_float_eq(g->time_s, time_s, 1e-9);
    for (int r = 0; r < g->sp; r++)
      busy_s[g->first_rank + r] += time_s;
  }
  cr_assert(next_micro_batch == it->n_micro_batches && tokens == it->tokens && it->rounds == round + 1);
  for (int r = 0; r < in->world; r++)
    longest_s = fmax(longest_s, busy_s[r]);
  for (int r = 0; r < in->world; r++)
    idle_s += it->time_s - busy_s[r];
  cr_assert_float_eq(it->imbalance_s, idle_s / in->world, 1e-9);
  if (in->options.lockstep)
    cr_assert_geq(it->time_s, longest_s - 1e-9);
  else
    cr_assert_float_eq(it->time_s, longest_s, 1e-9);
}

/* What the rule promises about what is left out. */
static void check_remainder(const struct policy_input *in, const struct policy *policy,
                            const struct plan_iteration *it) {
  enum remainder_rule rule = in->options.remainder;
  if (rule == REMAINDER_FAIR)
    cr_assert_eq(dropped_of(it), 0, "%s", policy->name);
  bool full = strcmp(policy->name, "dcp") == 0 || strcmp(policy->name, "dcp_inter") == 0;
  for (size_t i = 0; full && rule == REMAINDER_DROP_LAST && i < it->n_micro_batches; i++)
    cr_assert_eq(it->micro_batches[i].count, in->profile->buckets[it->micro_batches[i].bucket].best.batch);
  int ranks = 0;
  for (size_t i = 0; i < it->n_groups; i++)
    ranks += it->groups[i].round == 0 ? it->groups[i].sp : 0;
  if (rule != REMAINDER_FAIR && it->n_groups > 0)
    cr_assert_eq(ranks, in->world, "%s: no idle ranks", policy->name);
}

static void check_run(const struct policy_input *in, const struct policy *policy) {
  struct policy_run *run = open_run(policy->name, in);
  struct plan_iteration it = {0};
  uint8_t *seen = xcalloc((size_t)in->samples->n + 1, 1);
  int rc;
  do {
    rc = policy_next(run, &it, NULL);
    cr_assert_geq(rc, 0);
    if (rc > 0)
      check_iteration(in, policy, &it);
    check_remainder(in, policy, &it);
    for (size_t i = 0; i < it.n_micro_batches; i++)
      mark(seen, it.micro_batches[i].samples, it.micro_batches[i].count);
    for (size_t i = 0; i < it.n_drops; i++)
      mark(seen, it.drops[i].samples, it.drops[i].count);
    if (in->options.tokens_per_step && rc > 0 && it.tokens > in->options.tokens_per_step) {
      cr_assert(it.over_tokens, "%s: an unmarked step over the cap", policy->name);
      for (size_t i = 0; !(policy->flags & POLICY_MERGES) && i < it.n_groups; i++)
        cr_assert_eq(it.groups[i].n_micro_batches, 1);
      cr_assert_eq(it.rounds, 1);
    }
  } while (rc > 0);
  cr_assert(policy_next(run, &it, NULL) == 0 && it.n_groups == 0 && it.n_drops == 0, "the end stays the end");
  for (int64_t i = 0; i < in->samples->n; i++)
    cr_assert_eq(seen[i], is_feasible(in, policy, i), "%s: sample %d", policy->name, (int)i);
  policy_close(run);
  plan_iteration_release(&it);
  free(seen);
}

static void for_random_inputs(int rounds, uint64_t seed,
                              void (*check)(const struct policy_input *in, const struct policy *policy)) {
  struct rng rng;
  rng_init(&rng, seed, "test.properties");
  for (int round = 0; round < rounds; round++)
    for (int p = 0; policies[p]; p++) {
      struct workload w = random_workload(&rng, policies[p]->flags & POLICY_FIXED_SP);
      struct policy_input in = random_input(&rng, &w, policies[p]);
      check(&in, policies[p]);
      in.options.tokens_per_step = 1 + (int64_t)rng_below(&rng, 40000);
      check(&in, policies[p]);
      workload_release(&w);
    }
  rng_release(&rng);
}

Test(policy_properties, samples_are_conserved) { for_random_inputs(250, 1, check_run); }

/* Every sample of an epoch in the order in which each rank runs it: FNV over (rank, sample). The whole plan likewise.
 */
struct digest {
  uint64_t ranks[MAX_WORLD], plan;
  int steps;
};

static void mix(uint64_t *h, uint64_t x) { *h = (*h ^ x) * 1099511628211u; }

static struct digest digest_of(const struct policy_input *in, const struct policy *policy) {
  struct policy_run *run = open_run(policy->name, in);
  struct plan_iteration it = {0};
  struct digest d = {0};
  while (policy_next(run, &it, NULL) > 0) {
    d.steps++;
    mix(&d.plan, it.n_groups);
    for (size_t i = 0; i < it.n_groups; i++) {
      const struct plan_group *g = &it.groups[i];
      mix(&d.plan, (uint64_t)g->planned_gas << 32 | (uint32_t)g->first_rank);
      for (size_t j = 0; j < g->n_micro_batches; j++) {
        const struct plan_micro_batch *m = &it.micro_batches[g->first_micro_batch + j];
        for (int64_t k = 0; k < m->count; k++)
          for (int r = 0; r < g->sp; r++)
            mix(&d.ranks[g->first_rank + r], m->samples[k] + 1);
        mix(&d.plan, (uint64_t)m->samples[0] << 32 | (uint64_t)m->count);
      }
    }
  }
  policy_close(run);
  plan_iteration_release(&it);
  return d;
}

static void check_deterministic(const struct policy_input *in, const struct policy *policy) {
  struct digest a = digest_of(in, policy), b = digest_of(in, policy);
  cr_assert_eq(memcmp(&a, &b, sizeof a), 0, "%s", policy->name);
}

Test(policy_properties, equal_seeds_give_equal_plans) { for_random_inputs(20, 2, check_deterministic); }

/* Merging leaves every rank's own order as it is, and merges as much as the cap allows. */
static void check_merging(const struct policy_input *in, const struct policy *policy) {
  if (!(policy->flags & POLICY_MERGES) || !in->options.tokens_per_step)
    return;
  struct policy_input plain = *in;
  plain.options.tokens_per_step = 0;
  struct digest merged = digest_of(in, policy), unmerged = digest_of(&plain, policy);
  cr_assert_eq(memcmp(merged.ranks, unmerged.ranks, sizeof merged.ranks), 0, "%s: order changed", policy->name);
  struct policy_run *run = open_run(policy->name, &plain);
  struct plan_iteration it = {0};
  int64_t sum = 0;
  int steps = 0;
  while (policy_next(run, &it, NULL) > 0) {
    if (steps == 0 || sum + it.tokens > in->options.tokens_per_step) {
      steps++;
      sum = 0;
    }
    sum += it.tokens;
  }
  cr_assert_eq(steps, merged.steps, "%s", policy->name);
  policy_close(run);
  plan_iteration_release(&it);
}

Test(policy_properties, merging_keeps_every_ranks_order) { for_random_inputs(60, 3, check_merging); }

/* Fixed sp: merged micro-batches join their group; different layouts become further rounds. */
Test(policy_properties, merging_makes_rounds_only_where_layouts_differ) {
  struct rng rng;
  rng_init(&rng, 4, "test.rounds");
  int most_rounds = 0;
  for (int round = 0; round < 30; round++)
    for (int p = 0; policies[p]; p++) {
      struct workload w = random_workload(&rng, policies[p]->flags & POLICY_FIXED_SP);
      struct policy_input in = random_input(&rng, &w, policies[p]);
      in.options.tokens_per_step = 100000;
      struct policy_run *run = open_run(policies[p]->name, &in);
      struct plan_iteration it = {0};
      while (policy_next(run, &it, NULL) > 0) {
        cr_assert(it.rounds == 1 || strcmp(policies[p]->name, "dcp_rebalance") == 0 ||
                      strncmp(policies[p]->name, "megatron_dynamic_cp", 19) == 0,
                  "%s", policies[p]->name);
        most_rounds = it.rounds > most_rounds ? it.rounds : most_rounds;
      }
      policy_close(run);
      plan_iteration_release(&it);
      workload_release(&w);
    }
  cr_assert_gt(most_rounds, 1);
  rng_release(&rng);
}

/* The cap lowers accumulation and gives the rest back: here g = 4, 8 become 1, 3 at 40 % of the tokens. */
Test(policy_properties, dcp_lowers_accumulation_in_proportion) {
  struct bucket_profile buckets[2] = {{.name = "long", .best = {.sp = 1, .batch = 1, .time_s = 2}},
                                      {.name = "short", .best = {.sp = 1, .batch = 1, .time_s = 1}}};
  struct profile profile = {.world = 2, .max_sp = 2, .buckets = buckets, .n_buckets = 2};
  struct sample samples[40];
  uint16_t bucket[40];
  for (int i = 0; i < 40; i++) {
    samples[i] = (struct sample){10, 1};
    bucket[i] = (uint16_t)(i % 2);
    buckets[i % 2].samples++;
  }
  static const int picks[] = {0, 1};
  struct sample_set set = {.n = 40, .samples = samples, .bucket = bucket};
  struct policy_input in = {.world = 2,
                            .profile = &profile,
                            .samples = &set,
                            .injected_picks = picks,
                            .n_injected_picks = 2,
                            .options = {.pick = PICK_DETERMINISTIC, .max_gas = 1, .min_gas = 8}};
  static const struct {
    int64_t cap;
    int gas[2];
    bool over;
  } cases[] = {{0, {4, 8}, false}, {120, {4, 8}, false}, {119, {3, 7}, false}, {48, {1, 3}, false}, {19, {1, 1}, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    in.options.tokens_per_step = cases[i].cap;
    struct policy_run *run = open_run("dcp", &in);
    struct plan_iteration it = {0};
    cr_assert_eq(policy_next(run, &it, NULL), 1);
    for (int g = 0; g < 2; g++)
      cr_assert(it.groups[g].planned_gas == cases[i].gas[g] && (int)it.groups[g].n_micro_batches == cases[i].gas[g],
                "cap %d: gas[%d] = %d", (int)cases[i].cap, g, it.groups[g].planned_gas);
    cr_assert_eq(it.over_tokens, cases[i].over);
    policy_close(run);
    plan_iteration_release(&it);
  }
}

/* Two groups of one bucket share its queue: 16 samples of 10 tokens, not twice that. */
Test(policy_properties, dcp_counts_the_tokens_of_a_bucket_once) {
  struct bucket_profile bucket = {.name = "b", .samples = 40, .best = {.sp = 1, .batch = 1, .time_s = 1}};
  struct profile profile = {.world = 2, .max_sp = 2, .buckets = &bucket, .n_buckets = 1};
  struct sample samples[40];
  uint16_t of[40] = {0};
  for (int i = 0; i < 40; i++)
    samples[i] = (struct sample){10, 1};
  struct sample_set set = {.n = 40, .samples = samples, .bucket = of};
  struct policy_input in = {
      .world = 2,
      .profile = &profile,
      .samples = &set,
      .options = {.pick = PICK_DETERMINISTIC, .max_gas = 1, .min_gas = 8, .tokens_per_step = 160}};
  struct policy_run *run = open_run("dcp", &in);
  struct plan_iteration it = {0};
  cr_assert(policy_next(run, &it, NULL) == 1 && it.groups[0].planned_gas == 8 && it.tokens == 160);
  policy_close(run);
  plan_iteration_release(&it);
}

/* Iterations own what they name. */
Test(policy_properties, iterations_outlive_their_run) {
  struct rng rng;
  rng_init(&rng, 5, "test.outlive");
  for (int p = 0; policies[p]; p++) {
    struct workload w = random_workload(&rng, policies[p]->flags & POLICY_FIXED_SP);
    struct policy_input in = random_input(&rng, &w, policies[p]);
    struct policy_run *run = open_run(policies[p]->name, &in);
    struct plan_iteration it = {0};
    int rc = policy_next(run, &it, NULL);
    policy_close(run);
    if (rc > 0)
      check_iteration(&in, policies[p], &it);
    plan_iteration_release(&it);
    workload_release(&w);
  }
  rng_release(&rng);
}
