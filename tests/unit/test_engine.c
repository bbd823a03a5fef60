/* The engine against sums done by hand. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/engine/classes.h"
#include "sim/engine/collectives.h"
#include "sim/engine/step.h"
#include "sim/plan/lower.h"
#include "sim/plan/program_time.h"

static const double nic[PORT_KINDS] = {[PORT_NIC] = 1};

static int64_t finish_next(struct classes *c, int *class) {
  int64_t t = classes_next_ns(c, class);
  classes_finish(c, *class, t);
  classes_update(c, t);
  return t;
}

Test(classes, alone_costs_what_it_costs) {
  struct classes c;
  classes_init(&c, 0.25, false);
  int k = classes_exchange(&c, nic), class;
  for (int64_t ns = 1; ns < 4000000000; ns = ns * 3 + 1) {
    classes_start(&c, k, 17, ns, 0);
    classes_update(&c, 17);
    cr_assert_eq(finish_next(&c, &class), 17 + ns);
  }
  classes_release(&c);
}

Test(classes, two_on_one_nic_take_twice_as_long) {
  struct classes c;
  classes_init(&c, 0.25, false);
  int k = classes_exchange(&c, nic), class;
  memcpy(c.v[CLASS_COLLECTIVE].load, nic, sizeof nic);
  classes_start(&c, k, 0, 123457, 0);
  classes_start(&c, CLASS_COLLECTIVE, 0, 123457, 0);
  classes_update(&c, 0);
  cr_assert_eq(finish_next(&c, &class), 2 * 123457);
  cr_assert_eq(classes_next_ns(&c, &class), 2 * 123457);
  classes_release(&c);
}

Test(classes, rates_change_when_others_start_and_end) {
  struct classes c;
  classes_init(&c, 0.25, false);
  int k = classes_exchange(&c, nic), class;
  memcpy(c.v[CLASS_COLLECTIVE].load, nic, sizeof nic);
  classes_start(&c, CLASS_COLLECTIVE, 0, 1000, 0);
  classes_update(&c, 0);
  classes_start(&c, k, 500, 1000, 0); /* 500 left of the first: both at half speed until 1500 */
  classes_update(&c, 500);
  cr_assert_eq(finish_next(&c, &class), 1500);
  cr_assert_eq(class, CLASS_COLLECTIVE);
  cr_assert_eq(finish_next(&c, &class), 2000); /* the second then has 500 left at full speed */
  classes_release(&c);
}

Test(classes, compute_slows_beside_a_collective) {
  struct classes c;
  classes_init(&c, 0.25, false);
  int class;
  classes_start(&c, CLASS_COMPUTE, 0, 1000, 0);
  classes_start(&c, CLASS_COLLECTIVE, 0, 625, 0);
  classes_update(&c, 0);
  cr_assert_eq(finish_next(&c, &class), 625); /* 625 / 1.25 = 500 of the compute is done */
  cr_assert_eq(finish_next(&c, &class), 1125);
  classes_release(&c);
}

struct setting {
  struct transformer model;
  struct cluster cluster;
  struct params *params;
  struct system system;
};

static void set(struct setting *s, const char *cluster, int zero) {
  struct err err = {0};
  cr_assert_eq(transformer_load(&s->model, "tiny-1d", &err), 0, "%s", err.msg);
  cr_assert_eq(cluster_load(&s->cluster, cluster, &err), 0, "%s", err.msg);
  cr_assert_eq(params_load(&s->params, "h200_sxm", &err), 0, "%s", err.msg);
  s->system = (struct system){&s->model, &s->cluster, s->params, framework_find("fused", &err), {0}};
  s->system.parallel = (struct parallel){.zero = zero, .sp_kind = SP_ULYSSES, .grad_bytes = 2};
}

