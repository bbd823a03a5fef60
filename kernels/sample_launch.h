/* sample_launch.h: vectors that belong to a sample and meet each of its rows: bias, modulate, gate, forward and
 * backward; see bias.cu, modulate.cu, gate.cu. With b the sample of the row:
 *
 *   bias: y = x + shift;   modulate: y = x (1 + scale_b) + shift_b;   gate: y = residual + scale_b x.
 *
 * Backward: X_backward (dx, and sums over parts of a sample's rows), then sample_sum for each vector's gradient. */
#ifndef KERNELS_SAMPLE_LAUNCH_H
#define KERNELS_SAMPLE_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

enum {
  SAMPLE_COLUMNS = 256,   /* of a block of the backward pass: 8 for each lane of a warp */
  SAMPLE_PARTS_MAX = 128, /* of a sample's rows in the backward pass */
  SAMPLE_BLOCKS = 132 * 8,
  SAMPLE_MAX = 65535, /* samples: the second extent of a grid */
};

/* x, residual, y, dy, dx: (rows, width) bf16; scale, shift: (width) bf16 for sample b from b * stride. All 16-byte
 * aligned, width and stride multiples of 8. cu_rows: (samples + 1) first rows; NULL: all rows are one sample's.
 * dscale_partial, dshift_partial: (sample_parts(rows, samples, width), samples, width) fp32, scratch.
 * bias has no scale, gate no shift, modulate no residual. y may be x or residual; dx may be dy. */
struct sample_args {
  const uint16_t *x, *scale, *shift, *residual;
  uint16_t *y;
  const uint16_t *dy;
  uint16_t *dx;
  float *dscale_partial, *dshift_partial;
  const int32_t *cu_rows;
  int64_t rows, stride;
  int32_t samples, width;
};

/* out[b * stride + c] += sum of partial (parts, samples, width) over parts, always in the same order. fp32. */
struct sample_sum_args {
  const float *partial;
  float *out;
  int64_t stride;
  int32_t parts, samples, width;
};

LAUNCH_INLINE const char *sample_kernel(const struct sample_args *a, const char *kernel) {
  return a->width % LAUNCH_VECTOR == 0 && a->stride % LAUNCH_VECTOR == 0 && a->samples <= SAMPLE_MAX ? kernel : 0;
}

/* A block for every so many rows of each sample. */
LAUNCH_INLINE struct kernel_launch sample_forward_launch(const struct sample_args *a, const char *kernel) {
  struct kernel_launch l =
      launch_line(sample_kernel(a, kernel), a->samples > 0 ? a->rows : 0, 1, LAUNCH_BLOCKS_MAX, 256);
  l.grid[1] = (unsigned)a->samples;
  if (a->samples > 1 && l.grid[0] > 1)
    l.grid[0] = (unsigned)launch_ceil_div(l.grid[0], a->samples);
  return l;
}
LAUNCH_INLINE struct kernel_launch bias_forward_launch(const struct sample_args *a) {
  return sample_forward_launch(a, "bias_forward");
}
LAUNCH_INLINE struct kernel_launch modulate_forward_launch(const struct sample_args *a) {
  return sample_forward_launch(a, "modulate_forward");
}
LAUNCH_INLINE struct kernel_launch gate_forward_launch(const struct sample_args *a) {
  return sample_forward_launch(a, "gate_forward");
}

/* Enough to fill the machine, with at least 64 rows each if all rows were one sample's. */
LAUNCH_INLINE int32_t sample_parts(int64_t rows, int64_t samples, int64_t width) {
  const int64_t blocks = launch_ceil_div(width, SAMPLE_COLUMNS) * samples;
  const int64_t fill = blocks > 0 ? launch_ceil_div(SAMPLE_BLOCKS, blocks) : 1, most = launch_ceil_div(rows, 64);
  const int64_t limit = SAMPLE_PARTS_MAX;
  const int64_t parts = fill < most ? fill : most;
  return (int32_t)(parts < 1 ? 1 : parts < limit ? parts : limit);
}

/* `sums`: vectors whose gradients are summed, through floats in shared memory. */
LAUNCH_INLINE struct kernel_launch sample_backward_launch(const struct sample_args *a, const char *kernel, int sums) {
  struct kernel_launch l =
      launch_line(sample_kernel(a, kernel), a->rows > 0 ? a->width : 0, SAMPLE_COLUMNS, INT32_MAX, 256);
  l.grid[1] = (unsigned)a->samples;
  l.grid[2] = (unsigned)sample_parts(a->rows, a->samples, a->width);
  l.shared_bytes = (unsigned)(sums * (256 / 32) * SAMPLE_COLUMNS * 4);
  return l;
}
LAUNCH_INLINE struct kernel_launch bias_backward_launch(const struct sample_args *a) {
  return sample_backward_launch(a, "bias_backward", 1);
}
LAUNCH_INLINE struct kernel_launch modulate_backward_launch(const struct sample_args *a) {
  return sample_backward_launch(a, "modulate_backward", 2);
}
LAUNCH_INLINE struct kernel_launch gate_backward_launch(const struct sample_args *a) {
  return sample_backward_launch(a, "gate_backward", 1);
}
LAUNCH_INLINE struct kernel_launch sample_sum_launch(const struct sample_sum_args *a) {
  struct kernel_launch l = launch_line("sample_sum", a->width, 256, INT32_MAX, 256);
  l.grid[1] = (unsigned)a->samples;
  return l;
}

#endif
