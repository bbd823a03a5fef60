#include "sim/experiment/job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/memory.h"
#include "sim/base/number_text.h"
#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/engine/step.h"
#include "sim/experiment/metrics.h"
#include "sim/experiment/policy_setup.h"
#include "sim/experiment/program_cache.h"
#include "sim/plan/lower.h"
#include "sim/plan/program_time.h"

enum fate { FATE_REMAINING, FATE_RUN, FATE_DROPPED, FATE_INFEASIBLE };

/* What plays the steps: one set of parameters with the programs and results that belong to them. */
struct lane {
  struct system system;
  struct params *moved; /* owned; NULL: the experiment's own parameters */
  struct program_cache cache;
  struct engine *engine;
  struct step_memo *memo;
};

/* A run at work. */
struct run {
  struct job *job;
  const struct experiment *x;
  const struct policy *policy;
  struct policy_setup setup;
  struct sample_set samples; /* the experiment's, with this run's arrival order */
  uint32_t *own_arrivals;
  struct policy_run *rule;
  struct plan_iteration it;
  struct lane *lanes; /* one, or one per draw of moved parameters */
  int n_lanes;
  struct lane *lane; /* the one in use */
  struct step_record record;
  struct metrics metrics;
  uint8_t *fates; /* per entry */
  struct rng jitter;
  double *factors; /* per rank; NULL: no faults */
  int64_t clock_ns, plan_ns;
  /* of the present iteration */
  struct step_group *groups;
  size_t groups_cap;
  const struct program **programs; /* per micro-batch */
  size_t programs_cap;
  struct program *packs; /* lowered for this iteration alone */
  size_t n_packs, packs_cap;
  struct micro_batch_load *loads;
  size_t loads_cap;
  uint32_t *numbers; /* per group: of its program */
  size_t numbers_cap;
  struct sample *extents; /* scratch: of one pack */
  size_t extents_cap;
  int64_t peak_bytes;
};

/* ---- Times that policies plan with where no profile holds the shape (`plan` alone asks) ---- */

static double padded_time_s(void *context, int sp, int64_t batch, struct sample shape, const int recompute_blocks[2]) {
  struct program_cache *cache = context;
  return program_time_s(&program_cache_get(cache, sp, batch, shape, recompute_blocks)->program);
}

static double packed_time_s(void *context, int sp, const struct sample *samples, int64_t n,
                            const int recompute_blocks[2]) {
  struct program_cache *cache = context;
  struct program p;
  struct microbatch mb = microbatch_packed(samples, n, recompute_blocks);
  lower_micro_batch(&p, cache->system, sp, &mb);
  double seconds = program_time_s(&p);
  program_release(&p);
  return seconds;
}

/* ---- Start and end ---- */

uint32_t *job_arrivals(const struct experiment *x, uint64_t seed) {
  struct rng rng;
  if (x->options.no_shuffle)
    return NULL;
  uint32_t *order = xmalloc(size_mul((size_t)x->samples.n, sizeof *order));
  for (int64_t i = 0; i < x->samples.n; i++)
    order[i] = (uint32_t)i;
  rng_init(&rng, seed, "arrival");
  rng_shuffle(&rng, order, (size_t)x->samples.n);
  rng_release(&rng);
  return order;
}

static void order_arrivals(struct run *r) {
  r->samples = r->x->samples;
  r->own_arrivals = r->job->arrivals ? NULL : job_arrivals(r->x, r->job->seed);
  r->samples.order = r->job->arrivals ? r->job->arrivals : r->own_arrivals;
}

static void find_infeasible(struct run *r) {
  const struct policy_setup *s = &r->setup;
  for (int64_t i = 0; i < r->samples.n; i++)
    if (s->excluded ? s->excluded[i] : s->profile.buckets && s->profile.buckets[r->samples.bucket[i]].infeasible)
      r->fates[i] = FATE_INFEASIBLE;
}

static void start_faults(struct run *r) {
  const struct experiment_options *o = &r->x->options;
  int world = system_world(&r->x->system);
  rng_init(&r->jitter, r->job->seed, "jitter");
  if (o->jitter == 0 && o->straggler_rank < 0)
    return;
  r->factors = xmalloc(size_mul((size_t)world, sizeof *r->factors));
}