/* One compute op of `ns`, then a gradient post. */
static struct program one_op(int64_t ns, double gradient_bytes) {
  struct program p = {.sp = 1};
  program_begin_section(&p, SECTION_FORWARD, 1);
  program_add(&p, OP_COMPUTE, "work")->ns = ns;
  struct op *post = program_add(&p, OP_POST, "grad_reduce");
  post->bytes = post->last_bytes = gradient_bytes;
  post->collective = COLLECTIVE_ALL_REDUCE;
  post->kernels = 0;
  p.ops[0].work = WORK_TOKENS;
  program_fold_cache(&p);
  return p;
}

Test(step, waits_for_the_slower_rank_and_then_synchronises) {
  struct setting s;
  set(&s, "h200_3x1", 0);
  struct program fast = one_op(1000000, 1e9), slow = one_op(3000000, 1e9);
  const struct program *lists[] = {&fast, &slow};
  struct step_group groups[] = {{0, 1, 0, &lists[0], 1}, {1, 1, 0, &lists[1], 1}};
  struct engine *e = engine_new(&s.system, false);
  struct step_input in = {.groups = groups, .n_groups = 2};
  const struct step_result *r = engine_step(e, &in, NULL);
  struct collective_cost sum = collectives_cost(&s.system, COLLECTIVE_ALL_REDUCE, 1e9);
  int64_t sync = llround(sum.time_s * 1e9);
  cr_assert_eq(r->sync_end_ns, 3000000 + sync, "a single uncontended collective costs exactly its table value");
  cr_assert_eq(r->work_ns[0][WORK_TOKENS], 1000000);
  cr_assert_eq(r->work_ns[1][WORK_TOKENS], 3000000);
  cr_assert_eq(r->actors[0].account.idle_ns, 2000000);
  cr_assert_eq(r->actors[1].account.idle_ns, 0);
  cr_assert_eq(r->idle_ranks, 1);
  cr_assert_eq(r->idle.idle_ns, 3000000);
  cr_assert_eq(r->max_busy_ns, 3000000);
  cr_assert_eq(r->imbalance_ns, 2000000 + 3000000, "the idle rank counts");
  engine_free(e);
  program_release(&fast);
  program_release(&slow);
  params_free(s.params);
}

Test(step, micro_batches_follow_each_other_and_a_straggler_is_waited_for) {
  struct setting s;
  set(&s, "h200_2x1", 0);
  struct program p = one_op(1000000, 1e6);
  const struct program *lists[] = {&p, &p, &p};
  struct step_group groups[] = {{0, 1, 0, lists, 3}, {1, 1, 0, lists, 3}};
  double factors[] = {1, 1.5};
  struct engine *e = engine_new(&s.system, false);
  struct step_input in = {.groups = groups, .n_groups = 2, .factors = factors};
  const struct step_result *r = engine_step(e, &in, NULL);
  int64_t optimizer = r->actors[1].account.optimizer_ns - r->actors[0].account.optimizer_ns;
  cr_assert_gt(optimizer, 0);
  cr_assert_eq(r->actors[0].account.idle_ns, 1500000 + optimizer, "for its backward, then for its optimizer");
  cr_assert_eq(r->work_ns[3][WORK_TOKENS], 1500000);
  cr_assert_eq(r->imbalance_ns, 1500000);
  engine_free(e);
  program_release(&p);
  params_free(s.params);
}

