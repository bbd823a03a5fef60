/* squared_error_launch.h: a row's squared distance from its target, and the gradient; see squared_error.cu.
 *
 *   loss = sum of (x - target)^2,   dx = 2 scale (x - target). */
#ifndef KERNELS_SQUARED_ERROR_LAUNCH_H
#define KERNELS_SQUARED_ERROR_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* x, target, dx: (rows, width) bf16, 16-byte aligned, width a multiple of 8; dx may be x. loss: (rows) fp32. */
struct squared_error_args {
  const uint16_t *x, *target;
  float *loss;
  uint16_t *dx;
  int64_t rows;
  int32_t width;
  float scale;
};

LAUNCH_INLINE struct kernel_launch squared_error_launch(const struct squared_error_args *a) {
  return launch_line(a->width % LAUNCH_VECTOR == 0 ? "squared_error" : 0, a->rows, 256 / 32, LAUNCH_BLOCKS_MAX, 256);
}

#endif
