/* swiglu_launch.h: the gated unit of an MLP, forward and backward; see swiglu.cu.
 *
 *   out = silu(gate) up,   silu(x) = x / (1 + exp(-x)). */
#ifndef KERNELS_SWIGLU_LAUNCH_H
#define KERNELS_SWIGLU_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* out, dout: (tokens, width) bf16, contiguous; gate, up, dgate, dup: (tokens, width) with rows `stride` elements apart:
 * width, or 2 width where one GEMM makes both side by side. All 16-byte aligned; width and stride multiples of 8. */
struct swiglu_args {
  const uint16_t *gate, *up;
  uint16_t *out;
  const uint16_t *dout;
  uint16_t *dgate, *dup;
  int64_t tokens, stride;
  int32_t width;
};

LAUNCH_INLINE struct kernel_launch swiglu_launch(const struct swiglu_args *a, const char *kernel) {
  return launch_line(a->width % LAUNCH_VECTOR == 0 && a->stride % LAUNCH_VECTOR == 0 ? kernel : 0, a->tokens, 1,
                     LAUNCH_BLOCKS_MAX, 256);
}
LAUNCH_INLINE struct kernel_launch swiglu_forward_launch(const struct swiglu_args *a) {
  return swiglu_launch(a, "swiglu_forward");
}
LAUNCH_INLINE struct kernel_launch swiglu_backward_launch(const struct swiglu_args *a) {
  return swiglu_launch(a, "swiglu_backward");
}

#endif