/* Lognormal of mean 1 per rank and step. */
static void draw_faults(struct run *r) {
  const struct experiment_options *o = &r->x->options;
  double sigma = sqrt(log1p(o->jitter * o->jitter));
  if (!r->factors)
    return;
  for (int rank = 0; rank < system_world(&r->x->system); rank++) {
    r->factors[rank] = o->jitter > 0 ? exp(sigma * rng_gaussian(&r->jitter) - sigma * sigma / 2) : 1;
    if (rank == o->straggler_rank)
      r->factors[rank] *= o->straggler_factor;
  }
}

static void lane_init(struct run *r, struct lane *l, int draw) {
  bool unequal_counts = r->setup.fit.unequal_counts;
  l->system = r->x->system;
  if (draw > 0) {
    l->moved = params_copy(r->x->params);
    params_move(l->moved, (uint64_t)(r->x->options.seed + draw));
    l->system.params = l->moved;
  }
  program_cache_init(&l->cache, &l->system, unequal_counts);
  if (!r->job->plan)
    l->engine = engine_new(&l->system, unequal_counts);
  l->memo = step_memo_new();
}

static void lane_release(struct lane *l) {
  program_cache_release(&l->cache);
  engine_free(l->engine);
  step_memo_free(l->memo);
  params_free(l->moved);
}

static void lanes_init(struct run *r, const struct job *j) {
  int n = j->draws ? j->n_draws + 1 : 1;
  r->lanes = xcalloc((size_t)n, sizeof *r->lanes);
  r->lane = r->lanes;
  for (; r->n_lanes < n; r->n_lanes++)
    lane_init(r, &r->lanes[r->n_lanes], r->n_lanes);
}

static int run_open(struct run *r, struct job *j) {
  *r = (struct run){.job = j, .x = j->x, .policy = j->x->policies[j->policy]};
  int64_t started_ns = wall_clock_ns();
  int rc = policy_setup_init(&r->setup, r->x, r->policy, j->sp, &j->err);
  r->plan_ns = wall_clock_ns() - started_ns;
  r->fates = xcalloc((size_t)r->x->samples.n, sizeof *r->fates);
  metrics_init(&r->metrics, r->x, j->costs);
  start_faults(r);
  order_arrivals(r);
  find_infeasible(r);
  struct policy_input in = {.world = system_world(&r->x->system),
                            .profile = &r->setup.profile,
                            .samples = &r->samples,
                            .excluded = r->setup.excluded,
                            .options = r->setup.options,
                            .seed = j->seed};
  lanes_init(r, j);
  if (rc < 0)
    return rc;
  if (j->plan && j->plan->profile)
    j->plan->profile(j->plan->context, &r->setup.profile);
  if (j->plan)
    in.costs = (struct policy_costs){&r->lane->cache, padded_time_s, packed_time_s};
  started_ns = wall_clock_ns();
  rc = policy_open(&r->rule, r->policy, &in, &j->err);
  r->plan_ns += wall_clock_ns() - started_ns;
  return rc;
}

static void release_packs(struct run *r) {
  for (size_t i = 0; i < r->n_packs; i++)
    program_release(&r->packs[i]);
  r->n_packs = 0;
}

static void run_close(struct run *r) {
  release_packs(r);
  policy_close(r->rule);
  plan_iteration_release(&r->it);
  for (int i = 0; i < r->n_lanes; i++)
    lane_release(&r->lanes[i]);
  free(r->lanes);
  step_record_release(&r->record);
  metrics_release(&r->metrics);
  policy_setup_release(&r->setup);
  rng_release(&r->jitter);
  free(r->own_arrivals);
  free(r->fates);
  free(r->factors);
  free(r->groups);
  free(r->programs);
  free(r->packs);
  free(r->loads);
  free(r->numbers);
  free(r->extents);
}

/* ---- One iteration ---- */

static void set_fates(struct run *r, const uint32_t *entries, int64_t n, enum fate fate) {
  for (int64_t i = 0; i < n; i++) {
    ASSERT(r->fates[entries[i]] == FATE_REMAINING); /* every sample once */
    r->fates[entries[i]] = (uint8_t)fate;
  }
}

static void note_fates(struct run *r, bool runs) {
  for (size_t i = 0; i < r->it.n_drops; i++)
    set_fates(r, r->it.drops[i].samples, r->it.drops[i].count, FATE_DROPPED);
  for (size_t i = 0; runs && i < r->it.n_micro_batches; i++)
    set_fates(r, r->it.micro_batches[i].samples, r->it.micro_batches[i].count, FATE_RUN);
}

