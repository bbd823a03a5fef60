/* measure_collective.h: checks and times collectives. All that take part make the same calls; what is measured is the
 * slowest rank's, and every rank gets the same numbers. */
#ifndef CALIB_MEASURE_COLLECTIVE_H
#define CALIB_MEASURE_COLLECTIVE_H
#include "calib/measure.h"
#include "kernels/communicator.h"

struct collective_buffers {
  void *send, *recv, *small; /* on the device */
  int64_t *counts;           /* of an uneven exchange: [2 * members] */
  int members;               /* that `small` and `counts` are for */
};
void collective_buffers_release(struct collective_buffers *b, struct device *device);

/* Who measures. */
struct collective_ranks {
  struct communicator *group; /* runs the collective */
  struct communicator *all;   /* the ranks of all groups that run it at once; `group` itself if there is one */
};

/* ROW_OP_ALL_REDUCE .. ROW_OP_BARRIER of `bytes` as nccl-tests counts size, a multiple of ranks * element bytes (uneven
 * exchange: twice that); 0 for a barrier.
 * all_to_all_uneven: of each rank's buffer ranks 0, 2, ... of the group get bytes / ranks, the others half as much, so
 * that the busiest rank receives `bytes`. */
struct collective_shape {
  enum row_op op;
  int64_t bytes;
};

/* all[ranks * n] = v[n] of every rank, by rank; n <= 4. Numbers travel as fp32. */
int collective_gather(struct communicator *c, struct collective_buffers *b, const float *v, int n, float *all,
                      struct err *err);

/* Small whole numbers through the collective, in all groups at once: *wrong is the first rank of r->all that did not
 * get exactly what it should, or -1. A barrier must hold the others until the last rank of the group, which comes late,
 * is there. `run`: communicator_run, unless a test replaces it. */
int collective_check(const struct collective_ranks *r, struct collective_buffers *b, enum row_op op,
                     int (*run)(struct communicator *, const struct communicator_call *, struct err *), int *wrong,
                     struct err *err);

int collective_time(const struct collective_ranks *r, struct collective_buffers *b,
                    const struct collective_shape *shape, const struct measure_options *options, struct repeats *out,
                    struct err *err);

#endif
