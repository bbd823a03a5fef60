/* operation.h: seconds that one kernel takes on one GPU, from measured rows (see models.md section 3 for the demands:
 * fixed floor for tiny shapes, FLOP-bound for large ones, tile and wave quantisation between, monotone in work).
 * All functions are pure, take under 200 ns, and return seconds > 0 for non-empty work and 0 for empty work.
 * Head dims and lengths outside the measured range are handled by rate (saturated side) and never fail. */
#ifndef MODELS_OPERATION_H
#define MODELS_OPERATION_H
#include <stdbool.h>
#include <stdint.h>

#include "models/params.h"

/* How GEMM and attention times are made. A table of log time over the logs of the shape is interpolated linearly; its
 * nodes rise along every axis, so time rises with work. Below the first node of an axis time stays (a floor of 2.5 us
 * for GEMM, 6 to 9 us for attention); above the last it grows in proportion to the axis, the saturated rate.
 * `calibrate fit` makes the tables from measured rows (cuBLASLt through torch linear; FlashAttention 3): a formula of
 * the kernels' tiles and waves over 132 SMs, fitted on relative errors, and a correction of what the rows say beyond it
 * (calib/fit_gemm.c, calib/fit_attention.c); nodes stand on both sides of the steps. GEMM: m 1..32768, n 32..65536,
 * k 32..65536. Attention: keys per sequence 1..16384 causal (head dims 64, 128, 256) and 1..65536 full (64, 72, 80; 128
 * and 256 derived from the causal rows); other head dims interpolated, log time in log dim. Error on values that a fit
 * has not seen, median and 90th percentile, H200: `dcpsim calibrate check --leave-out n --params h200_sxm ROWS` and so
 * on for m, k, seqlen, batch, heads; the figures are in calib/data/README.md. */

/* bf16 GEMM (m x k) * (k x n). `wgrad`: a weight gradient, which runs a little below a forward GEMM of the same shape.
 */
double gemm_time_s(const struct params *p, int64_t m, int64_t n, int64_t k);
double gemm_wgrad_time_s(const struct params *p, int64_t m, int64_t n, int64_t k);
/* False where a dimension is less than half the smallest measured one: the time is then that of the smallest. */
bool gemm_is_measured(const struct params *p, int64_t m, int64_t n, int64_t k);

/* Flash attention of `batch` sequences with q_len queries on kv_len keys (causal only with q_len == kv_len). Time is
 * looked up at kv_len keys and batch * kv_heads * ceil(q_len * heads/kv_heads / tile_rows) query tiles (a tile that is
 * not full counts less); 4, 8 or 16 query heads on a key head run faster, as measured, forward only. Backward =
 * forward times a ratio by kv_len (3.6 at 512 keys, 3.1 at 2k, 2.9 to 3.0 from 8k; cuDNN pairs on H200 and H100), made
 * to rise likewise. Against cuDNN on H200 (head dim 128, 2k..32k): forward +3..+22 %, backward +3..+22 %: that library
 * is newer and faster. */
struct attention_shape {
  bool causal;
  int64_t batch, q_len, kv_len, heads, kv_heads, head_dim;
};
double attention_forward_time_s(const struct params *p, const struct attention_shape *a);
double attention_backward_time_s(const struct params *p, const struct attention_shape *a);

/* What the shipped rows measured for this shape: the forward kernel and, in the causal rows (a serving build), the
 * write of K and V into a paged cache and a slower kernel where a single sequence would be split over SMs, neither of
 * which training has. For checks against rows only. */
double attention_forward_row_time_s(const struct params *p, const struct attention_shape *a);

/* Variable-length attention inside a pack of n sequences: one launch; the sum of what each sequence costs at its own
 * length and rate. lengths[n]; kv as heads above. Each sequence costs its share of the pack's query tiles, times what a
 * batch of its length with as many tiles as the pack costs: its own rate at the pack's occupancy, the launch floor
 * once. Equal lengths cost exactly what the batch costs; never less than the longest sequence alone. */
double attention_varlen_forward_time_s(const struct params *p, bool causal, const uint32_t *lengths, int64_t n,
                                       int64_t heads, int64_t kv_heads, int64_t head_dim);
double attention_varlen_backward_time_s(const struct params *p, bool causal, const uint32_t *lengths, int64_t n,
                                        int64_t heads, int64_t kv_heads, int64_t head_dim);

/* Memory-bound kernels: floor + bytes / achieved bandwidth of the class. The class is what the access pattern reaches,
 * whoever wrote the kernel; which class a pass belongs to is the framework's business (framework.h). */
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
