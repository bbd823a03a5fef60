/* gelu_launch.h: the GELU activation, tanh form, forward and backward; see gelu.cu.
 *
 *   out = x/2 (1 + tanh(u)),   u = sqrt(2/pi) (x + 0.044715 x^3). */
#ifndef KERNELS_GELU_LAUNCH_H
#define KERNELS_GELU_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* All (count) bf16, 16-byte aligned; any count. out may be x, dx may be dout. */
struct gelu_args {
  const uint16_t *x;
  uint16_t *out;
  const uint16_t *dout;
  uint16_t *dx;
  int64_t count;
};

LAUNCH_INLINE struct kernel_launch gelu_forward_launch(const struct gelu_args *a) {
  return launch_line("gelu_forward", a->count, 256 * LAUNCH_VECTOR, LAUNCH_BLOCKS_MAX, 256);
}
LAUNCH_INLINE struct kernel_launch gelu_backward_launch(const struct gelu_args *a) {
  return launch_line("gelu_backward", a->count, 256 * LAUNCH_VECTOR, LAUNCH_BLOCKS_MAX, 256);
}

#endif
