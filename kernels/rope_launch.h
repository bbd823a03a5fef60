/* rope_launch.h: rotary position embedding, forward and backward; see rope.cu.
 *
 * With c and s from row positions[token] of cos and sin, and i < head_dim / 2:
 *   y[i] = x[i] c[i] - x[i + head_dim/2] s[i],   y[i + head_dim/2] = x[i + head_dim/2] c[i] + x[i] s[i].
 * Backward turns the other way. */
#ifndef KERNELS_ROPE_LAUNCH_H
#define KERNELS_ROPE_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* x, y: (tokens, heads, head_dim) bf16, 16-byte aligned; y may be x. positions: (tokens), rows of cos and sin, which
 * are (positions, head_dim / 2) fp32, made on the host: angles of late positions need more than fp32. head_dim: a
 * multiple of 8. */
struct rope_args {
  const uint16_t *x;
  uint16_t *y;
  const int32_t *positions;
  const float *cos, *sin;
  int64_t tokens;
  int32_t heads, head_dim;
  int32_t backward; /* 0 or 1 */
};

LAUNCH_INLINE struct kernel_launch rope_launch(const struct rope_args *a) {
  const char *kernel = a->head_dim <= 0 || a->head_dim % 8 != 0 ? 0 : a->head_dim % 16 == 0 ? "rope_by_8" : "rope_by_4";
  return launch_line(kernel, a->tokens, 1, LAUNCH_BLOCKS_MAX, 256);
}

#endif
