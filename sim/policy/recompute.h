/* recompute.h: grouped knapsack of dcp: how many blocks of each module keep their activations in the spare memory. */
#ifndef SIM_POLICY_RECOMPUTE_H
#define SIM_POLICY_RECOMPUTE_H
#include <stdint.h>

struct recompute_module {
  double forward_s;        /* seconds saved per kept block */
  double activation_bytes; /* memory per kept block (double: published weights are in GiB with fractions) */
};

/* keep[m] out: 0..layers, exact optimum of sum forward_s*keep; ties by strict improvement, modules in order. Returns
 * seconds saved. `round_gib`: published rounding (spare down to whole GiB, each module's weight ceil to GiB). */
double recompute_choose(const struct recompute_module *modules, int n_modules, int layers, double spare_bytes,
                        int round_gib, int *keep);

#endif
