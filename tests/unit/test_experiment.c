/* Experiments on small traces: conservation, shares, closed forms, and the table of repeated steps against playing all.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/memory.h"
#include "sim/experiment/experiment.h"
#include "sim/experiment/job.h"
#include "sim/experiment/policy_setup.h"
#include "sim/experiment/program_cache.h"
#include "sim/experiment/step_memo.h"

#define ALL                                                                                                            \
  "static,bucket,packed,dcp_rebalance,dcp_inter,dcp,megatron_dp_balanced,megatron_dynamic_cp,megatron_dynamic_cp_"     \
  "early"

struct made {
  struct experiment x;
  struct policy_result results[MAX_POLICIES];
};

/* `sets`: name, value, name, value, ..., NULL. lengths[n], written to a file. */
static int try_open(struct experiment *x, const uint32_t *lengths, int n, const char *const *sets, struct err *err) {
  struct experiment_options o;
  char path[] = "/tmp/test_experiment_XXXXXX";
  int fd = mkstemp(path);
  FILE *file = fdopen(fd, "w");
  for (int i = 0; i < n; i++)
    fprintf(file, "%u\n", lengths[i]);
  fclose(file);
  options_init(&o);
  cr_assert_eq(options_set(&o, "trace", path, err), 0);
  cr_assert_eq(options_set(&o, "model", "tiny-1d", err), 0);
  cr_assert_eq(options_set(&o, "cluster", "h200_8x1", err), 0);
  cr_assert_eq(options_set(&o, "policy", ALL, err), 0);
  for (; *sets; sets += 2)
    cr_assert_eq(options_set(&o, sets[0], sets[1], err), 0, "%s", err->msg);
  int rc = experiment_open(x, &o, err);
  options_release(&o);
  unlink(path);
  return rc;
}

static void make(struct made *m, const uint32_t *lengths, int n, const char *const *sets) {
  struct err err = {.set = false};
  cr_assert_eq(try_open(&m->x, lengths, n, sets, &err), 0, "%s", err.msg);
  cr_assert_eq(experiment_run(&m->x, NULL, m->results, &err), 0, "%s", err.msg);
}

static void unmake(struct made *m) { experiment_close(&m->x); }

static uint32_t *mixed_lengths(int n) {
  uint32_t *v = malloc((size_t)n * sizeof *v), state = 12345;
  for (int i = 0; i < n; i++) {
    state = state * 1664525u + 1013904223u;
    v[i] = 1 + (state >> 8) % (i % 50 == 0 ? 40000u : 3000u);
  }
  return v;
}

static void check_result(const struct experiment *x, const struct policy_result *r) {
  double sum = 0;
  cr_expect_eq(r->samples + r->samples_dropped + r->samples_infeasible + r->samples_overlong + r->samples_remaining,
               x->trace_samples, "%s", r->name);
  if (r->steps == 0)
    return;
  for (int i = 0; i < SHARES; i++) {
    cr_expect_geq(r->share[i], 0);
    sum += r->share[i];
  }
  cr_expect_float_eq(sum, 1, 1e-12, "%s", r->name);
  cr_expect_geq(r->bound_gap_frac, 0);
  cr_expect_leq(r->peak_memory_bytes, x->memory_cap_bytes);
  cr_expect_leq(r->step_time_s_p50, r->step_time_s_p95);
  cr_expect_leq(r->step_time_s_p95, r->step_time_s_max);
  cr_expect_float_eq(r->step_time_s_mean * (double)r->steps, r->time_s, 1e-9 * r->time_s);
  cr_expect_float_eq(r->tokens_per_step * (double)r->steps, (double)r->tokens, 1e-6);
  cr_expect_geq(r->hfu_frac, r->mfu_frac);
}

