/* norm_launch.h: normalisation of rows, forward and backward; see rmsnorm.cu and layernorm.cu.
 *
 *   rmsnorm:   y = x rstd weight,                rstd = 1 / sqrt(mean(x^2) + epsilon)
 *   layernorm: y = (x - mean) rstd weight + bias, rstd = 1 / sqrt(mean((x - mean)^2) + epsilon)
 *
 * Backward: X_backward (dx and a part of the weight gradients per block), then column_sum. */
#ifndef KERNELS_NORM_LAUNCH_H
#define KERNELS_NORM_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

enum {
  NORM_THREADS = 256,
  NORM_HIDDEN_MAX = 16384,
  NORM_BLOCKS_MAX = 132 * 2, /* of the backward pass: each writes one row of the partial sums */
  COLUMN_SUM_COLUMNS = 32,   /* of a block */
};

/* x, y, dy, dx: (tokens, hidden) bf16, 16-byte aligned; weight, bias: (hidden) bf16; mean, rstd: (tokens) fp32.
 * dweight, dbias: (hidden) fp32; dweight_partial, dbias_partial: (norm_partial_rows(tokens), hidden) fp32, scratch.
 * hidden: a multiple of 8, up to NORM_HIDDEN_MAX. rmsnorm uses no bias, mean, dbias, dbias_partial. y may be x, dx may
 * be dy. */
struct norm_args {
  const uint16_t *x, *weight, *bias;
  uint16_t *y;
  float *mean, *rstd;
  const uint16_t *dy;
  uint16_t *dx;
  float *dweight_partial, *dbias_partial;
  int64_t tokens;
  int32_t hidden;
  float epsilon;
};

/* out (columns) = sum over rows of partial (rows, columns), always in the same order. */
struct column_sum_args {
  const float *partial;
  float *out;
  int32_t rows, columns;
};

LAUNCH_INLINE int32_t norm_partial_rows(int64_t tokens) {
  return tokens < NORM_BLOCKS_MAX ? (int32_t)tokens : NORM_BLOCKS_MAX;
}

LAUNCH_INLINE const char *norm_kernel(const struct norm_args *a, const char *kernel) {
  return a->hidden > 0 && a->hidden <= NORM_HIDDEN_MAX && a->hidden % LAUNCH_VECTOR == 0 ? kernel : 0;
}

/* `bytes` of shared memory per column, and `sums` floats a warp for block-wide sums. */
LAUNCH_INLINE struct kernel_launch norm_launch(const struct norm_args *a, const char *kernel, int64_t blocks_max,
                                               int bytes, int sums) {
  struct kernel_launch l = launch_line(norm_kernel(a, kernel), a->tokens, 1, blocks_max, NORM_THREADS);
  l.shared_bytes = (unsigned)(a->hidden * bytes + sums * (NORM_THREADS / 32) * 4);
  return l;
}

LAUNCH_INLINE struct kernel_launch rmsnorm_forward_launch(const struct norm_args *a) {
  return norm_launch(a, "rmsnorm_forward", INT32_MAX, 2, 1);
}
LAUNCH_INLINE struct kernel_launch rmsnorm_backward_launch(const struct norm_args *a) {
  return norm_launch(a, "rmsnorm_backward", NORM_BLOCKS_MAX, 2 + 2 + 4, 2);
}
LAUNCH_INLINE struct kernel_launch layernorm_forward_launch(const struct norm_args *a) {
  return norm_launch(a, "layernorm_forward", INT32_MAX, 2, 2);
}
LAUNCH_INLINE struct kernel_launch layernorm_backward_launch(const struct norm_args *a) {
  return norm_launch(a, "layernorm_backward", NORM_BLOCKS_MAX, 2 + 2 + 4 + 4, 4);
}
LAUNCH_INLINE struct kernel_launch column_sum_launch(const struct column_sum_args *a) {
  struct kernel_launch l = launch_line("column_sum", a->columns, COLUMN_SUM_COLUMNS, INT32_MAX, 256);
  l.shared_bytes = 256 * 4;
  return l;
}

#endif
