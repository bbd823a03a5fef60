/* explain.h: where the time of one step goes, operation by operation: the timeline of a step, added up. */
#ifndef SIM_EXPERIMENT_EXPLAIN_H
#define SIM_EXPERIMENT_EXPLAIN_H
#include <stddef.h>
#include <stdint.h>

#include "sim/plan/plan.h"
#include "sim/plan/sample_set.h"
#include "sim/plan/timeline.h"

/* Spans of one name in one group (or of all ranks together: collectives and the optimizer). */
struct explain_op {
  const char *name; /* static */
  uint8_t stream, category;
  int64_t count, ns;
};

struct explain_group {
  int first_rank, sp;
  int64_t micro_batches, samples, tokens; /* real tokens */
  int64_t longest_tokens;                 /* of its samples */
  char shapes[64];                        /* "2048 x 4" of the first micro-batch, "..." if others differ */
  int64_t end_ns;                         /* its last span, since the start of the step */
  struct explain_op *ops;                 /* by time, descending */
  size_t n_ops, ops_cap;
};

struct explain {
  int64_t step; /* which, 0-based */
  int64_t step_ns;
  int64_t sync_after_ns;        /* from the end of the slowest group to the end of the step */
  struct explain_group *groups; /* slowest first, then in rank order */
  int n_groups;
  struct explain_op *step_ops; /* collectives over all ranks and the optimizer */
  size_t n_step_ops, step_ops_cap;
};

/* Adds up `t`, the timeline of step number `step` alone (it began at 0). */
void explain_fill(struct explain *e, const struct timeline *t, const struct plan_iteration *it,
                  const struct sample_set *samples, int64_t step, int64_t step_ns);
void explain_release(struct explain *e);

#endif
