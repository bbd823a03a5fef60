/* gelu.h: elementwise activation of n elements.
 * Gaussian error linear unit in its tanh form:
 *   y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
 * Backward: dx = dy (1/2 (1 + tanh u) + x/2 (1 - tanh^2 u) sqrt(2/pi) (1 + 3 * 0.044715 x^2)). dx may be dy. */
#ifndef KERNELS_GELU_H
#define KERNELS_GELU_H
#include <stdint.h>

struct gelu_call {
  int64_t n;
  const void *x;  /* elements */
  void *y;        /* elements; forward */
  const void *dy; /* elements; backward */
  void *dx;       /* elements, overwritten; backward */
};

void gelu_forward_reference(const struct gelu_call *call);
void gelu_backward_reference(const struct gelu_call *call);
void gelu_forward_cpu(const struct gelu_call *call);
void gelu_backward_cpu(const struct gelu_call *call);

#endif
