/* clear.h: zeroes n fp32 numbers (gradients before a step, sums before a reduction). */
#ifndef KERNELS_CLEAR_H
#define KERNELS_CLEAR_H
#include <stdint.h>

struct clear_call {
  int64_t n;
  void *x; /* fp32 (n) */
};

void clear_reference(const struct clear_call *call);
void clear_cpu(const struct clear_call *call);

#endif