/* The next iteration; 1, 0 or -1 as policy_next. */
static int next(struct run *r) {
  int64_t started_ns = wall_clock_ns();
  int rc = policy_next(r->rule, &r->it, &r->job->err);
  r->plan_ns += wall_clock_ns() - started_ns;
  if (rc >= 0)
    note_fates(r, rc > 0);
  return rc;
}

/* The program of a pack, for this iteration alone: packs do not repeat. */
static const struct program *lower_pack(struct run *r, const struct plan_micro_batch *m, int sp,
                                        int64_t *memory_bytes) {
  VEC_RESERVE(r->extents, r->extents_cap, (size_t)m->count);
  for (int64_t i = 0; i < m->count; i++)
    r->extents[i] = r->x->samples.samples[m->samples[i]];
  struct microbatch mb = microbatch_packed(r->extents, m->count, m->recompute_blocks);
  struct program *p = &r->packs[r->n_packs++];
  lower_micro_batch(p, &r->lane->system, sp, &mb);
  *memory_bytes = memory_peak_bytes(&r->x->system, sp, &mb, r->setup.fit.unequal_counts);
  return p;
}

static void set_load(struct run *r, struct micro_batch_load *load, const struct plan_micro_batch *m,
                     const struct program *p) {
  double real[WORK_CLASSES];
  lower_real_work(&r->x->system, r->x->samples.samples, m->samples, m->count, real);
  for (int k = 0; k < WORK_CLASSES; k++)
    load->real_work_frac[k] = k == WORK_EXACT || !(p->padded_work[k] > real[k]) ? 1 : real[k] / p->padded_work[k];
  load->unmeasured_ns = p->unmeasured_ns;
  load->processed_tokens = m->packed ? m->tokens : m->count * sample_tokens(m->shape);
}

static void lower_micro_batch_of(struct run *r, size_t group, size_t i) {
  const struct plan_micro_batch *m = &r->it.micro_batches[i];
  int sp = r->it.groups[group].sp;
  int64_t memory_bytes;
  if (m->packed) {
    r->programs[i] = lower_pack(r, m, sp, &memory_bytes);
  } else {
    const struct cached_program *c = program_cache_get(&r->lane->cache, sp, m->count, m->shape, m->recompute_blocks);
    r->programs[i] = &c->program;
    r->numbers[group] = c->number;
    memory_bytes = c->memory_bytes;
  }
  ASSERT(memory_bytes <= r->x->memory_cap_bytes); /* never simulate what does not fit */
  r->peak_bytes = int64_max(r->peak_bytes, memory_bytes);
  set_load(r, &r->loads[i], m, r->programs[i]);
}

/* Programs and loads of the iteration. Returns whether its groups each run one repeating micro-batch. */
static bool lower_iteration(struct run *r) {
  struct plan_iteration *it = &r->it;
  bool repeats = it->rounds <= 1;
  VEC_RESERVE(r->groups, r->groups_cap, it->n_groups);
  VEC_RESERVE(r->numbers, r->numbers_cap, it->n_groups);
  VEC_RESERVE(r->programs, r->programs_cap, it->n_micro_batches);
  VEC_RESERVE(r->packs, r->packs_cap, it->n_micro_batches);
  VEC_RESERVE(r->loads, r->loads_cap, it->n_micro_batches);
  release_packs(r);
  r->peak_bytes = 0;
  for (size_t g = 0; g < it->n_groups; g++) {
    const struct plan_group *group = &it->groups[g];
    r->groups[g] = (struct step_group){.first_rank = group->first_rank,
                                       .sp = group->sp,
                                       .round = group->round,
                                       .programs = &r->programs[group->first_micro_batch],
                                       .n_micro_batches = (int)group->n_micro_batches};
    for (size_t j = 0; j < group->n_micro_batches; j++)
      lower_micro_batch_of(r, g, group->first_micro_batch + j);
    repeats = repeats && group->n_micro_batches == 1 && !it->micro_batches[group->first_micro_batch].packed;
  }
  return repeats;
}

static struct timeline *timeline_of(struct run *r) {
  struct experiment_outputs *out = r->job->outputs;
  if (!out || !out->timeline_path || out->timeline.n >= out->timeline.limit)
    return NULL;
  return &out->timeline;
}

