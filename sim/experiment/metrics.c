#include "sim/experiment/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/bound.h"
#include "sim/base/units.h"
#include "sim/plan/schedule.h"

void metrics_init(struct metrics *m, const struct experiment *x, const struct sample_cost *costs) {
  *m = (struct metrics){.x = x, .costs = costs, .peak_step = -1};
}

void metrics_release(struct metrics *m) {
  free(m->step_ns);
  free(m->weights);
}

static double forward_flops(const struct transformer *t, struct sample s) {
  struct sample_flops f = transformer_forward_flops(t, s.a, s.b);
  return f.gemm + f.edge_gemm + f.attention + f.temporal;
}

/* ---- One step ---- */

static void add_shares(struct metrics *m, const struct plan_iteration *it, const struct step_record *r,
                       const struct micro_batch_load *loads) {
  __int128 *share = m->share_ns;
  __int128 before = 0, after = 0;
  for (int i = 0; i < SHARES; i++)
    before += share[i];
  share[SHARE_RECOMPUTE] += r->ranks.recompute_ns;
  share[SHARE_OPTIMIZER] += r->ranks.optimizer_ns;
  share[SHARE_SP_EXCHANGE] += r->ranks.exchange_ns;
  share[SHARE_GRAD_SYNC] += r->ranks.sync_ns;
  share[SHARE_HOST] += r->ranks.host_ns;
  share[SHARE_IDLE] += r->ranks.idle_ns;
  for (size_t i = 0; i < r->n_work; i++) {
    const struct record_work *w = &r->work[i];
    const struct plan_group *g = &it->groups[w->group];
    const double *frac = loads[g->first_micro_batch + (size_t)w->micro_batch].real_work_frac;
    int ranks = w->ranks > 0 ? w->ranks : g->sp;
    for (int k = 0; k < WORK_CLASSES; k++) {
      int64_t padding = (int64_t)floor((double)w->work_ns[k] * (1 - frac[k]));
      share[SHARE_PADDING] += (__int128)padding * ranks;
      share[SHARE_COMPUTE] += (__int128)(w->work_ns[k] - padding) * ranks;
    }
  }
  for (int i = 0; i < SHARES; i++)
    after += share[i];
  ASSERT(after - before == (__int128)r->step_ns * system_world(&m->x->system));
}

static int log2_of(int sp) { return 31 - __builtin_clz((unsigned)sp); }

/* Sums over the samples of one micro-batch that only they tell: squares of tokens, FLOPs of their blocks. */
struct sample_sums {
  double tokens_sq, block_flops;
};

static struct sample_sums sums_of(const struct metrics *m, const struct plan_micro_batch *mb) {
  struct sample_sums s = {0};
  for (int64_t i = 0; i < mb->count; i++) {
    struct sample sample = m->x->samples.samples[mb->samples[i]];
    double tokens = (double)sample_tokens(sample);
    s.tokens_sq += tokens * tokens;
    s.block_flops += m->costs[mb->samples[i]].block_flops;
  }
  return s;
}

static double recomputed_frac(const struct transformer *t, const int blocks[2]) {
  int modules = transformer_modules(t), recomputed = 0;
  for (int i = 0; i < modules; i++)
    recomputed += blocks[i];
  return (double)recomputed / (modules * t->layers);
}

static void add_weights(struct metrics *m, const struct plan_iteration *it) {
  bool per_token = strcmp(m->x->options.weighting, "per_token") == 0;
  VEC_RESERVE(m->weights, m->weights_cap, it->n_micro_batches);
  schedule_weights(it, &m->x->samples, system_world(&m->x->system), per_token, m->weights);
}

void metrics_add_step(struct metrics *m, const struct plan_iteration *it, const struct step_record *record,
                      const struct micro_batch_load *loads, int64_t peak_bytes) {
  int64_t samples = 0;
  add_weights(m, it);
  for (size_t i = 0; i < it->n_micro_batches; i++)
    samples += it->micro_batches[i].count;
  for (size_t g = 0; g < it->n_groups; g++)
    for (size_t j = 0; j < it->groups[g].n_micro_batches; j++) {
      size_t i = it->groups[g].first_micro_batch + j;
      const struct plan_micro_batch *mb = &it->micro_batches[i];
      struct sample_sums s = sums_of(m, mb);
      double token_weight = m->weights[i] / (double)mb->tokens; /* every real token weighs the same */
      double of_sample = token_weight * (double)samples, of_token = token_weight * (double)it->tokens;
      m->sample_weight_sq += of_sample * of_sample * s.tokens_sq;
      m->token_weight_sq += of_token * of_token * (double)mb->tokens;
      m->recomputed_flops += s.block_flops * recomputed_frac(&m->x->model, mb->recompute_blocks);
      m->processed_tokens += loads[i].processed_tokens;
      m->unmeasured_ns += (__int128)loads[i].unmeasured_ns * it->groups[g].sp;
      m->sp_tokens[log2_of(it->groups[g].sp)] += mb->tokens;
    }
  add_shares(m, it, record, loads);
  m->samples += samples;
  m->samples_sq += (double)samples * (double)samples;
  m->tokens += it->tokens;
  m->time_ns += record->step_ns;
  m->imbalance_ns += record->imbalance_ns;
  m->max_busy_ns += record->max_busy_ns;
  m->steps_over_tokens += it->over_tokens;
  if (peak_bytes > m->peak_bytes) {
    m->peak_bytes = peak_bytes;
    m->peak_step = m->steps;
  }
  VEC_PUSH(m->step_ns, m->n_step_ns, m->step_ns_cap, record->step_ns);
  m->steps++;
}

