/* memory.h: bytes on the fullest rank: states + activations + logits + workspace + reserve (models.md section 5). */
#ifndef MODELS_MEMORY_H
#define MODELS_MEMORY_H
#include <stdbool.h>
#include <stdint.h>

#include "models/system.h"

struct memory_parts {
  int64_t weights_bytes, gradients_bytes, optimizer_bytes; /* states on this rank after sharding */
  int64_t activations_bytes; /* saved for backward: kept blocks, recomputed blocks' inputs, embeddings */
  int64_t working_bytes; /* one block's working set during recomputation or backward; all-gathered layers (zero 3) */
  int64_t logits_bytes;
  int64_t reserve_bytes; /* context, communicators, allocator */
  int64_t total_bytes;
};

/* `unequal_counts`: groups may run different numbers of micro-batches (zero 2 then keeps full gradients). */
struct memory_parts memory_parts(const struct system *s, int sp, const struct microbatch *mb, bool unequal_counts);
int64_t memory_peak_bytes(const struct system *s, int sp, const struct microbatch *mb, bool unequal_counts);

/* Bytes that keeping ONE block of `module` (instead of recomputing it) adds on a rank: the weight of the recomputation
 * knapsack. memory_peak_bytes is exactly linear in kept blocks with this slope, except where the working set of the
 * last recomputed block disappears (then it is lower, never higher). */
int64_t memory_block_activation_bytes(const struct system *s, int sp, const struct microbatch *mb, int module);

/* The cap: floor(frac * device memory). */
int64_t memory_cap_bytes(const struct system *s, double frac);

#endif
