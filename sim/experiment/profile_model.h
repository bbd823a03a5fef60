/* profile_model.h: bucket profiles from the cost and memory models, in place of measured ones. */
#ifndef SIM_EXPERIMENT_PROFILE_MODEL_H
#define SIM_EXPERIMENT_PROFILE_MODEL_H
#include "sim/experiment/fit.h"
#include "sim/policy/policy.h"
#include "sim/policy/profile.h"
#include "traces/bucket.h"

struct profile_memo;

/* What besides the buckets decides a profile. */
struct profile_rule {
  const struct policy *policy;
  const struct fit *fit;
  const int *sps; /* what the policy may use: ascending; one for a fixed-SP policy */
  int n_sps;
  int64_t max_batch; /* 0: no limit */
  bool sequential;   /* see profile_search.h */
};

/* The profile that the policy plans with. Buckets that fit at none of the degrees are marked infeasible. Buckets that
 * `memo` (may be NULL) knows are taken from there, the others are put there. Candidates that take too long
 * (program_check) are left out; -1 with *err set where a bucket has no other. *out is to be released all the same. */
int profile_model_make(struct profile *out, const struct profile_rule *rule, const struct bucketing *buckets,
                       struct profile_memo *memo, struct err *err);

#endif
