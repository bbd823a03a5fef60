/* cmd_plan_profile.h: `plan --profile FILE`: a policy's plan from measured bucket times, no samples, no models. */
#ifndef SIM_CLI_CMD_PLAN_PROFILE_H
#define SIM_CLI_CMD_PLAN_PROFILE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

struct plan_profile_options {
  const char *policy, *profile_path;
  const char *pick; /* NULL: published when shuffled, deterministic with no_shuffle */
  bool no_shuffle, drop_last, json;
  int max_gas, min_gas; /* 0: the defaults, 5 and the policy's own */
  uint64_t seed;
};

/* Prints dcpsim.plan/1 (json) or a table to `out`. Nothing is printed on failure. */
int plan_profile_run(const struct plan_profile_options *o, FILE *out, struct err *err);

#endif
