/* packing.h: which samples share a pack of at most `capacity` tokens: next_fit, bfd and lpt (see policy `packed`). */
#ifndef SIM_POLICY_PACKING_H
#define SIM_POLICY_PACKING_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/rng.h"
#include "sim/plan/sample_set.h"
#include "sim/policy/policy.h"

struct pack {
  int64_t first, n; /* range in packs.entries */
};

struct packs {
  uint32_t *entries; /* indices into the sample_set; every sample that can run, once */
  int64_t n_entries;
  struct pack *v; /* in the order they run */
  size_t n, cap;
};

/* Samples in arrival order, except those for which excluded[] is set (may be NULL) or that exceed the capacity.
 * `width`: packs of one iteration, what lpt deals over. */
void packs_make(struct packs *p, const struct sample_set *samples, const uint8_t *excluded, enum packing packing,
                int64_t capacity, int width);
void packs_release(struct packs *p);

void packs_shuffle(struct packs *p, struct rng *rng);

/* Megatron-Core's dp_balanced: while the number of packs is not a multiple of `width`, the last sample of the last pack
 * that holds more than one becomes a pack of its own at the end. */
void packs_top_up(struct packs *p, int width);

/* A micro-batch of the last group: these samples, copied into the iteration's own memory, in one pack. */
void packing_add_micro_batch(const struct policy_input *in, struct plan_iteration *it, const uint32_t *entries,
                             int64_t n);
/* These samples are dropped (copied likewise). */
void packing_add_drop(struct plan_iteration *it, const uint32_t *entries, int64_t n);

#endif
