/* metrics.h: from played steps to the numbers of a result (models.md section 7: where every rank's nanoseconds went).
 */
#ifndef SIM_EXPERIMENT_METRICS_H
#define SIM_EXPERIMENT_METRICS_H
#include "sim/experiment/experiment.h"
#include "sim/experiment/step_memo.h"

/* Of each micro-batch of an iteration, in its order. */
struct micro_batch_load {
  double real_work_frac[WORK_CLASSES]; /* real / padded work, at most 1 */
  int64_t processed_tokens;            /* padding included */
  int64_t unmeasured_ns;               /* of each of its ranks, see struct program */
};

/* What a sample costs whoever runs it: all runs of an experiment need it, so it is worked out once. */
struct sample_cost {
  double bound_gpu_s, flops;
  double block_flops; /* forward FLOPs of the blocks: what recomputing all of them would add */
};
/* One per entry of x->samples; the caller frees it. */
struct sample_cost *sample_costs(const struct experiment *x);

struct metrics {
  const struct experiment *x;
  const struct sample_cost *costs;
  int64_t steps, samples, tokens, processed_tokens, time_ns, steps_over_tokens;
  int64_t *step_ns; /* per step */
  size_t n_step_ns, step_ns_cap;
  __int128 share_ns[SHARES], imbalance_ns, max_busy_ns, unmeasured_ns; /* summed over ranks and steps */
  double samples_sq;                                                   /* sum over steps of samples^2 */
  double sample_weight_sq, token_weight_sq; /* sums over samples and tokens of (relative weight)^2 */
  double recomputed_flops;
  int64_t sp_tokens[MAX_SPS];
  int64_t peak_bytes, peak_step;
  double *weights; /* scratch: one per micro-batch */
  size_t weights_cap;
};

/* `costs` may be NULL where no step is added. */
void metrics_init(struct metrics *m, const struct experiment *x, const struct sample_cost *costs);
void metrics_release(struct metrics *m);

/* One step: what ran, how it was played, its loads and the peak of its micro-batches. m->weights holds the gradient
 * weights of its micro-batches afterwards. */
void metrics_add_step(struct metrics *m, const struct plan_iteration *it, const struct step_record *record,
                      const struct micro_batch_load *loads, int64_t peak_bytes);

/* Everything that the steps tell. ran: per entry of x->samples, `ran_value` if it ran. */
void metrics_finish(const struct metrics *m, const uint8_t *ran, uint8_t ran_value, struct policy_result *r);

#endif
