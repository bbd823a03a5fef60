/* job.h: one run of one policy at one SP degree with one shuffle: the unit of work of a thread. */
#ifndef SIM_EXPERIMENT_JOB_H
#define SIM_EXPERIMENT_JOB_H
#include <stdatomic.h>

#include "sim/experiment/experiment.h"

struct sample_cost;

struct job {
  const struct experiment *x;
  int policy; /* index into x->policies */
  int sp;     /* 0: not a fixed-SP policy */
  bool holds_all;
  uint64_t seed;
  uint32_t *arrivals;                 /* job_arrivals of the seed, borrowed; NULL: the job makes its own */
  struct experiment_outputs *outputs; /* NULL: nothing is written */
  int64_t explain_step;               /* >= 0: play this step alone, for outputs->explain */
  struct experiment_plan *plan;       /* not NULL: plan only, nothing is played */
  bool least;                         /* nothing is played: result.tokens_per_s alone is set, to what it would be if
                                         every step took the least it can (engine_least_ns) */
  double *draws;                      /* not NULL: every draw_stride-th step is played under the parameters and under
                                         n_draws moved ones; n_draws + 1 sums of seconds */
  int n_draws;
  int64_t draw_stride;
  const struct sample_cost *costs; /* of metrics.h, per entry of x->samples; not needed to plan */
  _Atomic int64_t *samples_done;   /* for the progress bar */
  /* out */
  struct policy_result result;
  int rc;
  struct err err;
};

/* The order in which entries of x->samples arrive, for the caller to free; NULL with --no-shuffle: as they are. */
uint32_t *job_arrivals(const struct experiment *x, uint64_t seed);

/* Sets rc, result or err. */
void job_run(struct job *j);

#endif
