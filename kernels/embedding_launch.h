/* embedding_launch.h: rows of a table by token id, forward and backward; see embedding.cu.
 *
 *   embedding_gather: out[t] = table[ids[t]], 0 where the id is negative;
 *   embedding_scatter: dtable[ids[t]] += dout[t], nothing where it is negative. */
#ifndef KERNELS_EMBEDDING_LAUNCH_H
#define KERNELS_EMBEDDING_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* table: (vocabulary, hidden) bf16; ids: (tokens); out, dout: (tokens, hidden) bf16; dtable: (vocabulary, hidden) fp32,
 * which the caller clears. 16-byte aligned, hidden a multiple of 8. The scatter adds with atomics: a row that several
 * tokens share is summed in any order, and its last bits may differ between runs. */
struct embedding_args {
  const uint16_t *table;
  const int32_t *ids;
  uint16_t *out;
  const uint16_t *dout;
  float *dtable;
  int64_t tokens;
  int32_t hidden;
};

LAUNCH_INLINE struct kernel_launch embedding_launch(const struct embedding_args *a, const char *kernel) {
  return launch_line(a->hidden % LAUNCH_VECTOR == 0 ? kernel : 0, a->tokens, 1, LAUNCH_BLOCKS_MAX, 256);
}
LAUNCH_INLINE struct kernel_launch embedding_gather_launch(const struct embedding_args *a) {
  return embedding_launch(a, "embedding_gather");
}
LAUNCH_INLINE struct kernel_launch embedding_scatter_launch(const struct embedding_args *a) {
  return embedding_launch(a, "embedding_scatter");
}

#endif
