/* profile_model.h: bucket profiles from the cost and memory models, in place of measured ones. */
#ifndef SIM_EXPERIMENT_PROFILE_MODEL_H
#define SIM_EXPERIMENT_PROFILE_MODEL_H
#include "sim/experiment/fit.h"
#include "sim/policy/policy.h"
#include "sim/policy/profile.h"
#include "traces/bucket.h"

/* The profile that `policy` plans with. `sps`: what it may use (ascending; one for a fixed-SP policy). max_batch 0: no
 * limit. Buckets that fit at none are marked infeasible. */
void profile_model_make(struct profile *out, const struct policy *policy, const struct fit *fit,
                        const struct bucketing *buckets, const int *sps, int n_sps, int64_t max_batch);

#endif