/* Plays the iteration into r->record. */
static int play(struct run *r) {
  bool repeats = lower_iteration(r) && !r->factors;
  struct timeline *timeline = timeline_of(r);
  struct step_input in = {.groups = r->groups,
                          .n_groups = (int)r->it.n_groups,
                          .factors = r->factors,
                          .timeline = timeline,
                          .timeline_start_ns = r->clock_ns,
                          .iteration = (int32_t)r->metrics.steps};
  if (repeats && !timeline && step_memo_find(r->lane->memo, r->numbers, in.n_groups, &r->record))
    return 0;
  const struct step_result *result = engine_step(r->lane->engine, &in, &r->job->err);
  if (!result)
    return -1;
  step_record_fill(&r->record, &in, result);
  if (repeats && !timeline)
    step_memo_keep(r->lane->memo, &r->record);
  return 0;
}

static int write_iteration(struct run *r) {
  struct experiment_outputs *out = r->job->outputs;
  if (!out || !out->schedule)
    return 0;
  double *group_s = xmalloc(size_mul(r->it.n_groups + 1, sizeof *group_s));
  for (size_t g = 0; g < r->it.n_groups; g++)
    group_s[g] = s_from_ns(r->record.busy_ns[g]);
  int rc = schedule_writer_iteration(out->schedule, &r->samples, &r->x->model, &r->it, r->metrics.weights,
                                     s_from_ns(r->record.step_ns), group_s, &r->job->err);
  free(group_s);
  return rc;
}

/* The first step. */
static int write_chakra(struct run *r) {
  struct experiment_outputs *out = r->job->outputs;
  struct step_input in = {.groups = r->groups, .n_groups = (int)r->it.n_groups, .factors = r->factors};
  if (!out || !out->want_chakra || out->chakra_summary.ranks > 0)
    return 0;
  return chakra_step_write(&out->chakra, &r->x->system, r->setup.fit.unequal_counts, &in, &out->chakra_summary,
                           &r->job->err);
}

/* The clock of a run must not overflow. */
static int check_clock(struct run *r, int64_t step_ns) {
  if (step_ns <= INT64_MAX / 2 - r->metrics.time_ns)
    return 0;
  return err_set(&r->job->err, "the run takes over %s with parameters '%s': more than the clock can hold",
                 duration_text(s_from_ns(r->metrics.time_ns)).text, params_name(r->x->params));
}

static int simulate_iteration(struct run *r) {
  draw_faults(r);
  if (play(r) < 0 || check_clock(r, r->record.step_ns) < 0)
    return -1;
  metrics_add_step(&r->metrics, &r->it, &r->record, r->loads, r->peak_bytes);
  r->clock_ns += r->record.step_ns;
  return write_chakra(r) < 0 ? -1 : write_iteration(r);
}

/* Counts the least that the iteration takes. */
static int add_least(struct run *r) {
  lower_iteration(r);
  struct step_input in = {.groups = r->groups, .n_groups = (int)r->it.n_groups};
  int64_t least_ns = engine_least_ns(r->lane->engine, &in, &r->job->err);
  if (least_ns < 0 || check_clock(r, least_ns) < 0)
    return -1;
  r->metrics.time_ns += least_ns;
  r->metrics.tokens += r->it.tokens;
  return 0;
}

/* The same step under every draw of the parameters: the plan stays as it is, only costs move. */
static int play_draws(struct run *r) {
  int rc = 0;
  draw_faults(r);
  for (int i = 0; i < r->n_lanes && rc == 0; i++) {
    r->lane = &r->lanes[i];
    rc = play(r);
    if (rc == 0)
      r->job->draws[i] += s_from_ns(r->record.step_ns);
    else if (i > 0)
      err_prefix(&r->job->err, "draw %d of moved parameters (--draws 0: none)", i);
  }
  r->lane = r->lanes;
  return rc;
}

/* Plays one step alone and adds it up. */
static int explain_iteration(struct run *r) {
  struct timeline t = {0};
  lower_iteration(r);
  struct step_input in = {.groups = r->groups, .n_groups = (int)r->it.n_groups, .factors = r->factors, .timeline = &t};
  const struct step_result *result = engine_step(r->lane->engine, &in, &r->job->err);
  if (result)
    explain_fill(&r->job->outputs->explain, &t, &r->it, &r->samples, r->job->explain_step, result->step_ns);
  timeline_release(&t);
  return result ? 0 : -1;
}

