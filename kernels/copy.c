#include "kernels/copy.h"

#include <string.h>

static int64_t offset(const int64_t stride[3], const int64_t i[3]) {
  return i[0] * stride[0] + i[1] * stride[1] + i[2] * stride[2];
}

void copy_reference(const struct copy_call *call) {
  int64_t i[3];
  for (i[0] = 0; i[0] < call->extent[0]; i[0]++)
    for (i[1] = 0; i[1] < call->extent[1]; i[1]++)
      for (i[2] = 0; i[2] < call->extent[2]; i[2]++)
        for (int64_t j = 0; j < call->width; j++) {
          double *dst = (double *)call->dst + offset(call->dst_stride, i) + j;
          *dst = (call->accumulate ? *dst : 0) + ((const double *)call->src)[offset(call->src_stride, i) + j];
        }
}

void copy_cpu(const struct copy_call *call) {
  int64_t i[3];
  for (i[0] = 0; i[0] < call->extent[0]; i[0]++)
    for (i[1] = 0; i[1] < call->extent[1]; i[1]++)
      for (i[2] = 0; i[2] < call->extent[2]; i[2]++) {
        const float *src = (const float *)call->src + offset(call->src_stride, i);
        float *dst = (float *)call->dst + offset(call->dst_stride, i);
        if (!call->accumulate)
          memcpy(dst, src, (size_t)call->width * sizeof *dst);
        for (int64_t j = 0; call->accumulate && j < call->width; j++)
          dst[j] += src[j];
      }
}
