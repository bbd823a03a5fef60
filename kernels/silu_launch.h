/* silu_launch.h: the SiLU activation, forward and backward; see silu.cu.
 *
 *   out = x sigmoid(x),   dx = dout sigmoid(x) (1 + x (1 - sigmoid(x))). */
#ifndef KERNELS_SILU_LAUNCH_H
#define KERNELS_SILU_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* All (count) bf16, 16-byte aligned; any count. out may be x, dx may be dout. */
struct silu_args {
  const uint16_t *x;
  uint16_t *out;
  const uint16_t *dout;
  uint16_t *dx;
  int64_t count;
};

LAUNCH_INLINE struct kernel_launch silu_forward_launch(const struct silu_args *a) {
  return launch_line("silu_forward", a->count, 256 * LAUNCH_VECTOR, LAUNCH_BLOCKS_MAX, 256);
}
LAUNCH_INLINE struct kernel_launch silu_backward_launch(const struct silu_args *a) {
  return launch_line("silu_backward", a->count, 256 * LAUNCH_VECTOR, LAUNCH_BLOCKS_MAX, 256);
}

#endif
