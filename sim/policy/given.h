/* given.h: the batches that a trace holds, one after the other. */
#ifndef SIM_POLICY_GIVEN_H
#define SIM_POLICY_GIVEN_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/plan/sample_set.h"

/* Zeroed: before the first. A batch of which --max-length dropped every sample is none. */
struct given_batch {
  int64_t first, n;    /* its entries in the sample_set */
  uint32_t number;     /* in the trace */
  struct sample shape; /* padded to its longest */
  int64_t tokens;      /* real */
};

/* Moves to the next batch; false after the last. `samples` must hold batches. */
bool given_batch_next(struct given_batch *b, const struct sample_set *samples);

#endif