Test(step, what_the_clock_cannot_hold_is_an_error) {
  struct setting s;
  set(&s, "h200_2x1", 0);
  struct program hour = one_op(OP_MAX_NS, 1e6), overlong = one_op(1, 1e6);
  program_set_time(&overlong, &overlong.ops[0], 2 * s_from_ns(OP_MAX_NS));
  program_fold_cache(&overlong);
  cr_expect_eq(overlong.ops[0].ns, OP_MAX_NS);
  cr_expect(isinf(program_time_s(&overlong)));
  const struct program *lists[] = {&hour, &overlong};
  struct step_group group = {0, 1, 0, &lists[0], 1};
  double factors[] = {1.001, 1};
  struct engine *e = engine_new(&s.system, false);
  struct step_input in = {.groups = &group, .n_groups = 1};
  struct err err = {0};
  cr_assert_not_null(engine_step(e, &in, &err));
  in.factors = factors;
  cr_expect_null(engine_step(e, &in, &err));
  cr_expect_not_null(strstr(err.msg, "one work takes 3604 s on a rank slowed by a factor of 1"), "%s", err.msg);
  in.factors = NULL;
  group.programs = &lists[1];
  cr_expect_null(engine_step(e, &in, &err));
  cr_expect_not_null(strstr(err.msg, "one work of "), "%s", err.msg);
  cr_expect_not_null(strstr(err.msg, " takes 2.000 h with parameters 'h200_sxm': more than the hour"), "%s", err.msg);
  engine_free(e);
  program_release(&hour);
  program_release(&overlong);
  params_free(s.params);
}

/* Compute is never at rest: its clock counts 2^63 units in 2.4 hours, and starts again in time. */
Test(step, a_step_may_take_days) {
  enum { N = 60 };
  struct setting s;
  set(&s, "h200_2x1", 0);
  struct program a = one_op(OP_MAX_NS, 1e6), b = one_op(OP_MAX_NS / 3 * 2, 1e6);
  const struct program *as[N], *bs[N];
  for (int i = 0; i < N; i++) {
    as[i] = &a;
    bs[i] = &b;
  }
  struct step_group groups[] = {{0, 1, 0, as, N}, {1, 1, 0, bs, N}};
  struct engine *e = engine_new(&s.system, true);
  struct step_input in = {.groups = groups, .n_groups = 2, .plain = true};
  const struct step_result *r = engine_step(e, &in, NULL);
  cr_assert_not_null(r);
  cr_expect_eq(r->max_busy_ns, N * OP_MAX_NS);
  cr_expect_eq(r->imbalance_ns, N * (OP_MAX_NS / 3));
  engine_free(e);
  program_release(&a);
  program_release(&b);
  params_free(s.params);
}

Test(step, a_later_round_starts_when_all_its_ranks_are_free) {
  struct setting s;
  set(&s, "h200_2x1", 0);
  struct program a = one_op(1000000, 1e6), b = one_op(2500000, 1e6), both = one_op(700000, 1e6);
  both.sp = 2;
  const struct program *lists[] = {&a, &b, &both};
  struct step_group groups[] = {{0, 1, 0, &lists[0], 1}, {1, 1, 0, &lists[1], 1}, {0, 2, 1, &lists[2], 1}};
  struct engine *e = engine_new(&s.system, false);
  struct step_input in = {.groups = groups, .n_groups = 3};
  const struct step_result *r = engine_step(e, &in, NULL);
  int64_t sync = llround(collectives_cost(&s.system, COLLECTIVE_ALL_REDUCE, 1e6).time_s * 1e9);
  cr_assert_eq(r->sync_end_ns, 2500000 + 700000 + sync);
  cr_assert_eq(r->between.idle_ns, 1500000);
  cr_assert_eq(r->imbalance_ns, 1500000);
  engine_free(e);
  program_release(&a);
  program_release(&b);
  program_release(&both);
  params_free(s.params);
}

static double op_ns(const struct program *p, const char *name) {
  for (size_t i = 0; i < p->n_ops; i++)
    if (strcmp(p->ops[i].name, name) == 0)
      return (double)p->ops[i].ns;
  return 0;
}

/* FlashAttention 2 differentiates cross-attention on 3 key tiles x 16 heads per sample: 48 tiles of one sample leave
 * most of 132 SMs idle, 96 of two fewer. Above 200,000 rows the published block attends sample by sample. */
