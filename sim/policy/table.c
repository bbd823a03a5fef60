#include <stdio.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/policy/policy.h"

extern const struct policy policy_given, policy_static, policy_bucket, policy_packed, policy_dcp_rebalance,
    policy_dcp_inter, policy_dcp, policy_megatron_dp_balanced, policy_megatron_dynamic_cp,
    policy_megatron_dynamic_cp_early;

/* clang-format off */
const struct policy *const policies[] = {
    &policy_given, &policy_static, &policy_bucket, &policy_packed, &policy_dcp_rebalance, &policy_dcp_inter, &policy_dcp,
    &policy_megatron_dp_balanced, &policy_megatron_dynamic_cp, &policy_megatron_dynamic_cp_early,
    NULL};
/* clang-format on */

const struct policy *policy_find(const char *name, struct err *err) {
  const char *names[sizeof policies / sizeof *policies] = {NULL};
  char valid[512] = "";
  size_t at = 0;
  for (int i = 0; policies[i]; i++) {
    names[i] = policies[i]->name;
    if (strcmp(policies[i]->name, name) == 0)
      return policies[i];
    if (at < sizeof valid)
      at += (size_t)snprintf(valid + at, sizeof valid - at, "%s%s", i ? ", " : "", policies[i]->name);
  }
  const char *near = nearest_word(name, names);
  err_usage(err, "unknown policy '%s'%s%s%s (valid: %s)", name, near ? ", did you mean '" : "", near ? near : "",
            near ? "'?" : "", valid);
  return NULL;
}
