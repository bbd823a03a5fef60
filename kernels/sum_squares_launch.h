/* sum_squares_launch.h: the sum of the squares of fp32 numbers, always in the same order; see sum_squares.cu. Passes:
 * sum_squares (a sum per block), sum_squares_total (added to what `sum` holds). */
#ifndef KERNELS_SUM_SQUARES_LAUNCH_H
#define KERNELS_SUM_SQUARES_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

enum { SUM_SQUARES_BLOCKS_MAX = 132 * 8 };

/* x: (count) fp32, 16-byte aligned; any count. partial: (sum_squares_blocks(count)) fp32, scratch; sum: (1) fp32. */
struct sum_squares_args {
  const float *x;
  float *partial, *sum;
  int64_t count;
};

LAUNCH_INLINE struct kernel_launch sum_squares_launch(const struct sum_squares_args *a) {
  struct kernel_launch l = launch_line("sum_squares", a->count, 256 * 4, SUM_SQUARES_BLOCKS_MAX, 256);
  l.shared_bytes = 256 / 32 * 4;
  return l;
}
LAUNCH_INLINE int32_t sum_squares_blocks(int64_t count) {
  const struct sum_squares_args a = {0, 0, 0, count};
  return (int32_t)sum_squares_launch(&a).grid[0];
}
LAUNCH_INLINE struct kernel_launch sum_squares_total_launch(const struct sum_squares_args *a) {
  struct kernel_launch l = launch_line("sum_squares_total", a->count > 0, 1, 1, 256);
  l.shared_bytes = 256 / 32 * 4;
  return l;
}

#endif