Test(step, cross_attention_occupancy) {
  struct setting s;
  set(&s, "h100_8x4", 1);
  struct err err = {0};
  cr_assert_eq(transformer_load(&s.model, "stdit3-xl-2", &err), 0, "%s", err.msg);
  s.system.parallel.sp_kind = SP_DSP;
  double backward[2][3];
  for (int k = 0; k < 2; k++) {
    s.system.framework = framework_find(k ? "eager_apex" : "fused", &err);
    for (int i = 0; i < 3; i++) { /* 1, 2 and 4 samples of 55,200 rows */
      struct microbatch mb = {.batch = 1 << i, .frames = 60, .positions = 920, .recompute_blocks = {28, 28}};
      struct program p;
      lower_micro_batch(&p, &s.system, 1, &mb);
      backward[k][i] = op_ns(&p, "cross_attention_backward");
      cr_expect_eq(op_ns(&p, "cross_attention_concat") > 0, k == 1 && i == 2);
      program_release(&p);
    }
  }
  double derate = backward[1][0] / backward[0][0] / (132.0 / 48); /* of the frameworks' in-step scalars */
  cr_expect_float_eq(backward[1][1] / backward[0][1] / derate, 132.0 / 96, 1e-4);
  cr_expect_float_eq(backward[1][2] / backward[1][0], 4, 1e-6, "four launches, each as slow as one sample alone");
  params_free(s.params);
}

/* Of few tokens the weight gradients, whose inner dimension they are, are smaller than any GEMM measured: 32, of which
 * half is let pass. */
Test(step, unmeasured_gemms) {
  struct setting s;
  set(&s, "h200_2x1", 1);
  for (int tokens = 4; tokens <= 64; tokens *= 4) {
    struct microbatch mb = {.batch = 1, .seqlen = tokens, .recompute_blocks = {1, 0}};
    struct program p;
    int64_t weight_gradients_ns = 0;
    lower_micro_batch(&p, &s.system, 1, &mb);
    for (size_t i = 0; i < p.n_sections; i++)
      for (int k = 0; k < p.sections[i].n_ops; k++) {
        const struct op *op = &p.ops[p.sections[i].first_op + k];
        weight_gradients_ns += strstr(op->name, "_wgrad") ? op->ns * p.sections[i].repeat : 0;
      }
    cr_expect_gt(weight_gradients_ns, 0);
    cr_expect_eq(p.unmeasured_ns, tokens < 16 ? weight_gradients_ns : 0, "%d tokens: %lld of %lld ns", tokens,
                 (long long)p.unmeasured_ns, (long long)weight_gradients_ns);
    program_release(&p);
  }
  params_free(s.params);
}

/* Zero 3 runs micro-batches in lockstep, so accumulation cannot balance: the step is the sum of the slowest of each. */
Test(step, zero3_is_lockstep) {
  struct setting s;
  set(&s, "h200_2x1", 3);
  struct microbatch small = {.batch = 1, .seqlen = 1024, .recompute_blocks = {2, 0}};
  struct microbatch large = {.batch = 64, .seqlen = 4096, .recompute_blocks = {2, 0}};
  struct program p, q;
  lower_micro_batch(&p, &s.system, 1, &small);
  lower_micro_batch(&q, &s.system, 1, &large);
  const struct program *first[] = {&p, &q}, *second[] = {&q, &p};
  struct step_group crossed[] = {{0, 1, 0, first, 2}, {1, 1, 0, second, 2}};
  struct step_group aligned[] = {{0, 1, 0, first, 2}, {1, 1, 0, first, 2}};
  struct engine *e = engine_new(&s.system, false);
  struct step_input in = {.groups = crossed, .n_groups = 2};
  int64_t t_crossed = engine_step(e, &in, NULL)->sync_end_ns;
  in.groups = aligned;
  int64_t t_aligned = engine_step(e, &in, NULL)->sync_end_ns;
  cr_assert_gt(t_crossed, t_aligned + (q.cold.time_ns - p.cold.time_ns) / 2, "%lld %lld", (long long)t_crossed,
               (long long)t_aligned);
  engine_free(e);
  program_release(&p);
  program_release(&q);
  params_free(s.params);
}
