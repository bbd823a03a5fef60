/* policy_setup.h: what one policy at one SP degree starts from: bucket profiles, what does not fit, settled options. */
#ifndef SIM_EXPERIMENT_POLICY_SETUP_H
#define SIM_EXPERIMENT_POLICY_SETUP_H
#include "sim/experiment/experiment.h"

struct policy_setup {
  struct profile profile; /* bucketed policies */
  uint8_t *excluded;      /* static, packed: per entry, does not fit alone; NULL: all do */
  struct policy_options options;
  struct fit fit;
};

/* SP degrees to try: of a fixed-SP policy those that hold the most tokens of the run (--sp: that one alone), one run
 * each; of others the single value 0. *holds_all: every sample fits. An error when no sample fits, when --batch,
 * --pack-tokens or --rank-tokens fit at none, or when the trace's own batches (policy given) do not all fit at one. sps
 * has room for MAX_SPS. */
int policy_setup_sps(const struct experiment *x, const struct policy *policy, int *sps, int *n_sps, bool *holds_all,
                     struct err *err);

/* Tokens of the longest sample that SP groups of this degree hold alone under the memory cap, padded as the policy
 * pads; 0: none. Of videos: of the shapes that the trace has. */
int64_t policy_setup_longest(const struct experiment *x, const struct policy *policy, int sp);

/* sp: one of those. Fails where a bucket takes too long (profile_model_make); released all the same. */
int policy_setup_init(struct policy_setup *s, const struct experiment *x, const struct policy *policy, int sp,
                      struct err *err);
void policy_setup_release(struct policy_setup *s);

#endif
