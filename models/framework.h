/* framework.h: what a training framework adds to the arithmetic of a block: its memory passes, kernels, host
 * synchronisations and saved tensors. Profiles: "fused" (compiled or hand-fused kernels), "eager" (PyTorch, RMSNorm in
 * fp32), "eager_apex" (PyTorch with Apex norms). Counted per block kind from the architecture; sources in framework.c.
 */
#ifndef MODELS_FRAMEWORK_H
#define MODELS_FRAMEWORK_H
#include <stdio.h>

#include "models/operation.h"
#include "models/transformer.h"

/* One memory-bound pass, or several of one class; `kernels` is how many the host launches for it. Bytes per local token
 * row: 2 * (hidden_u*hidden + ffn_u*ffn + qkv_u*(heads+2*kv_heads)*head_dim), plus for text rows (2D, not divided by
 * SP) 2 * text_u * hidden per caption token. Names are unique within a list; a backward pass bears the name of its
 * forward pass. */
struct memory_pass {
  const char *name; /* "norm", "rope", "residual_norm", "activation", "residual", "modulate", "permute", ... */
  enum memory_class class;
  double hidden_u, ffn_u, qkv_u, text_u;
  int kernels;
};

enum block_kind { BLOCK_LAYER, BLOCK_SPATIAL, BLOCK_TEMPORAL, BLOCK_TEMPORAL_SHORT, BLOCK_TEMPORAL_ONE, BLOCK_KINDS };
/* 2D temporal blocks differ by frames T: TEMPORAL_SHORT for 1 < T < 30 (unfused softmax attention in the eager
 * profiles), TEMPORAL_ONE for T = 1 (no attention). */
enum block_kind block_kind_of(const struct transformer *m, int module, int64_t frames);

#define MAX_PASSES 16
struct block_passes {
  struct memory_pass forward[MAX_PASSES], backward[MAX_PASSES];
  int n_forward, n_backward;
  int host_syncs;      /* blocking host copies per forward of the block */
  double saved_u;      /* saved for backward without recomputation, in hidden-state copies of 2 bytes per local token */
  double saved_text_u; /* the same per caption token */
  bool unfused_attention; /* attention runs as batched matmul + softmax (TEMPORAL_SHORT under eager) */
  bool no_attention;      /* TEMPORAL_ONE */
  /* Eager 2D without sequence parallelism: the patch embedding leaves the residual stream in channel-strided order, and
   * every residual add keeps it; a split makes it contiguous. These passes are extra at sp 1 only (hidden_u 0: none).
   */
  struct memory_pass strided_forward, strided_backward;
};

/* Generations of attention kernels. The measured rows are of the newest; older ones take longer, by sequence length. */
enum attention_kernel { ATTENTION_NEWEST, ATTENTION_FLASH_2, ATTENTION_FLASH_1, ATTENTION_KERNELS };

struct framework {
  const char *name;
  const char *source;
  int kind; /* which table of passes: framework.c. A copy with other fields changed is a framework, too. */
  int64_t grad_bucket_bytes;   /* a gradient bucket is reduced when it holds at least this much */
  double loss_bytes_per_logit; /* memory traffic of cross-entropy forward and backward: 6 fused, 24 with fp32 logits */
  double exchange_pack_u;      /* 2D: hidden-state copies that packing and unpacking one exchange reads and writes */
  int grad_buffers;            /* buffers of that size held beside the gradients while they are reduced */
  double host_copy_bytes_per_text_token; /* 2D: caption bytes copied from the host per caption token and channel */
  double logits_bytes;          /* per token and vocabulary entry between head and loss, forward and backward */
  enum attention_kernel attention_kernel; /* see framework_attention_factor; not applied by operation.h */
  int64_t cross_attention_rows; /* 2D: with more local rows, cross-attention runs sample by sample; 0: never */
  double gather_bytes_per_param;          /* zero 3: 2, or 4 where weights are gathered in fp32 and cast afterwards */
  /* Memory traffic of whole weights and gradients under zero 3, per parameter and gather or reduction, that is no GEMM
   * operand: copies out of the gather buffer and casts; before a reduction, besides writing its input. */
  double weight_copy_bytes, gradient_copy_bytes;
  bool fp32_residual; /* 1D eager: autocast over fp32 weights; embeddings, and so the residual stream, stay fp32 */
};

/* Time of attention over sequences of `keys` under the framework's kernel, relative to the measured rows; >= 1, rising
 * with keys. FlashAttention 2: its forward and backward figures on H100 (fp16, causal, head dim 128, 16k tokens;
 * Dao-AILab/flash-attention: 163, 221, 265, 294, 308, 328 TFLOP/s from 512 to 16k keys) against the measured rows with
 * their backward (164, 266, 390, 465, 537, 578). FlashAttention 1 and its Triton port: 1.8 times FlashAttention 2, the
 * geometric mean of the 1.3 to 2.5 that the FlashAttention 2 paper gives (Dao 2023, section 4.1). */
double framework_attention_factor(const struct framework *f, int64_t keys);

/* NULL and a usage error naming the valid ones when unknown. */
const struct framework *framework_find(const char *name, struct err *err);
void framework_list(FILE *out);
/* Passes of one block of this model under this framework, resolved for the model's MLP and norm kinds. GEMM operands,
 * attention operands and the packing of exchanges are not in the passes. kind must fit the model (block_kind_of). */
struct block_passes framework_block(const struct framework *f, const struct transformer *m, enum block_kind kind);

#endif
