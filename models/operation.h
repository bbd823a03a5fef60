/* operation.h: seconds that one kernel takes on one GPU, from measured rows (see models.md section 3 for the demands:
 * fixed floor for tiny shapes, FLOP-bound for large ones, tile and wave quantisation between, monotone in work).
 * All functions are pure, take under 200 ns, and return seconds > 0 for non-empty work and 0 for empty work.
 * Head dims and lengths outside the measured range are handled by rate (saturated side) and never fail. */
#ifndef MODELS_OPERATION_H
#define MODELS_OPERATION_H
#include <stdbool.h>
#include <stdint.h>

#include "models/params.h"

/* bf16 GEMM (m x k) * (k x n). `wgrad`: a weight gradient, which runs a little below a forward GEMM of the same shape.
 */
double gemm_time_s(const struct params *p, int64_t m, int64_t n, int64_t k);
double gemm_wgrad_time_s(const struct params *p, int64_t m, int64_t n, int64_t k);

/* Flash attention of `batch` sequences with q_len queries on kv_len keys (causal only with q_len == kv_len). */
struct attention_shape {
  bool causal;
  int64_t batch, q_len, kv_len, heads, kv_heads, head_dim;
};
double attention_forward_time_s(const struct params *p, const struct attention_shape *a);
double attention_backward_time_s(const struct params *p, const struct attention_shape *a);

/* What the shipped rows measured for this shape: the forward kernel and, in the causal rows (a serving build), the write of
 * K and V into a paged cache, which training does not do. For checks against rows only. */
double attention_forward_row_time_s(const struct params *p, const struct attention_shape *a);

/* Variable-length attention inside a pack of n sequences: one launch; the sum of what each sequence costs at its own
 * length and rate. lengths[n]; kv as heads above. */
double attention_varlen_forward_time_s(const struct params *p, bool causal, const uint32_t *lengths, int64_t n,
                                       int64_t heads, int64_t kv_heads, int64_t head_dim);
double attention_varlen_backward_time_s(const struct params *p, bool causal, const uint32_t *lengths, int64_t n,
                                        int64_t heads, int64_t kv_heads, int64_t head_dim);

/* Memory-bound kernels: floor + bytes / achieved bandwidth of the class. */
enum memory_class {
  MEMORY_CONTIGUOUS, /* fused elementwise, norms, copies */
  MEMORY_BROADCAST,  /* modulate, gates: not vectorised */
  MEMORY_PERMUTE,    /* transposing copies */
  MEMORY_REDUCTION,  /* column sums of a backward pass */
  MEMORY_MIXED,      /* operands of different layout */
  MEMORY_OPTIMIZER,  /* multi-tensor AdamW */
  MEMORY_CLASSES
};
double memory_time_s(const struct params *p, enum memory_class class, double bytes);

/* Copy from host memory (pageable unless the parameter file says otherwise), and single-thread host work per byte. */
double host_copy_time_s(const struct params *p, double bytes);

/* The declared in-step scalars of models.md section 6 for a framework class ("fused", "eager", "eager_apex"): compute
 * durations are multiplied by `compute_derate` >= 1; the host issues one kernel every `host_op_s`. */
struct in_step_scalars {
  double compute_derate, host_op_s;
};
struct in_step_scalars params_in_step(const struct params *p, const char *framework);

/* Fraction by which compute slows while a collective runs beside it. */
double params_overlap_slowdown_frac(const struct params *p);

/* The best measured rates of each class at any shape, for the lower bound: FLOP/s, FLOP/s, bytes/s. `head_dim` picks
 * the attention row set. No operation of the functions above ever beats them. */
double best_gemm_flops_per_s(const struct params *p);
double best_attention_forward_flops_per_s(const struct params *p, bool causal, int64_t head_dim);
double best_attention_backward_flops_per_s(const struct params *p, bool causal, int64_t head_dim);
double best_memory_bytes_per_s(const struct params *p);

#endif