static int plan_one(struct run *r) {
  struct experiment_plan *plan = r->job->plan;
  if (!isfinite(r->it.time_s))
    return err_set(&r->job->err, "an iteration has an operation of over an hour with parameters '%s'",
                   params_name(r->x->params));
  plan->time_s += r->it.time_s;
  plan->imbalance_s += r->it.imbalance_s;
  r->metrics.tokens += r->it.tokens;
  r->metrics.steps_over_tokens += r->it.over_tokens;
  if (plan->iteration)
    plan->iteration(plan->context, &r->setup.profile, &r->it);
  return 0;
}

static void show_progress(struct run *r) {
  int64_t samples = 0;
  for (size_t i = 0; i < r->it.n_micro_batches; i++)
    samples += r->it.micro_batches[i].count;
  if (r->job->samples_done)
    atomic_fetch_add_explicit(r->job->samples_done, samples, memory_order_relaxed);
}

/* ---- Where samples ended up ---- */

static void name_id(struct named_ids *ids, uint32_t id) {
  if (ids->n < NAMED_IDS)
    ids->v[ids->n++] = id;
}

/* A split sample counts once: infeasible if any piece is, else dropped, else remaining, else run. */
static enum fate worse(enum fate a, enum fate b) {
  static const int rank[] = {[FATE_RUN] = 0, [FATE_REMAINING] = 1, [FATE_DROPPED] = 2, [FATE_INFEASIBLE] = 3};
  return rank[a] > rank[b] ? a : b;
}

static void count_samples(const struct run *r, struct policy_result *out) {
  const struct sample_set *s = &r->samples;
  for (int64_t i = 0; i < s->n;) {
    uint32_t id = sample_set_id(s, (uint32_t)i);
    enum fate fate = FATE_RUN;
    for (; i < s->n && sample_set_id(s, (uint32_t)i) == id; i++) {
      int64_t tokens = sample_tokens(s->samples[i]);
      fate = worse(fate, r->fates[i]);
      out->tokens_dropped += r->fates[i] == FATE_DROPPED ? tokens : 0;
      out->tokens_infeasible += r->fates[i] == FATE_INFEASIBLE ? tokens : 0;
      out->tokens_remaining += r->fates[i] == FATE_REMAINING ? tokens : 0;
      out->tokens += r->fates[i] == FATE_RUN ? tokens : 0;
    }
    out->samples += fate == FATE_RUN;
    out->samples_dropped += fate == FATE_DROPPED;
    out->samples_infeasible += fate == FATE_INFEASIBLE;
    out->samples_remaining += fate == FATE_REMAINING;
    if (fate == FATE_DROPPED)
      name_id(&out->dropped, id);
    if (fate == FATE_INFEASIBLE)
      name_id(&out->infeasible, id);
  }
}

static void check_conserved(const struct run *r, const struct policy_result *out) {
  const struct experiment *x = r->x;
  ASSERT(out->samples + out->samples_dropped + out->samples_infeasible + out->samples_overlong +
             out->samples_remaining ==
         x->trace_samples);
  ASSERT(out->tokens + out->tokens_dropped + out->tokens_infeasible + out->tokens_overlong + out->tokens_remaining +
             out->tokens_cut ==
         x->trace_tokens);
  ASSERT(out->tokens == r->metrics.tokens);
  ASSERT(out->samples_remaining == 0 || x->options.steps > 0);
}

static void finish_result(struct run *r) {
  const struct experiment *x = r->x;
  struct policy_result *out = &r->job->result;
  *out = (struct policy_result){.sp = r->job->sp,
                                .sp_holds_all = r->job->holds_all,
                                .samples_overlong = x->samples_overlong,
                                .tokens_overlong = x->tokens_overlong,
                                .samples_cut = x->samples_cut,
                                .tokens_cut = x->tokens_cut,
                                .plan_time_s = s_from_ns(r->plan_ns)};
  snprintf(out->name, sizeof out->name, "%s", r->policy->name);
  if (!(r->policy->flags & POLICY_BUCKETED)) {
    out->batch = r->setup.options.batch;
    out->pack_tokens = r->setup.options.pack_tokens;
  }
  count_samples(r, out);
  check_conserved(r, out);
  if (!r->job->plan)
    metrics_finish(&r->metrics, r->fates, FATE_RUN, out);
}

