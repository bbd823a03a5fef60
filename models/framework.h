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

struct framework {
  const char *name;
  const char *source;
  int64_t grad_bucket_bytes;   /* a gradient bucket is reduced when it holds at least this much */
  double loss_bytes_per_logit; /* memory traffic of cross-entropy forward and backward: 6 fused, 24 with fp32 logits */
  double exchange_pack_u;      /* 2D: hidden-state copies that packing and unpacking one exchange reads and writes */
  int grad_buffers;            /* buffers of that size held beside the gradients while they are reduced */
  double host_copy_bytes_per_text_token; /* 2D: caption bytes copied from the host per caption token and channel */
  double logits_bytes; /* per token and vocabulary entry between head and loss, forward and backward */
  double
      attention_time_factor; /* time of this framework's attention kernels relative to the measured rows (FlashAttention
                                3 and cuDNN): 1, or what FlashAttention 2 takes longer (H100 figures: 1.0
                                at 512 tokens, 1.3 at 2k, 1.5 to 1.7 from 4k). Not applied by operation.h. */
};

/* NULL and a usage error naming the valid ones when unknown. */
const struct framework *framework_find(const char *name, struct err *err);
void framework_list(FILE *out);
/* Passes of one block of this model under this framework, resolved for the model's MLP and norm kinds. GEMM operands,
 * attention operands and the packing of exchanges are not in the passes. kind must fit the model (block_kind_of). */
struct block_passes framework_block(const struct framework *f, const struct transformer *m, enum block_kind kind);

#endif
