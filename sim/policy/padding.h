/* padding.h: micro-batches that are padded to the longest of their samples. */
#ifndef SIM_POLICY_PADDING_H
#define SIM_POLICY_PADDING_H
#include <stdint.h>

#include "sim/policy/policy.h"

/* The least extent that holds both. */
static inline struct sample padding_join(struct sample x, struct sample y) {
  return (struct sample){x.a > y.a ? x.a : y.a, x.b > y.b ? x.b : y.b};
}

/* What samples are padded to whose longest is this: text is rounded up to a bucket bound. */
struct sample padding_shape(struct sample longest, bool is_2d, int per_octave);

/* A micro-batch of the last group: these samples, copied into the iteration's own memory, padded to their longest. */
void padding_add_micro_batch(const struct policy_input *in, struct plan_iteration *it, const uint32_t *entries,
                             int64_t n);

#endif
