/* experiment.h: one experiment: a trace, a model and a cluster under each policy, to a result record. */
#ifndef SIM_EXPERIMENT_EXPERIMENT_H
#define SIM_EXPERIMENT_EXPERIMENT_H
#include <stdbool.h>
#include <stdint.h>

#include "models/system.h"
#include "sim/base/output_folder.h"
#include "sim/experiment/chakra_step.h"
#include "sim/experiment/explain.h"
#include "sim/experiment/fit.h"
#include "sim/experiment/options.h"
#include "sim/plan/sample_set.h"
#include "sim/plan/schedule.h"
#include "sim/policy/policy.h"
#include "traces/bucket.h"
#include "traces/trace.h"

struct shared_inputs;

enum share {
  SHARE_COMPUTE,
  SHARE_PADDING,
  SHARE_RECOMPUTE,
  SHARE_SP_EXCHANGE,
  SHARE_GRAD_SYNC,
  SHARE_OPTIMIZER,
  SHARE_HOST,
  SHARE_IDLE,
  SHARES
};
extern const char *const share_names[SHARES];

#define MAX_SPS 24   /* SP degrees 2^0 .. 2^23 */
#define NAMED_IDS 10 /* ids of a kind that a result names */

/* The first few trace ids of a kind; how many there are is counted elsewhere. */
struct named_ids {
  uint32_t v[NAMED_IDS];
  int n;
};

struct policy_result {
  char name[32];
  int64_t steps, samples, samples_dropped, samples_infeasible, samples_overlong, samples_remaining;
  int64_t samples_cut, tokens_cut, tokens;
  double tokens_per_step, time_s, tokens_per_s, tokens_per_s_per_gpu, gpu_hours, speedup, speedup_interval[2];
  double step_time_s_mean, step_time_s_p50, step_time_s_p95, step_time_s_max;
  double share[SHARES]; /* of all ranks' time; sums to 1 */
  double padding_frac, imbalance_frac, mfu_frac, hfu_frac;
  int64_t peak_memory_bytes;
  int64_t peak_memory_step; /* the first that reached it */
  double bound_s, bound_gap_frac;
  double samples_per_step_mean, samples_per_step_cv, weight_cv_sample, weight_cv_token;
  int sp;           /* 0: not a fixed-SP policy */
  int sp_runner_up; /* 0: none */
  double sp_runner_up_tokens_per_s;
  bool sp_holds_all; /* fixed SP: no sample is infeasible at it */
  double sp_histogram[MAX_SPS];
  double plan_time_s; /* wall clock spent planning */
  /* not in the JSON result */
  int64_t batch, pack_tokens; /* static, packed: as settled; else 0 */
  double unmeasured_frac;     /* of the compute time: GEMMs smaller than any measured */
  int64_t steps_over_tokens;  /* steps that exceed --tokens-per-step even so */
  int64_t tokens_dropped, tokens_infeasible, tokens_overlong, tokens_remaining;
  struct named_ids dropped, infeasible;
  int64_t median_step; /* the first whose time is the median */
  double lead;         /* tokens/s of the fastest policy over this one's */
  double lead_interval[2];
};

/* Everything read and derived once, shared by all policies; read-only afterwards. */
struct experiment {
  struct shared_inputs *shared;      /* not owned; NULL: this experiment stands alone */
  const char *progress_label;        /* not owned; of the bar; "simulating" unless set */
  struct experiment_options options; /* what the model and the cluster decide is filled in */
  char differences[600];             /* options_differences of what was asked for */
  struct trace trace;                /* its samples have moved into `samples` */
  int64_t trace_samples, trace_tokens;
  struct transformer model;
  struct cluster cluster;
  struct params *params;
  struct system system;
  int64_t memory_cap_bytes;
  struct sample_set samples; /* after --max-length; file order, no arrival order */
  struct bucketing bucketing;
  int64_t *bucket_tokens; /* real tokens per bucket */
  int64_t samples_overlong, samples_cut, tokens_cut, tokens_overlong;
  uint32_t *overlong_ids;
  const struct policy *policies[MAX_POLICIES];
  int n_policies, baseline;
  int sps[MAX_SPS], n_sps; /* degrees that groups can have, ascending, up to --max-sp */
};

/* Loads and checks everything; on failure nothing is left allocated. */
int experiment_open(struct experiment *x, const struct experiment_options *options, struct err *err);
/* The same where many experiments follow each other: what they have in common is kept in `shared` (shared_inputs.h),
 * which must outlive x. Unless `shared` is for threads such an experiment runs on the calling thread alone, without
 * progress bar; results are those of experiment_open. */
int experiment_open_shared(struct experiment *x, const struct experiment_options *options, struct shared_inputs *shared,
                           struct err *err);
/* experiment_open_shared on lengths of the caller: *trace, which is x's from now on, also after a failure, in place of
 * the trace that the options name. */
int experiment_open_lengths(struct experiment *x, const struct experiment_options *options,
                            struct shared_inputs *shared, struct trace *trace, struct err *err);
void experiment_close(struct experiment *x);

/* What fits, for this policy. */
struct fit experiment_fit(const struct experiment *x, const struct policy *policy);

/* What a run writes besides its result. Files appear on experiment_outputs_commit only. Must not move once open. */
struct experiment_outputs {
  char *schedule_path, *timeline_path; /* NULL: none; owned */
  struct schedule_writer *schedule;
  struct timeline timeline;
  bool want_chakra;
  struct output_folder chakra;
  struct chakra_summary chakra_summary; /* ranks 0: no step ran */
  bool want_explain;
  struct explain explain;
  /* set by the run, for the schedule's header */
  struct schedule_header header;
  uint32_t *dropped, *dropped_offsets, *infeasible, *infeasible_offsets;
  int64_t n_dropped, n_infeasible;
};

/* Opens what the options ask for, one per policy ({policy} in names is replaced), so that a name that cannot be written
 * fails before anything runs. `outputs` of n_policies, zeroed. */
int experiment_outputs_open(const struct experiment *x, struct experiment_outputs *outputs, struct err *err);
int experiment_outputs_commit(const struct experiment *x, struct experiment_outputs *outputs, struct err *err);
void experiment_outputs_release(const struct experiment *x, struct experiment_outputs *outputs);

/* Runs all policies on options.threads threads, sp auto and --seeds included: results[n_policies], speedups filled.
 * `outputs` may be NULL. Draws a progress bar on a terminal. */
int experiment_run(const struct experiment *x, struct experiment_outputs *outputs, struct policy_result *results,
                   struct err *err);

/* The plan of the one policy without simulating: every iteration to `iteration` (which may be NULL), with planned
 * times; *result has counts, tokens, sp; its time is the planned one. */
struct experiment_plan {
  void *context;
  void (*profile)(void *context, const struct profile *profile); /* once, before the iterations; may be NULL */
  void (*iteration)(void *context, const struct profile *profile, const struct plan_iteration *it);
  double time_s, imbalance_s;
};
int experiment_plan(const struct experiment *x, struct experiment_plan *plan, struct policy_result *result,
                    struct err *err);

#endif
