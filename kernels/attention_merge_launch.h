/* attention_merge_launch.h: the attention over two disjoint sets of keys from the attention over each, in place of the
 * first; see attention_merge.cu.
 *
 *   lse = log(exp(lse_a) + exp(lse_b)),   out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b. */
#ifndef KERNELS_ATTENTION_MERGE_LAUNCH_H
#define KERNELS_ATTENTION_MERGE_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* out_a, out_b: (tokens, heads, head_dim) bf16, 16-byte aligned, head_dim a multiple of 8; lse_a, lse_b: (heads,
 * tokens) fp32. Where both lse are -inf nothing changes. */
struct attention_merge_args {
  uint16_t *out_a;
  float *lse_a;
  const uint16_t *out_b;
  const float *lse_b;
  int64_t tokens;
  int32_t heads, head_dim;
};

enum { ATTENTION_MERGE_TOKENS = 8 }; /* of a block */

LAUNCH_INLINE struct kernel_launch attention_merge_launch(const struct attention_merge_args *a) {
  struct kernel_launch l = launch_line(a->head_dim % LAUNCH_VECTOR == 0 ? "attention_merge" : 0, a->tokens,
                                       ATTENTION_MERGE_TOKENS, INT32_MAX, 32 * ATTENTION_MERGE_TOKENS);
  l.grid[1] = (unsigned)a->heads;
  return l;
}

#endif