/* Whatever is asked for, no sample and no nanosecond is lost. */
Test(experiment, conserves) {
  static const char *const cases[][9] = {
      {NULL},
      {"drop-last", "true", "batch", "2", NULL},
      {"steps", "3", NULL},
      {"max-length", "2000", "overlong", "split", "tokens-per-step", "30000", NULL},
      {"max-length", "2000", "overlong", "truncate", "sp", "4", NULL},
      {"max-length", "2000", "drop-last", "true", "batch", "1", NULL},
      {"zero", "3", "tokens-per-step", "30000", NULL},
      {"zero", "2", "no-shuffle", "true", NULL},
      {"jitter", "0.2", "straggler", "1:2", NULL},
      {"recompute", "none", "packing", "lpt", NULL},
      {"recompute", "adaptive", "packing", "bfd", "pick", "proportional", NULL},
      {"model", "llama2-7b", "memory-cap-frac", "0.4", NULL},
      {"zero", "0", "shard", "node", "weighting", "per_token", NULL},
  };
  uint32_t *lengths = mixed_lengths(500);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct made m;
    make(&m, lengths, 500, cases[i]);
    for (int p = 0; p < m.x.n_policies; p++)
      check_result(&m.x, &m.results[p]);
    unmake(&m);
  }
  free(lengths);
}

/* Equal lengths that are a bucket bound, all steps full, one SP, one batch: policies have no choice left. */
Test(experiment, equal_lengths_equal_times) {
  static const char *const one_rank[] = {
      "sp",      "1", "max-sp",      "1",    "batch",       "4",    "recompute",    "full", "max-gas", "1",
      "min-gas", "1", "pack-tokens", "8192", "rank-tokens", "8192", "global-batch", "32",   NULL};
  static const char *const all_ranks[] = {"sp",           "1",         "batch",       "2",    "recompute",   "full",
                                          "model",        "llama2-7b", "max-gas",     "1",    "min-gas",     "1",
                                          "cluster",      "h200_8x2",  "pack-tokens", "4096", "rank-tokens", "4096",
                                          "global-batch", "32",        NULL};
  const char *const *const cases[] = {one_rank, all_ranks};
  uint32_t lengths[256];
  for (int i = 0; i < 256; i++)
    lengths[i] = 2048;
  for (int c = 0; c < 2; c++) {
    struct made m;
    make(&m, lengths, 256, cases[c]);
    for (int p = 0; p < m.x.n_policies; p++) {
      cr_expect_eq(m.results[p].steps, 8, "%s", m.results[p].name);
      cr_expect_eq(m.results[p].time_s, m.results[0].time_s, "%s", m.results[p].name);
      cr_expect_eq(m.results[p].padding_frac, 0);
      cr_expect_eq(m.results[p].imbalance_frac, 0);
      cr_expect_eq(m.results[p].share[SHARE_PADDING], 0);
      cr_expect_float_eq(m.results[p].weight_cv_sample, 0, 1e-6);
      cr_expect_float_eq(m.results[p].weight_cv_token, 0, 1e-6);
      cr_expect_float_eq(m.results[p].samples_per_step_cv, 0, 1e-6);
      cr_expect_float_eq(m.results[p].speedup, 1, 1e-12);
    }
    unmake(&m);
  }
}

/* Twice the GPUs and samples: the same steps, but for the gradient synchronisation and the sharded optimizer. */
Test(experiment, weak_scaling_of_bucket) {
  struct made m[2];
  uint32_t lengths[512];
  for (int i = 0; i < 512; i++)
    lengths[i] = 2048;
  for (int k = 0; k < 2; k++) {
    const char *const sets[] = {"policy", "bucket", "sp",        "2",       "batch",
                                "4",      "model",  "llama2-7b", "cluster", k == 0 ? "h200_8x2" : "h200_8x4",
                                NULL};
    make(&m[k], lengths, 256 * (k + 1), sets);
  }
  const struct policy_result *a = &m[0].results[0], *b = &m[1].results[0];
  cr_assert_eq(a->steps, b->steps);
  for (int s = SHARE_COMPUTE; s <= SHARE_SP_EXCHANGE; s++) {
    double of_a = a->share[s] * a->time_s, of_b = b->share[s] * b->time_s;
    /* what runs beside a gradient collective is slowed while that lasts: a little differs */
    cr_expect_float_eq(of_a, of_b, 0.03 * of_a, "%s: %g and %g", share_names[s], of_a, of_b);
  }
  unmake(&m[0]);
  unmake(&m[1]);
}

