/* squared_error.h: the loss of a DiT: loss_i = sum over the row of (x - target)^2; dx = 2 scale (x - target). Forward
 * and backward at once: the prediction is read once. dx may be x. */
#ifndef KERNELS_SQUARED_ERROR_H
#define KERNELS_SQUARED_ERROR_H
#include <stdint.h>

struct squared_error_call {
  int64_t rows, width;
  const void *x, *target; /* elements (rows, width) */
  float scale;
  void *loss; /* fp32 (rows) */
  void *dx;   /* elements (rows, width), overwritten */
};

void squared_error_reference(const struct squared_error_call *call);
void squared_error_cpu(const struct squared_error_call *call);

#endif
