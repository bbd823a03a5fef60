/* residual.h: y = a + b, elementwise: the residual connection, and where gradients of two branches meet (its own
 * backward is the identity). y may be a or b. */
#ifndef KERNELS_RESIDUAL_H
#define KERNELS_RESIDUAL_H
#include <stdint.h>

struct residual_call {
  int64_t n;
  const void *a, *b; /* elements (n) */
  void *y;           /* elements (n) */
};

void residual_reference(const struct residual_call *call);
void residual_cpu(const struct residual_call *call);

#endif
