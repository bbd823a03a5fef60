/* Parameters moved by their fit errors: the same for a seed, of the size of the errors, bounds following. */
#include <criterion/criterion.h>
#include <math.h>

#include "models/bound.h"
#include "models/collective.h"
#include "models/operation.h"
#include "models/system.h"

static struct params *load(uint64_t seed) {
  struct params *p;
  struct err err = {0};
  cr_assert_eq(params_load(&p, "h200_sxm", &err), 0, "%s", err.msg);
  if (seed)
    params_move(p, seed);
  return p;
}

Test(params_move, same_seed_same_shift_other_seed_other_shift) {
  struct params *a = load(1), *b = load(1), *c = load(2), *base = load(0);
  double ta = gemm_time_s(a, 4096, 4096, 4096), t0 = gemm_time_s(base, 4096, 4096, 4096);
  cr_assert_eq(ta, gemm_time_s(b, 4096, 4096, 4096));
  cr_assert_neq(ta, gemm_time_s(c, 4096, 4096, 4096));
  cr_assert_neq(ta, t0);
  cr_assert_lt(fabs(log(ta / t0)), 0.2, "a shift is of the size of the fit's error, not more");
  params_free(a);
  params_free(b);
  params_free(c);
  params_free(base);
}

Test(params_move, everything_moves) {
  struct params *a = load(3), *base = load(0);
  struct err err = {0};
  struct cluster cluster;
  cr_assert_eq(cluster_load(&cluster, "h200_8x4", &err), 0);
  struct attention_shape s = {true, 1, 8192, 8192, 32, 8, 128};
  cr_assert_neq(attention_forward_time_s(a, &s), attention_forward_time_s(base, &s));
  cr_assert_neq(attention_backward_time_s(a, &s), attention_backward_time_s(base, &s));
  for (int c = 0; c < MEMORY_CLASSES; c++)
    cr_assert_neq(memory_time_s(a, c, 1e9), memory_time_s(base, c, 1e9));
  for (int nodes = 1; nodes <= 4; nodes += 3)
    for (int c = 0; c < COLLECTIVE_KINDS; c++)
      cr_assert_neq(collective_cost(a, &cluster, c, 8 * nodes, nodes, 1e8).time_s,
                    collective_cost(base, &cluster, c, 8 * nodes, nodes, 1e8).time_s, "%s on %d nodes",
                    collective_name(c), nodes);
  cr_assert_neq(params_in_step(a, "fused").host_op_s, params_in_step(base, "fused").host_op_s);
  cr_assert_geq(params_in_step(a, "fused").compute_derate, 1);
  params_free(a);
  params_free(base);
}

/* No operation of moved parameters is faster than their best rate, so nothing beats a bound made from them. */
Test(params_move, best_rates_follow) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    struct params *p = load(seed);
    for (int64_t m = 64; m <= 32768; m *= 2)
      for (int64_t n = 1024; n <= 16384; n *= 2)
        cr_assert_geq(gemm_time_s(p, m, n, 4096) * best_gemm_flops_per_s(p),
                      2.0 * (double)(m * n) * 4096 * (1 - 1e-12));
    for (int64_t l = 512; l <= 65536; l *= 2) {
      struct attention_shape s = {true, 4, l, l, 32, 8, 128};
      double flops = 2.0 * 4 * (double)l * (double)l * 32 * 128;
      cr_assert_geq(attention_forward_time_s(p, &s) * best_attention_forward_flops_per_s(p, true, 128),
                    flops * (1 - 1e-12));
    }
    params_free(p);
  }
}
