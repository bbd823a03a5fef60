/* bench_policy: planning time per iteration of every policy at 32, 256 and 2048 GPUs: 40 buckets whose times span a
 * factor of 64, lengths log-uniform, 2,000 samples per GPU. The first iteration is not counted: opening a policy sorts
 * or shuffles the epoch once. Prints one CSV row each; the aim is 1 ms per iteration at 32 GPUs and at most W log W. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/policy/policy.h"

#define N_BUCKETS 40
#define SAMPLES_PER_GPU 2000
#define FIXED_SP 4

/* Bucket b holds lengths up to 2^(6 + b/4); longer ones need more ranks. */
static struct profile make_profile(bool fixed) {
  struct profile p = {.n_buckets = N_BUCKETS};
  p.buckets = xcalloc(N_BUCKETS, sizeof *p.buckets);
  for (int b = 0; b < N_BUCKETS; b++) {
    struct bucket_profile *x = &p.buckets[b];
    snprintf(x->name, sizeof x->name, "b%d", b);
    x->shape = (struct sample){(uint32_t)(64 * pow(2, b / 4.0)), 1};
    x->detail = xcalloc(4, sizeof *x->detail);
    int sp = fixed ? FIXED_SP : 1 << (b * 4 / N_BUCKETS);
    double time_s = 0.1 * pow(64, ((b * 17) % N_BUCKETS) / (N_BUCKETS - 1.0));
    x->best = (struct candidate){.sp = sp, .batch = 1 << ((N_BUCKETS - b) / 8), .time_s = time_s};
    for (int s = sp; s <= 8; s *= 2)
      x->detail[x->n_detail++] =
          (struct candidate){.sp = s, .batch = x->best.batch * s / sp, .time_s = time_s * (1 + 0.05 * (s / sp - 1))};
  }
  return p;
}

static struct sample_set make_samples(struct profile *p, int world) {
  struct rng rng;
  rng_init(&rng, 0, "bench");
  struct sample_set s = {.n = (int64_t)world * SAMPLES_PER_GPU};
  s.samples = xcalloc((size_t)s.n, sizeof *s.samples);
  s.bucket = xcalloc((size_t)s.n, sizeof *s.bucket);
  for (int64_t i = 0; i < s.n; i++) {
    s.bucket[i] = (uint16_t)rng_below(&rng, N_BUCKETS);
    uint32_t bound = p->buckets[s.bucket[i]].shape.a;
    s.samples[i] = (struct sample){bound - (uint32_t)rng_below(&rng, bound / 8), 1};
    p->buckets[s.bucket[i]].samples++;
  }
  rng_release(&rng);
  return s;
}

static void bench(const struct policy *policy, int world, int64_t tokens_per_step) {
  if (policy->flags & POLICY_GLOBAL_BATCH)
    return; /* plans a global batch at a time: another measure, see experiments/megatron_dynamic_cp */
  struct profile profile = make_profile(policy->flags & POLICY_FIXED_SP);
  struct sample_set samples = make_samples(&profile, world);
  profile.world = world;
  profile.max_sp = 8;
  struct policy_input in = {.world = world,
                            .profile = &profile,
                            .samples = &samples,
                            .options = {.max_gas = 5,
                                        .min_gas = policy->default_min_gas,
                                        .tokens_per_step = tokens_per_step,
                                        .pack_tokens = 131072,
                                        .batch = 4,
                                        .sp = FIXED_SP,
                                        .per_octave = 4,
                                        .shuffle = true}};
  struct err err = {0};
  struct policy_run *run = NULL;
  struct plan_iteration it = {0};
  int64_t started_ns = wall_clock_ns(), n = 0;
  if (policy_open(&run, policy, &in, &err) < 0 || policy_next(run, &it, &err) < 0) {
    fprintf(stderr, "bench_policy: %s\n", err.msg);
    exit(1);
  }
  int64_t opened_ns = wall_clock_ns();
  while (policy_next(run, &it, &err) > 0)
    n++;
  double seconds = s_from_ns(wall_clock_ns() - opened_ns);
  printf("%s,%d,%lld,%lld,%.1f,%.3f\n", policy->name, world, (long long)tokens_per_step, (long long)n + 1,
         n ? seconds * 1e6 / (double)n : 0.0, s_from_ns(opened_ns - started_ns) * 1e3);
  policy_close(run);
  plan_iteration_release(&it);
  sample_set_release(&samples);
  profile_release(&profile);
}

int main(void) {
  printf("policy,gpus,tokens_per_step,iterations,plan_us_per_iteration,open_ms\n");
  for (int world = 32; world <= 2048; world *= 8)
    for (int p = 0; policies[p]; p++) {
      bench(policies[p], world, 0);
      bench(policies[p], world, (int64_t)world * 131072);
    }
  return 0;
}