/* A step's imbalance and padding by hand: lengths 1024 and 512 on two ranks, static. */
Test(experiment, padding_by_hand) {
  static const char *const sets[] = {"policy",     "static", "sp",      "1",        "batch", "2",
                                     "no-shuffle", "true",   "cluster", "h200_1x1", NULL};
  const uint32_t lengths[] = {1024, 512, 600, 600};
  struct made m;
  make(&m, lengths, 4, sets);
  /* 1024 + 512 padded to 2 x 1024; 600 + 600 to 2 x 640 */
  cr_expect_float_eq(m.results[0].padding_frac, 1 - 2736.0 / (2048 + 1280), 1e-12);
  cr_expect_eq(m.results[0].steps, 2);
  cr_expect_eq(m.results[0].imbalance_frac, 0);
  unmake(&m);
}

/* published: a rank's micro-batch weighs the same whatever it holds; per_token: every token weighs the same. */
Test(experiment, weights_by_hand) {
  const uint32_t lengths[] = {100, 300};
  for (int k = 0; k < 2; k++) {
    const char *const sets[] = {"policy",  "static",   "sp",         "1",
                                "batch",   "1",        "no-shuffle", "true",
                                "cluster", "h200_2x1", "weighting",  k ? "per_token" : "published",
                                NULL};
    struct made m;
    make(&m, lengths, 2, sets);
    /* published: both samples 1/2; tokens 4 * 100 * ... : relative weights 2 and 2/3 of 100 and 300 tokens */
    cr_expect_float_eq(m.results[0].weight_cv_sample, k ? 0.5 : 0, 1e-9);
    cr_expect_float_eq(m.results[0].weight_cv_token, k ? 0 : sqrt(1.0 / 3), 1e-7);
    unmake(&m);
  }
}

/* Results do not depend on threads; a different seed gives a different shuffle. */
Test(experiment, threads_and_seeds) {
  uint32_t *lengths = mixed_lengths(600);
  struct made m[3];
  const char *const threads[] = {"1", "5", "1"}, *const seeds[] = {"4", "4", "5"};
  for (int k = 0; k < 3; k++) {
    const char *const sets[] = {"threads", threads[k], "seed", seeds[k], "seeds", "2", "model", "llama2-7b", NULL};
    make(&m[k], lengths, 600, sets);
  }
  bool differs = false;
  for (int p = 0; p < m[0].x.n_policies; p++) {
    for (int k = 0; k < 3; k++)
      m[k].results[p].plan_time_s = 0;
    cr_expect_eq(m[0].results[p].time_s, m[1].results[p].time_s);
    cr_expect_eq(m[0].results[p].speedup_interval[0], m[1].results[p].speedup_interval[0]);
    cr_expect_eq(memcmp(m[0].results[p].share, m[1].results[p].share, sizeof m[0].results[p].share), 0);
    cr_expect_leq(m[0].results[p].speedup_interval[0], m[0].results[p].speedup);
    cr_expect_geq(m[0].results[p].speedup_interval[1], m[0].results[p].speedup);
    differs = differs || m[0].results[p].time_s != m[2].results[p].time_s;
  }
  cr_assert(differs);
  for (int k = 0; k < 3; k++)
    unmake(&m[k]);
  free(lengths);
}

/* A straggler slows a step down, by no more than its factor. */
Test(experiment, straggler) {
  struct made m[2];
  uint32_t *lengths = mixed_lengths(200);
  for (int k = 0; k < 2; k++) {
    const char *const sets[] = {"policy",    "bucket",          "sp", "2", "model", "llama2-7b",
                                "straggler", k ? "3:2" : "3:1", NULL};
    make(&m[k], lengths, 200, sets);
  }
  cr_expect_gt(m[1].results[0].time_s, m[0].results[0].time_s);
  cr_expect_leq(m[1].results[0].time_s, 2 * m[0].results[0].time_s);
  for (int k = 0; k < 2; k++)
    unmake(&m[k]);
  free(lengths);
}