/* ---- The result ---- */

static int by_value(const void *a, const void *b) {
  const int64_t *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static void finish_step_times(const struct metrics *m, struct policy_result *r) {
  size_t n = m->n_step_ns;
  int64_t *sorted = xmalloc(size_mul(n, sizeof *sorted));
  memcpy(sorted, m->step_ns, n * sizeof *sorted);
  qsort(sorted, n, sizeof *sorted, by_value);
  int64_t median = sorted[(size_t)((double)(n - 1) * 0.5 + 0.5)];
  r->step_time_s_p50 = s_from_ns(median);
  r->step_time_s_p95 = s_from_ns(sorted[(size_t)((double)(n - 1) * 0.95 + 0.5)]);
  r->step_time_s_max = s_from_ns(sorted[n - 1]);
  r->step_time_s_mean = s_from_ns(m->time_ns) / (double)n;
  while (m->step_ns[r->median_step] != median)
    r->median_step++;
  free(sorted);
}

/* Of values with mean 1 whose squares sum to `squares`; rounding must not make it NaN. */
static double cv_of_mean_one(double squares, double n) { return sqrt(fmax(0, squares / n - 1)); }

struct sample_cost *sample_costs(const struct experiment *x) {
  struct sample_cost *costs = xmalloc(size_mul((size_t)x->samples.n, sizeof *costs));
  struct transformer no_blocks = x->model;
  no_blocks.layers = 0;
  for (int64_t i = 0; i < x->samples.n; i++) {
    struct sample s = x->samples.samples[i];
    costs[i] = (struct sample_cost){.bound_gpu_s = bound_gpu_seconds(&x->system, s.a, s.b),
                                    .flops = transformer_sample_flops(&x->model, s.a, s.b),
                                    .block_flops = forward_flops(&x->model, s) - forward_flops(&no_blocks, s)};
  }
  return costs;
}

/* FLOPs and lower bound of the samples that ran. */
static void finish_bound(const struct metrics *m, const uint8_t *ran, uint8_t ran_value, struct policy_result *r,
                         double *flops) {
  const struct experiment *x = m->x;
  double gpu_s = 0, longest_s = 0;
  *flops = 0;
  for (int64_t i = 0; i < x->samples.n; i++) {
    if (ran[i] != ran_value)
      continue;
    gpu_s += m->costs[i].bound_gpu_s;
    longest_s = fmax(longest_s, m->costs[i].bound_gpu_s);
    *flops += m->costs[i].flops;
  }
  r->bound_s = fmax(gpu_s / system_world(&x->system), longest_s / x->sps[x->n_sps - 1]);
}

void metrics_finish(const struct metrics *m, const uint8_t *ran, uint8_t ran_value, struct policy_result *r) {
  const struct experiment *x = m->x;
  int world = system_world(&x->system);
  double flops;
  r->steps = m->steps;
  r->tokens = m->tokens;
  r->steps_over_tokens = m->steps_over_tokens;
  r->peak_memory_bytes = m->peak_bytes;
  r->peak_memory_step = m->peak_step;
  if (m->steps == 0)
    return;
  double n = (double)m->steps, time_s = s_from_ns(m->time_ns), gpu_s = time_s * world;
  finish_bound(m, ran, ran_value, r, &flops);
  finish_step_times(m, r);
  r->time_s = time_s;
  r->tokens_per_step = (double)m->tokens / n;
  r->tokens_per_s = (double)m->tokens / time_s;
  r->tokens_per_s_per_gpu = r->tokens_per_s / world;
  r->gpu_hours = gpu_s / 3600;
  for (int i = 0; i < SHARES; i++)
    r->share[i] = (double)m->share_ns[i] / ((double)m->time_ns * world);
  __int128 compute_ns = m->share_ns[SHARE_COMPUTE] + m->share_ns[SHARE_PADDING] + m->share_ns[SHARE_RECOMPUTE];
  r->unmeasured_frac = compute_ns > 0 ? (double)m->unmeasured_ns / (double)compute_ns : 0;
  r->padding_frac = 1 - (double)m->tokens / (double)m->processed_tokens;
  r->imbalance_frac = m->max_busy_ns > 0 ? (double)m->imbalance_ns / world / (double)m->max_busy_ns : 0;
  r->mfu_frac = flops / (gpu_s * x->cluster.peak_flops_per_s);
  r->hfu_frac = (flops + m->recomputed_flops) / (gpu_s * x->cluster.peak_flops_per_s);
  r->bound_gap_frac = time_s / r->bound_s - 1;
  bool faults = x->options.jitter > 0 || x->options.straggler_rank >= 0; /* may make ranks quicker than the bound's */
  ASSERT(faults || r->bound_gap_frac >= 0);                              /* the bound is a relaxation of every policy */
  r->samples_per_step_mean = (double)m->samples / n;
  r->samples_per_step_cv = cv_of_mean_one(m->samples_sq / (r->samples_per_step_mean * r->samples_per_step_mean), n);
  r->weight_cv_sample = cv_of_mean_one(m->sample_weight_sq, (double)m->samples);
  r->weight_cv_token = cv_of_mean_one(m->token_weight_sq, (double)m->tokens);
  for (int i = 0; i < MAX_SPS; i++)
    r->sp_histogram[i] = (double)m->sp_tokens[i] / (double)m->tokens;
}
