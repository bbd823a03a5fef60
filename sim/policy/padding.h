/* padding.h: micro-batches that are padded. */
#ifndef SIM_POLICY_PADDING_H
#define SIM_POLICY_PADDING_H
#include <stdint.h>

#include "sim/policy/policy.h"

/* The least extent that holds both. */
static inline struct sample padding_join(struct sample x, struct sample y) {
  return (struct sample){x.a > y.a ? x.a : y.a, x.b > y.b ? x.b : y.b};
}

/* The longest of these samples. */
struct sample padding_longest(const struct sample_set *samples, const uint32_t *entries, int64_t n);

/* A micro-batch of the last group: these samples, copied into the iteration's own memory, padded to `shape`. */
void padding_add_micro_batch(const struct policy_input *in, struct plan_iteration *it, const uint32_t *entries,
                             int64_t n, struct sample shape);

#endif
