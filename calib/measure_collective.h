/* measure_collective.h: checks and times collectives. All members of a group make the same calls; what is measured is
 * the slowest member's, and every member gets the same numbers. */
#ifndef CALIB_MEASURE_COLLECTIVE_H
#define CALIB_MEASURE_COLLECTIVE_H
#include "calib/measure.h"
#include "kernels/communicator.h"

struct collective_buffers {
  void *send, *recv, *small; /* on the device */
};
void collective_buffers_release(struct collective_buffers *b, struct device *device);

/* ROW_OP_ALL_REDUCE .. ROW_OP_SEND_RECV of `bytes` as nccl-tests counts size, a multiple of ranks * element bytes. */
struct collective_shape {
  enum row_op op;
  int64_t bytes;
};

/* all[ranks * n] = v[n] of every rank, by rank; n <= 4. Numbers travel as fp32. */
int collective_gather(struct communicator *c, struct collective_buffers *b, const float *v, int n, float *all,
                      struct err *err);

/* Small whole numbers through the collective: *exact says whether all ranks got exactly what they should. `run`:
 * communicator_run, unless a test replaces it. */
int collective_check(struct communicator *c, struct collective_buffers *b, enum row_op op,
                     int (*run)(struct communicator *, const struct communicator_call *, struct err *), bool *exact,
                     struct err *err);

int collective_time(struct communicator *c, struct collective_buffers *b, const struct collective_shape *shape,
                    const struct measure_options *options, struct repeats *out, struct err *err);

#endif
