/* global_batch.h: the samples of one optimizer step where their number is fixed beforehand: the next N in arrival
 * order, as Megatron-Core's data loader hands them to its schedulers. */
#ifndef SIM_POLICY_GLOBAL_BATCH_H
#define SIM_POLICY_GLOBAL_BATCH_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/policy/policy.h"

#define GLOBAL_BATCH_PER_RANK 2 /* samples, where nothing says how many */

struct global_batch {
  const struct policy_input *in;
  int64_t limit_tokens_each; /* longer samples never run */
  int64_t arrival;           /* the next to look at */
  uint32_t *entries;         /* of the present batch, n of them, in arrival order */
  int64_t n, wanted;         /* wanted 0: as many as tokens_per_step holds */
  bool over_tokens;          /* one sample that exceeds tokens_per_step by itself */
};

/* How many, unless options.global_batch says it: as many as tokens_per_step holds, else GLOBAL_BATCH_PER_RANK for each
 * rank. Where both are set both are limits; at least one sample. */
void global_batch_init(struct global_batch *b, const struct policy_input *in, int64_t limit_tokens_each);
void global_batch_release(struct global_batch *b);

/* The next batch into b->entries. False: no step is left; the entries are then those of a last batch that is not full,
 * which every remainder rule but the fair one drops. */
bool global_batch_next(struct global_batch *b);

#endif
