/* activation_launch.h: activations, forward and backward; see gelu.cu and silu.cu.
 *
 *   GELU, tanh form: out = x/2 (1 + tanh(u)),   u = sqrt(2/pi) (x + 0.044715 x^3)
 *   SiLU:            out = x sigmoid(x),        dx = dout sigmoid(x) (1 + x (1 - sigmoid(x))) */
#ifndef KERNELS_ACTIVATION_LAUNCH_H
#define KERNELS_ACTIVATION_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* All (count) bf16, 16-byte aligned; any count. out may be x, dx may be dout. */
struct activation_args {
  const uint16_t *x;
  uint16_t *out;
  const uint16_t *dout;
  uint16_t *dx;
  int64_t count;
};

LAUNCH_INLINE struct kernel_launch gelu_forward_launch(const struct activation_args *a) {
  return launch_elements("gelu_forward", a->count);
}
LAUNCH_INLINE struct kernel_launch gelu_backward_launch(const struct activation_args *a) {
  return launch_elements("gelu_backward", a->count);
}
LAUNCH_INLINE struct kernel_launch silu_forward_launch(const struct activation_args *a) {
  return launch_elements("silu_forward", a->count);
}
LAUNCH_INLINE struct kernel_launch silu_backward_launch(const struct activation_args *a) {
  return launch_elements("silu_backward", a->count);
}

#endif
