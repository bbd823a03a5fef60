/* memory.h: bytes on the fullest rank: states + activations + logits + workspace + reserve (models.md section 5). */
#ifndef MODELS_MEMORY_H
#define MODELS_MEMORY_H
#include <stdbool.h>
#include <stdint.h>

#include "models/system.h"

/* States, P parameters over D shards (all GPUs, or those of a node with shard_node): weights 2P (zero 3: /D), gradients
 * grad_bytes*P (zero 2, 3: /D), optimizer 12P (zero 1..3: /D; 0 when offloaded).
 * Activations, per local token row: kept blocks framework.saved_u copies of the hidden state, recomputed blocks one
 * (their input); 2D adds saved_text_u per caption row (not divided by sp). Outside the blocks 2 copies (1D) or 4 (2D)
 * and the captions. Working set: the largest recomputed block less its input, or, if larger, the gradients beside a
 * kept block (output and MLP intermediates); zero 3: two gathered blocks (2D: pairs) and one's gradient, or the head's
 * weights and gradient and one block, or (2D, tied embeddings) what is outside the blocks with its gradient beside
 * them; reduction buffers of the framework. Logits: framework.logits_bytes * V per local token; with head_chunk at most
 * 6 * V per token of a chunk. Against measurements on 8 x H200, Llama-3.1-8B, under the eager profile (they ran that
 * way): zero 3, recomputation, CPU optimizer, head_chunk 2048: 16.2, 27.7, 103.9 GiB at 8k, 32k, 192k tokens
 * (measured 16.3, 25.8, 95.7); zero 2 without recomputation at 8k: 99.3 GiB (measured 99). Saved per layer:
 * Llama-3.1-8B 28.0 copies (28.0), Qwen3-4B 38.2 (38.0). More: dcpsim calibrate check --training. */

/* MEMORY_PUBLISHED: what the published DCP's profile says, which decides its batches. It runs the first two layers (2D:
 * pairs of blocks), takes the allocator's peak, so neither context nor communicators (reserve 0), and adds for every
 * further block all its inputs that need a gradient: the hidden state, and in 2D also captions and the two modulation
 * tensors (6 * hidden per sample each), although those exist once: 36 MB per sample of STDiT3 whatever the SP degree.
 */

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
