/* sum_squares.h: *sum += sum of x^2 over n fp32 numbers: the gradient norm, part by part. */
#ifndef KERNELS_SUM_SQUARES_H
#define KERNELS_SUM_SQUARES_H
#include <stdint.h>

struct sum_squares_call {
  int64_t n;
  const void *x; /* fp32 (n) */
  void *sum;     /* fp32 (1), added to */
};

void sum_squares_reference(const struct sum_squares_call *call);
void sum_squares_cpu(const struct sum_squares_call *call);

#endif
