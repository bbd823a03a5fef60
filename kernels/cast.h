/* cast.h: between fp32 and elements, with a factor: dst = scale src for n numbers (gradients before and after a
 * reduction in elements, gradients of per-sample vectors, weights from their master). Where elements are fp32, dst may
 * be src. */
#ifndef KERNELS_CAST_H
#define KERNELS_CAST_H
#include <stdbool.h>
#include <stdint.h>

struct cast_call {
  int64_t n;
  bool to_fp32; /* src elements, dst fp32; else the other way */
  float scale;
  const void *src;
  void *dst;
};

void cast_reference(const struct cast_call *call);
void cast_cpu(const struct cast_call *call);

#endif
