/* attention_merge.h: the attention over two disjoint sets of keys from the attention over each (a ring's blocks):
 *   lse = log(exp(lse_a) + exp(lse_b)),  out = exp(lse_a - lse) out_a + exp(lse_b - lse) out_b,
 * in place of a. A query that saw no keys (lse -infinity) contributes nothing. */
#ifndef KERNELS_ATTENTION_MERGE_H
#define KERNELS_ATTENTION_MERGE_H
#include <stdint.h>

struct attention_merge_call {
  int64_t rows, heads, head_dim;
  void *out_a; /* elements (rows, heads, head_dim), read and written */
  void *lse_a; /* fp32 (heads, rows), read and written */
  const void *out_b, *lse_b;
};

void attention_merge_reference(const struct attention_merge_call *call);
void attention_merge_cpu(const struct attention_merge_call *call);

#endif
