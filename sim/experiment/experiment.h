/* experiment.h: one experiment: a trace, a model and a cluster under each policy, to a result record. */
#ifndef SIM_EXPERIMENT_EXPERIMENT_H
#define SIM_EXPERIMENT_EXPERIMENT_H
#include <stdbool.h>
#include <stdint.h>

#include "models/system.h"
#include "sim/experiment/options.h"
#include "sim/plan/sample_set.h"
#include "sim/policy/policy.h"
#include "traces/bucket.h"
#include "traces/trace.h"

enum share { SHARE_COMPUTE, SHARE_PADDING, SHARE_RECOMPUTE, SHARE_SP_EXCHANGE, SHARE_GRAD_SYNC, SHARE_OPTIMIZER, SHARE_HOST, SHARE_IDLE, SHARES };
extern const char *const share_names[SHARES];

#define SP_HISTOGRAM_BINS 16 /* SP 2^0 .. 2^15 */

struct policy_result {
  char name[32];
  int64_t steps, samples, samples_dropped, samples_infeasible, samples_overlong, samples_remaining;
  int64_t samples_cut, tokens_cut, tokens;
  double tokens_per_step, time_s, tokens_per_s, tokens_per_s_per_gpu, gpu_hours, speedup, speedup_interval[2];
  double step_time_s_mean, step_time_s_p50, step_time_s_p95, step_time_s_max;
  int64_t share_ns[SHARES]; /* over all ranks and steps: sums to W * time */
  double share[SHARES];
  double padding_frac, imbalance_frac, mfu_frac, hfu_frac;
  int64_t peak_memory_bytes;
  int64_t peak_memory_step; /* which step set it */
  double bound_s, bound_gap_frac;
  double samples_per_step_mean, samples_per_step_cv, weight_cv_sample, weight_cv_token;
  int sp;                   /* 0: not a fixed-SP policy */
  int sp_runner_up;         /* 0: none */
  double sp_runner_up_tokens_per_s;
  double sp_histogram[SP_HISTOGRAM_BINS];
  double plan_time_s;
  int64_t steps_over_tokens; /* steps that exceed --tokens-per-step even so */
  double tokens_left_out;    /* tokens of dropped, infeasible and overlong samples */
};

/* Everything read and derived once, shared by all policies. */
struct experiment {
  struct experiment_options options;
  struct trace trace;
  struct transformer model;
  struct cluster cluster;
  struct params *params;
  struct system system;
  struct sample_set samples;      /* after --max-length */
  struct bucketing bucketing;
  int64_t samples_overlong, samples_cut, tokens_cut;
  uint32_t *overlong_ids;
  const struct policy *policies[MAX_POLICIES];
  int n_policies, baseline;
};

/* Where a policy's run goes besides its result. NULL or empty: nowhere. */
struct experiment_outputs {
  const char *schedule, *timeline; /* paths with {policy} replaced by the caller */
  struct explain *explain;         /* see explain.h */
};

/* Loads and checks everything; on failure nothing is left allocated. */
int experiment_open(struct experiment *x, const struct experiment_options *options, struct err *err);
void experiment_close(struct experiment *x);

/* Runs policy number i (sp auto included). Speedups are filled by experiment_compare. Thread-safe for different i. */
int experiment_run(const struct experiment *x, int i, const struct experiment_outputs *outputs,
                   struct policy_result *result, struct err *err);
/* Speedups over the baseline; with --seeds also their interval. */
void experiment_compare(const struct experiment *x, struct policy_result *results);

/* The dcpsim.result/1 object. */
void result_write_json(struct json_writer *w, const struct experiment *x, const struct policy_result *results);

#endif
