/* cross_entropy_launch.h: the loss of each token and its gradient; see cross_entropy.cu.
 *
 *   loss = lse - logits[target],   dlogits = scale (exp(logits - lse) - [i == target]),   lse = log sum exp(logits). */
#ifndef KERNELS_CROSS_ENTROPY_LAUNCH_H
#define KERNELS_CROSS_ENTROPY_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* logits, dlogits: (tokens, vocabulary) bf16, 16-byte aligned, vocabulary a multiple of 8; dlogits may be logits.
 * targets: (tokens), negative: the token does not count, its loss and gradient are 0. loss, lse: (tokens) fp32. */
struct cross_entropy_args {
  const uint16_t *logits;
  const int32_t *targets;
  float *loss, *lse;
  uint16_t *dlogits;
  int64_t tokens;
  int32_t vocabulary;
  float scale; /* usually 1 / tokens that count */
};

enum { CROSS_ENTROPY_THREADS = 512 };

LAUNCH_INLINE struct kernel_launch cross_entropy_launch(const struct cross_entropy_args *a, const char *kernel) {
  return launch_line(a->vocabulary > 0 && a->vocabulary % LAUNCH_VECTOR == 0 ? kernel : 0, a->tokens, 1, INT32_MAX,
                     CROSS_ENTROPY_THREADS);
}
LAUNCH_INLINE struct kernel_launch cross_entropy_forward_launch(const struct cross_entropy_args *a) {
  struct kernel_launch l = cross_entropy_launch(a, "cross_entropy_forward");
  l.shared_bytes = CROSS_ENTROPY_THREADS / 32 * 2 * 4;
  return l;
}
LAUNCH_INLINE struct kernel_launch cross_entropy_backward_launch(const struct cross_entropy_args *a) {
  return cross_entropy_launch(a, "cross_entropy_backward");
}

#endif
