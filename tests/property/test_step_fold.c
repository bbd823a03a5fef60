/* The engine's fast path against its plain twin, which plays every op of every group by events: equal to the
 * nanosecond, account by account, for random models, clusters, SP mixes, ZeRO stages, rounds, jitter and
 * oversubscription. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/rng.h"
#include "sim/base/units.h"
#include "sim/engine/step.h"
#include "sim/plan/lower.h"
#include "sim/plan/program_time.h"

#define MAX_GROUPS 512
#define MAX_PROGRAMS 4096

struct scene {
  struct transformer model;
  struct cluster cluster;
  struct params *params;
  struct system system;
  struct step_group groups[MAX_GROUPS];
  int n_groups;
  struct program programs[MAX_PROGRAMS];
  const struct program *lists[MAX_PROGRAMS];
  struct sample packed[MAX_PROGRAMS][4];
  int n_programs;
  double factors[256];
  bool unequal;
};

static int pick(struct rng *r, int n) { return (int)rng_below(r, (uint64_t)n); }

static void make_system(struct scene *s, struct rng *r) {
  static const char *const models[] = {"llama2-7b", "llama3.1-8b", "tiny-1d", "qwen2.5-7b", "stdit3-xl-2", "tiny-2d"};
  static const char *const clusters[] = {"h200_8x1", "h200_8x2", "h100_8x4", "h200_4x2", "h200_3x2", "h200_1x1"};
  static const char *const frameworks[] = {"fused", "eager"};
  struct err err = {0};
  cr_assert_eq(transformer_load(&s->model, models[pick(r, 6)], &err), 0, "%s", err.msg);
  cr_assert_eq(cluster_load(&s->cluster, clusters[pick(r, 6)], &err), 0, "%s", err.msg);
  cr_assert_eq(params_load(&s->params, "h200_sxm", &err), 0, "%s", err.msg);
  s->model.layers = 1 + pick(r, 6);
  if (pick(r, 3) == 0)
    s->cluster.oversubscription = 4;
  s->system = (struct system){&s->model, &s->cluster, s->params, framework_find(frameworks[pick(r, 2)], &err), {0}};
  struct parallel *p = &s->system.parallel;
  p->zero = pick(r, 4);
  p->shard_node = pick(r, 4) == 0;
  p->sp_kind = s->model.is_2d ? SP_DSP : pick(r, 3) ? SP_ULYSSES : SP_RING;
  p->grad_bytes = pick(r, 2) ? 2 : 4;
  s->unequal = pick(r, 2);
}

static const struct program *make_program(struct scene *s, struct rng *r, int sp) {
  struct microbatch mb = {.batch = 1 + pick(r, 3)};
  int i = s->n_programs++;
  cr_assert_lt(i, MAX_PROGRAMS);
  if (pick(r, 3) == 0) {
    for (int k = 0; k < mb.batch; k++)
      s->packed[i][k] = s->model.is_2d ? (struct sample){1 + (uint32_t)pick(r, 40), 144}
                                       : (struct sample){16 + (uint32_t)pick(r, 4000), 1};
    mb.packed = s->packed[i];
  } else {
    mb.seqlen = 128 * (1 + pick(r, 100));
    mb.frames = 1 + pick(r, 40);
    mb.positions = 144;
  }
  mb.recompute_blocks[0] = pick(r, s->model.layers + 1);
  mb.recompute_blocks[1] = pick(r, s->model.layers + 1);
  lower_micro_batch(&s->programs[i], &s->system, sp, &mb);
  s->lists[i] = &s->programs[i];
  return s->lists[i];
}

static void make_groups(struct scene *s, struct rng *r) {
  int world = system_world(&s->system), rounds = pick(r, 4) == 0 ? 1 + pick(r, 3) : 1;
  for (int round = 0; round < rounds; round++) {
    int rank = 0;
    while (rank < world) {
      int sp = 1 << pick(r, 5);
      while (rank % sp || rank + sp > world)
        sp /= 2;
      if (pick(r, 8) > 0) {
        int n = rounds > 1 ? 1 : 1 + pick(r, 4);
        struct step_group g = {.first_rank = rank, .sp = sp, .round = round, .n_micro_batches = n};
        g.programs = &s->lists[s->n_programs];
        for (int i = 0; i < n; i++)
          make_program(s, r, sp);
        s->groups[s->n_groups++] = g;
      }
      rank += sp;
    }
  }
  for (int i = 0; i < world; i++)
    s->factors[i] = pick(r, 3) ? 1 + 0.1 * rng_uniform(r) : 1;
}

static void make_scene(struct scene *s, uint64_t seed, bool jitter, const double **factors) {
  struct rng r;
  rng_init(&r, seed, "step fold test");
  memset(s, 0, sizeof *s);
  make_system(s, &r);
  make_groups(s, &r);
  *factors = jitter ? s->factors : NULL;
  rng_release(&r);
}

static void free_scene(struct scene *s) {
  for (int i = 0; i < s->n_programs; i++)
    program_release(&s->programs[i]);
  params_free(s->params);
}

struct copy {
  struct step_result r;
  struct step_actor *actors;
  int64_t (*work)[WORK_CLASSES];
};

static struct copy keep(const struct step_result *r) {
  struct copy c = {.r = *r};
  c.actors = xmalloc((size_t)r->n_actors * sizeof *c.actors);
  c.work = xmalloc((size_t)r->n_work * sizeof *c.work);
  memcpy(c.actors, r->actors, (size_t)r->n_actors * sizeof *c.actors);
  memcpy(c.work, r->work_ns, (size_t)r->n_work * sizeof *c.work);
  return c;
}

static void assert_equal(const struct copy *a, const struct step_result *b, uint64_t seed) {
  unsigned long long n = seed;
  cr_assert_eq(a->r.step_ns, b->step_ns, "seed %llu: step %lld %lld", n, (long long)a->r.step_ns,
               (long long)b->step_ns);
  cr_assert_eq(a->r.sync_end_ns, b->sync_end_ns, "seed %llu: sync end", n);
  cr_assert_eq(a->r.n_actors, b->n_actors);
  cr_assert_eq(a->r.n_work, b->n_work);
  cr_assert_eq(memcmp(&a->r.idle, &b->idle, sizeof b->idle), 0, "seed %llu: idle ranks", n);
  cr_assert_eq(memcmp(&a->r.between, &b->between, sizeof b->between), 0, "seed %llu: between rounds", n);
  cr_assert_eq(a->r.imbalance_ns, b->imbalance_ns, "seed %llu: imbalance", n);
  cr_assert_eq(memcmp(a->work, b->work_ns, (size_t)b->n_work * sizeof *a->work), 0, "seed %llu: work", n);
  for (int i = 0; i < b->n_actors; i++) {
    cr_assert_eq(a->actors[i].busy_ns, b->actors[i].busy_ns, "seed %llu: busy of actor %d", n, i);
    cr_assert_eq(memcmp(&a->actors[i].account, &b->actors[i].account, sizeof a->actors[i].account), 0,
                 "seed %llu: account of actor %d", n, i);
  }
}

Test(step_fold, fast_equals_plain) {
  struct scene *s = xmalloc(sizeof *s);
  int more_events = 0, tight = 0;
  for (uint64_t seed = 1; seed <= 400; seed++) {
    const double *factors;
    make_scene(s, seed, seed % 3 == 0, &factors);
    if (s->n_groups > 0) {
      struct engine *e = engine_new(&s->system, s->unequal);
      struct step_input in = {.groups = s->groups, .n_groups = s->n_groups, .factors = factors, .plain = true};
      struct copy plain = keep(engine_step(e, &in, NULL));
      in.plain = false;
      const struct step_result *fast = engine_step(e, &in, NULL);
      assert_equal(&plain, fast, seed);
      more_events += plain.r.events > fast->events;
      if (!factors) {
        int64_t step_ns = fast->step_ns, least_ns = engine_least_ns(e, &in, NULL);
        cr_assert_leq(least_ns, step_ns, "seed %llu: least %lld of %lld", (unsigned long long)seed, (long long)least_ns,
                      (long long)step_ns);
        tight += least_ns * 4 > step_ns * 3;
      }
      free(plain.actors);
      free(plain.work);
      engine_free(e);
    }
    free_scene(s);
  }
  cr_assert_gt(more_events, 200, "the fast path must save events: did in %d scenes", more_events);
  cr_assert_gt(tight, 100, "the least time must be of use: over 3/4 of the step in %d scenes", tight);
  free(s);
}

/* The fold of a program alone against playing every repeat of every loop. */
Test(step_fold, loops_fold_exactly) {
  struct scene *s = xmalloc(sizeof *s);
  for (uint64_t seed = 1; seed <= 200; seed++) {
    const double *factors;
    make_scene(s, seed, false, &factors);
    for (int i = 0; i < s->n_programs; i++)
      for (int lead = 0; lead < 3; lead++) {
        struct rank_state a = rank_state_at(1000000, 1), b;
        a.host_ns -= lead * 200000;
        b = a;
        struct rank_state whole = a;
        struct cursor ca = {0}, cb = {0};
        program_play(&s->programs[i], &ca, &a, 1, PLAY_ALL, true);
        program_play(&s->programs[i], &cb, &b, 1, PLAY_ALL, false);
        program_play_whole(&s->programs[i], &whole);
        rank_account_gap(&a, int64_max(a.compute_free_ns, a.exchange_free_ns));
        rank_account_gap(&b, int64_max(b.compute_free_ns, b.exchange_free_ns));
        cr_assert_eq(a.mark_ns, b.mark_ns, "seed %llu program %d", (unsigned long long)seed, i);
        cr_assert_eq(a.mark_ns, whole.mark_ns, "seed %llu program %d cached", (unsigned long long)seed, i);
        cr_assert_eq(a.host_ns, b.host_ns);
        cr_assert_eq(a.host_ns, whole.host_ns, "seed %llu program %d host", (unsigned long long)seed, i);
        cr_assert_eq(memcmp(&a.account, &b.account, sizeof a.account), 0);
        cr_assert_eq(memcmp(&a.account, &whole.account, sizeof a.account), 0, "seed %llu program %d lead %d",
                     (unsigned long long)seed, i, lead);
      }
    free_scene(s);
  }
  free(s);
}