/* Pieces of split samples: each token once, a sample counted once. */
Test(experiment, split_samples) {
  static const char *const sets[] = {"policy", "bucket", "max-length", "1000", "overlong", "split", NULL};
  const uint32_t lengths[] = {2500, 10, 1000, 1001};
  struct made m;
  make(&m, lengths, 4, sets);
  cr_expect_eq(m.x.samples.n, 3 + 1 + 1 + 2);
  cr_expect_eq(m.x.samples.samples[2].a, 500);
  cr_expect_eq(m.x.samples.offsets[2], 2000);
  cr_expect_eq(m.x.samples.ids[6], 3);
  cr_expect_eq(m.results[0].samples, 4);
  cr_expect_eq(m.results[0].tokens, 4511);
  cr_expect_eq(m.results[0].samples_cut, 0);
  unmake(&m);
}

Test(experiment, dropped_and_truncated) {
  static const char *const drop[] = {"policy", "bucket", "max-length", "1000", NULL};
  static const char *const cut[] = {"policy", "bucket", "max-length", "1000", "overlong", "truncate", NULL};
  const uint32_t lengths[] = {2500, 10, 1000, 1001};
  struct made m;
  make(&m, lengths, 4, drop);
  cr_expect_eq(m.results[0].samples_overlong, 2);
  cr_expect_eq(m.results[0].tokens, 1010);
  cr_expect_eq(m.x.overlong_ids[1], 3);
  unmake(&m);
  make(&m, lengths, 4, cut);
  cr_expect_eq(m.results[0].samples, 4);
  cr_expect_eq(m.results[0].samples_cut, 2);
  cr_expect_eq(m.results[0].tokens_cut, 1501);
  cr_expect_eq(m.results[0].tokens, 3010);
  unmake(&m);
}

/* fit: batches are the largest, packs the largest multiple of 128. */
Test(experiment, fit_is_tight) {
  static const char *const sets[] = {"policy", "bucket,dcp", "model", "llama2-7b", "cluster", "h200_8x4", NULL};
  const uint32_t lengths[] = {100};
  struct experiment x;
  struct err err = {.set = false};
  cr_assert_eq(try_open(&x, lengths, 1, sets, &err), 0, "%s", err.msg);
  struct fit f = experiment_fit(&x, x.policies[0]);
  for (int sp = 1; sp <= 32; sp *= 4) {
    struct sample shape = {8192, 1};
    int64_t batch = fit_largest_batch(&f, sp, shape, 1 << 20), tokens = fit_pack_tokens(&f, sp, NULL, 0);
    cr_expect_gt(batch, 0);
    cr_expect(fit_padded(&f, sp, batch, shape));
    cr_expect_not(fit_padded(&f, sp, batch + 1, shape));
    cr_expect_eq(tokens % 128, 0);
    cr_expect(fit_padded(&f, sp, 1, (struct sample){(uint32_t)tokens, 1}));
    cr_expect_not(fit_padded(&f, sp, 1, (struct sample){(uint32_t)tokens + 128, 1}));
  }
  /* adapted recomputation fills the memory: one more kept block would not fit */
  struct fit adaptive = experiment_fit(&x, x.policies[1]);
  int blocks[2];
  struct microbatch mb = microbatch_padded(&x.system, 4, (struct sample){8192, 1}, (const int[2]){0, 0});
  fit_adapt(&adaptive, 1, &mb, blocks);
  cr_expect(blocks[0] > 0 && blocks[0] < x.model.layers);
  mb.recompute_blocks[0] = blocks[0];
  cr_expect_leq(memory_peak_bytes(&x.system, 1, &mb, true), x.memory_cap_bytes);
  mb.recompute_blocks[0]--;
  cr_expect_gt(memory_peak_bytes(&x.system, 1, &mb, true), x.memory_cap_bytes);
  experiment_close(&x);
}