/* ---- The schedule's header ---- */

static void collect_ids(const struct run *r, enum fate fate, uint32_t **ids, uint32_t **offsets, int64_t *n) {
  const struct sample_set *s = &r->samples;
  *n = 0;
  for (int64_t i = 0; i < s->n; i++)
    *n += r->fates[i] == fate;
  *ids = xmalloc(size_mul((size_t)*n + 1, sizeof **ids));
  *offsets = s->offsets ? xmalloc(size_mul((size_t)*n + 1, sizeof **offsets)) : NULL;
  int64_t at = 0;
  for (int64_t i = 0; i < s->n; i++) {
    if (r->fates[i] != fate)
      continue;
    (*ids)[at] = sample_set_id(s, (uint32_t)i);
    if (s->offsets)
      (*offsets)[at] = s->offsets[i];
    at++;
  }
}

static void finish_schedule(const struct run *r) {
  const struct experiment *x = r->x;
  struct experiment_outputs *out = r->job->outputs;
  struct schedule_header *h = &out->header;
  *h = (struct schedule_header){.world = system_world(&x->system),
                                .gpus_per_node = x->cluster.gpus_per_node,
                                .zero = x->system.parallel.zero,
                                .shard_node = x->system.parallel.shard_node,
                                .partial = r->job->result.samples_remaining > 0,
                                .is_2d = x->model.is_2d,
                                .sp_kind = x->system.parallel.sp_kind,
                                .seed = r->job->seed,
                                .samples_total = x->trace_samples,
                                .memory_cap_bytes = x->memory_cap_bytes,
                                .grad_bytes = x->system.parallel.grad_bytes,
                                .head_chunk = x->system.parallel.head_chunk,
                                .offload_optimizer = x->system.parallel.offload_optimizer,
                                .memory_rule = x->system.parallel.memory_rule};
  snprintf(h->policy, sizeof h->policy, "%s", r->policy->name);
  snprintf(h->trace, sizeof h->trace, "%s", x->trace.name);
  snprintf(h->model, sizeof h->model, "%s", x->options.model);
  snprintf(h->cluster, sizeof h->cluster, "%s", x->options.cluster);
  snprintf(h->framework, sizeof h->framework, "%s", x->options.framework);
  snprintf(h->weighting, sizeof h->weighting, "%s", x->options.weighting);
  snprintf(h->params, sizeof h->params, "%s", params_name(x->params));
  snprintf(h->params_sha256, sizeof h->params_sha256, "%s", params_sha256(x->params));
  collect_ids(r, FATE_DROPPED, &out->dropped, &out->dropped_offsets, &out->n_dropped);
  collect_ids(r, FATE_INFEASIBLE, &out->infeasible, &out->infeasible_offsets, &out->n_infeasible);
}

/* ---- The whole run ---- */

/* Goes through the iterations; 0 or -1. */
static int run_all(struct run *r) {
  struct job *j = r->job;
  int64_t limit = r->x->options.steps > 0 ? r->x->options.steps : INT64_MAX;
  int rc = 1;
  for (int64_t step = 0; step < limit && (rc = next(r)) > 0; step++) {
    int done = 0;
    if (j->plan) {
      done = plan_one(r);
    } else if (j->least) {
      done = add_least(r);
    } else if (j->draws) {
      done = step % j->draw_stride == 0 ? play_draws(r) : 0;
    } else if (j->explain_step < 0) {
      done = simulate_iteration(r);
    } else {
      draw_faults(r);
      if (step == j->explain_step)
        return explain_iteration(r);
    }
    if (done < 0)
      return -1;
    show_progress(r);
  }
  return rc < 0 ? -1 : 0;
}

void job_run(struct job *j) {
  struct run r;
  j->rc = run_open(&r, j);
  if (j->rc == 0)
    j->rc = run_all(&r);
  if (j->rc == 0 && j->least) {
    j->result.tokens_per_s = r.metrics.time_ns > 0 ? (double)r.metrics.tokens / s_from_ns(r.metrics.time_ns) : 0;
  } else if (j->rc == 0 && j->explain_step < 0 && !j->draws) {
    finish_result(&r);
    if (j->outputs && j->outputs->schedule)
      finish_schedule(&r);
  }
  run_close(&r);
}
