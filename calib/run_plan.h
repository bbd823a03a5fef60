/* run_plan.h: the shapes that calibration measures, in the order in which it does: coarse to fine along every axis and
 * all operations in turn, so that a run that ends early covers everything, only less densely. */
#ifndef CALIB_RUN_PLAN_H
#define CALIB_RUN_PLAN_H
#include "calib/rows.h"
#include "models/transformer.h"

struct plan_entry {
  enum row_op op;
  int64_t shape[ROW_SHAPE_MAX]; /* unused places are 0 */
};

struct run_plan {
  struct plan_entry *v;
  size_t n, cap;
};

struct plan_options {
  bool is_gpu;                     /* sizes of its usual grid; else small ones */
  const struct transformer *model; /* shapes of this model, or NULL: a usual grid */
  int64_t max_tokens;              /* of one micro-batch on one rank; 0: 32768 on a GPU, else 2048 */
  bool ops[ROW_OPS];               /* which operations */
  int nodes, ranks_per_node;       /* collectives: their placements (placement.h); 1 and 1: none */
  int64_t memory_bytes;            /* of all arrays of a shape; 0: no limit */
  int64_t element_bytes;
  int64_t max_bytes; /* of a collective; 0: 2^30 on a GPU, else 2^24 */
};

/* Operations that calibration can measure, set in ops[]. `list`: names of operations or classes with commas between
 * them; NULL: all kernels, or with several ranks all collectives. An unknown name is a usage error that lists them. */
int run_plan_ops(bool ops[ROW_OPS], const char *list, int ranks, struct err *err);

void run_plan_make(struct run_plan *plan, const struct plan_options *options);
void run_plan_release(struct run_plan *plan);

/* Subdivisions until an axis of n places reaches place i: 0 for both ends, 1 for the middle, ... */
int axis_level(int i, int n);

#endif
