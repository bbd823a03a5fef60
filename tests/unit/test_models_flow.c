/* Max-min sharing, by hand. */
#include <criterion/criterion.h>

#include "models/flow.h"

#define EXPECT_RATE(c, r) cr_expect_float_eq((c).rate, (r), 1e-12, "%.17g", (c).rate)

static struct flow_class transfers(int64_t count, double nvlink, double nic, double core) {
  return (struct flow_class){.count = count, .load = {nvlink, nic, core}};
}

Test(models_flow, alone_runs_at_full_rate) {
  struct flow_class c[] = {transfers(1, 1, 0, 0), transfers(0, 1, 1, 1), transfers(7, 0.3, 1, 0)};
  flow_share(c, 3);
  EXPECT_RATE(c[0], 1);
  EXPECT_RATE(c[1], 1);
  EXPECT_RATE(c[2], 1);
  flow_share(c, 0);
}

Test(models_flow, two_equal_on_one_nic) {
  struct flow_class c[] = {transfers(2, 0, 1, 0)};
  c[0].same_ports = true;
  flow_share(c, 1);
  EXPECT_RATE(c[0], 0.5);
}

Test(models_flow, everywhere_shares_with_private_ports) {
  /* The gradient collective and an exchange fill NVLink: half each. A class that only uses the NIC has it to itself. */
  struct flow_class c[] = {transfers(1, 1, 0, 0), transfers(5, 1, 0, 0), transfers(3, 0, 1, 0)};
  c[0].everywhere = true;
  flow_share(c, 3);
  EXPECT_RATE(c[0], 0.5);
  EXPECT_RATE(c[1], 0.5);
  EXPECT_RATE(c[2], 1);
  /* It also needs 0.8 of the NIC: at its rate of 0.5 that leaves 0.6 for the NIC class. */
  c[0].load[PORT_NIC] = 0.8;
  flow_share(c, 3);
  EXPECT_RATE(c[0], 0.5);
  EXPECT_RATE(c[1], 0.5);
  EXPECT_RATE(c[2], 0.6);
}

Test(models_flow, slower_bottleneck_leaves_the_rest_to_others) {
  /* NVLink: everywhere 0.4 + private 1. NIC: everywhere 1 + private 1 -> NIC full at 0.5, everywhere stops there; the
   * NVLink class rises to 1 - 0.2. */
  struct flow_class c[] = {transfers(1, 0.4, 1, 0), transfers(2, 1, 0, 0), transfers(2, 0, 1, 0)};
  c[0].everywhere = true;
  flow_share(c, 3);
  EXPECT_RATE(c[0], 0.5);
  EXPECT_RATE(c[1], 0.8);
  EXPECT_RATE(c[2], 0.5);
}

Test(models_flow, oversubscribed_core) {
  /* Four transfers of 0.5 of the core: rate 0.5; a fifth kind of 0.1 shares the same level and is frozen with them. */
  struct flow_class c[] = {transfers(4, 0.2, 1, 0.5), transfers(1, 1, 0, 0), transfers(0, 0, 1, 1)};
  flow_share(c, 3);
  EXPECT_RATE(c[0], 0.5);
  EXPECT_RATE(c[1], 1);
  c[2] = transfers(1, 0, 1, 0.5);
  flow_share(c, 3);
  EXPECT_RATE(c[0], 0.4);
  EXPECT_RATE(c[2], 0.4);
}

/* No port is over-full, rates are in [0, 1], and every rate below 1 has a full constraint (max-min). */
Test(models_flow, random_sweep) {
  unsigned seed = 7;
  for (int round = 0; round < 2000; round++) {
    struct flow_class c[8] = {0};
    for (int i = 0; i < 8; i++) {
      for (int k = 0; k < PORT_KINDS; k++) {
        seed = seed * 1103515245u + 12345u;
        c[i].load[k] = seed >> 16 & 1 ? (seed >> 17 & 255) / 255.0 * (k == PORT_CORE ? 0.2 : 1) : 0;
      }
      seed = seed * 1103515245u + 12345u;
      c[i].count = i == 0 ? seed >> 16 & 1 : seed >> 16 & 3;
    }
    c[0].everywhere = true;
    flow_share(c, 8);
    double core = 0;
    for (int i = 0; i < 8; i++)
      core += (double)c[i].count * c[i].rate * c[i].load[PORT_CORE];
    cr_assert(core < 1 + 1e-9);
    for (int i = 0; i < 8; i++) {
      bool full = core > 1 - 1e-9 && c[i].load[PORT_CORE] > 0;
      cr_assert(c[i].rate >= 0 && c[i].rate <= 1);
      for (int k = 0; k < PORT_CORE && c[i].count; k++)
        for (int j = 0; j < 8; j++) {
          if (j != i && !c[i].everywhere && j != 0)
            continue;
          double other = j != i && c[j].count ? c[j].rate * c[j].load[k] : 0;
          double used = c[i].rate * c[i].load[k] + other;
          cr_assert(used < 1 + 1e-9);
          full = full || (used > 1 - 1e-9 && c[i].load[k] > 0);
        }
      cr_assert(!c[i].count || c[i].rate == 1 || full);
    }
  }
}
