/* bias.h: one vector for every row. Forward: y = x + bias, y may be x. Backward: dbias += sum over rows of dy. (A
 * linear layer's bias can ride on its GEMM forward; its gradient is this backward.) */
#ifndef KERNELS_BIAS_H
#define KERNELS_BIAS_H
#include <stdint.h>

struct bias_call {
  int64_t rows, width;
  const void *x, *bias; /* elements (rows, width), (width); forward */
  void *y;              /* elements (rows, width); forward */
  const void *dy;       /* elements (rows, width); backward */
  void *dbias;          /* fp32 (width), added to; backward */
};

void bias_forward_reference(const struct bias_call *call);
void bias_backward_reference(const struct bias_call *call);
void bias_forward_cpu(const struct bias_call *call);
void bias_backward_cpu(const struct bias_call *call);

#endif
