/* optimizer_launch.h: one step of an optimizer over a flat shard of parameters; see adamw.cu and sgd.cu.
 *
 * With g = gradient_scale gradient, at step t from 1:
 *   adamw: m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2,
 *          master = master (1 - rate decay) - rate (m / correction1) / (sqrt(v / correction2) + epsilon),
 *          correction1 = 1 - beta1^t, correction2 = 1 - beta2^t;
 *   sgd:   m = momentum m + g + decay master,   master = master - rate m;
 * then weight = master, rounded. */
#ifndef KERNELS_OPTIMIZER_LAUNCH_H
#define KERNELS_OPTIMIZER_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* master, m, v: (count) fp32, updated in place; weight: (count) bf16, written; gradient: (count), fp32 if
 * `gradient_is_fp32`, else bf16. All 16-byte aligned; any count. sgd uses no v. `momentum` is beta1. */
struct optimizer_args {
  float *master, *m, *v;
  uint16_t *weight;
  const void *gradient;
  int64_t count;
  int32_t gradient_is_fp32; /* 0 or 1 */
  float rate, beta1, beta2, epsilon, decay;
  float correction1, correction2;
  float gradient_scale;
};

LAUNCH_INLINE struct kernel_launch adamw_launch(const struct optimizer_args *a) {
  return launch_line(a->gradient_is_fp32 ? "adamw_of_fp32" : "adamw_of_bf16", a->count, 256 * 4, LAUNCH_BLOCKS_MAX,
                     256);
}
LAUNCH_INLINE struct kernel_launch sgd_launch(const struct optimizer_args *a) {
  return launch_line(a->gradient_is_fp32 ? "sgd_of_fp32" : "sgd_of_bf16", a->count, 256 * 4, LAUNCH_BLOCKS_MAX, 256);
}

#endif
