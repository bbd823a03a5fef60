/* residual_add_launch.h: out = a + b, for residual streams and for gradients that meet; see residual_add.cu. Its
 * backward pass is nothing: both sides share the gradient of out. */
#ifndef KERNELS_RESIDUAL_ADD_LAUNCH_H
#define KERNELS_RESIDUAL_ADD_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* All (count) bf16, 16-byte aligned; any count. out may be a or b. */
struct residual_add_args {
  const uint16_t *a, *b;
  uint16_t *out;
  int64_t count;
};

LAUNCH_INLINE struct kernel_launch residual_add_launch(const struct residual_add_args *a) {
  return launch_elements("residual_add", a->count);
}

#endif
