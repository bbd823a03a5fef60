/* silu.h: elementwise activation of n elements.
 * Sigmoid-weighted linear unit (the MLP of a DiT timestep): y = x sigmoid(x).
 * Backward: dx = dy sigmoid(x) (1 + x (1 - sigmoid(x))). dx may be dy. */
#ifndef KERNELS_SILU_H
#define KERNELS_SILU_H
#include <stdint.h>

struct silu_call {
  int64_t n;
  const void *x;  /* elements */
  void *y;        /* elements; forward */
  const void *dy; /* elements; backward */
  void *dx;       /* elements, overwritten; backward */
};

void silu_forward_reference(const struct silu_call *call);
void silu_backward_reference(const struct silu_call *call);
void silu_forward_cpu(const struct silu_call *call);
void silu_backward_cpu(const struct silu_call *call);

#endif