/* Groups in another order are found again, and the record is what playing them gives. */
Test(experiment, step_memo) {
  static const char *const sets[] = {"model", "llama2-7b", "cluster", "h200_8x1", NULL};
  static const int orders[3][4] = {{0, 1, 2, 0}, {2, 0, 0, 1}, {1, 0, 2, 0}};
  static const struct sample shapes[] = {{512, 1}, {4096, 1}, {2048, 1}};
  const uint32_t lengths[] = {100};
  struct experiment x;
  struct err err = {.set = false};
  struct step_record found = {0}, played = {0};
  struct program_cache cache;
  cr_assert_eq(try_open(&x, lengths, 1, sets, &err), 0, "%s", err.msg);
  program_cache_init(&cache, &x.system, false);
  struct engine *engine = engine_new(&x.system, false);
  struct step_memo *memo = step_memo_new();
  const int blocks[2] = {x.model.layers, 0};
  for (int k = 0; k < 3; k++) {
    const struct program *programs[4];
    struct step_group groups[4];
    uint32_t numbers[4];
    for (int g = 0; g < 4; g++) {
      const struct cached_program *c = program_cache_get(&cache, 2, 3, shapes[orders[k][g]], blocks);
      programs[g] = &c->program;
      numbers[g] = c->number;
      groups[g] = (struct step_group){.first_rank = 2 * g, .sp = 2, .programs = &programs[g], .n_micro_batches = 1};
    }
    struct step_input in = {.groups = groups, .n_groups = 4};
    step_record_fill(&played, &in, engine_step(engine, &in, NULL));
    cr_assert_eq(step_memo_find(memo, numbers, 4, &found), k > 0);
    if (k == 0) {
      step_memo_keep(memo, &played);
      continue;
    }
    cr_expect_eq(found.step_ns, played.step_ns);
    cr_expect_eq(found.imbalance_ns, played.imbalance_ns);
    cr_expect_eq(memcmp(&found.ranks, &played.ranks, sizeof found.ranks), 0);
    for (int g = 0; g < 4; g++)
      cr_expect_eq(found.busy_ns[g], played.busy_ns[g]);
    for (size_t i = 0; i < found.n_work; i++)
      for (size_t j = 0; j < played.n_work; j++)
        if (found.work[i].group == played.work[j].group)
          cr_expect_eq(memcmp(found.work[i].work_ns, played.work[j].work_ns, sizeof found.work[i].work_ns), 0);
  }
  step_memo_free(memo);
  step_record_release(&found);
  step_record_release(&played);
  engine_free(engine);
  program_cache_release(&cache);
  experiment_close(&x);
}

/* sp auto takes the best of those that hold every sample; with none, the one that holds most tokens. */
Test(experiment, sp_auto) {
  uint32_t *lengths = mixed_lengths(300);
  static const char *const automatic[] = {"policy", "bucket", "model", "llama2-7b", NULL};
  struct made m, forced;
  make(&m, lengths, 300, automatic);
  double best = 0;
  for (int sp = 1; sp <= 8; sp *= 2) {
    char text[8];
    snprintf(text, sizeof text, "%d", sp);
    const char *const sets[] = {"policy", "bucket", "model", "llama2-7b", "sp", text, NULL};
    make(&forced, lengths, 300, sets);
    best = fmax(best, forced.results[0].tokens_per_s);
    if (sp == m.results[0].sp)
      cr_expect_eq(forced.results[0].time_s, m.results[0].time_s);
    if (sp == m.results[0].sp_runner_up)
      cr_expect_eq(forced.results[0].tokens_per_s, m.results[0].sp_runner_up_tokens_per_s);
    unmake(&forced);
  }
  cr_expect_eq(m.results[0].tokens_per_s, best);
  unmake(&m);
  lengths[0] = 5000000; /* fits nowhere */
  make(&m, lengths, 300, automatic);
  cr_expect_eq(m.results[0].samples_infeasible, 1);
  cr_expect_eq(m.results[0].infeasible.v[0], 0);
  cr_expect_not(m.results[0].sp_holds_all);
  unmake(&m);
  free(lengths);
}
