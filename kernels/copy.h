/* copy.h: strided copy of elements: packing and unpacking of exchanges, transposition between frames and positions,
 * splitting and joining of q, k, v.
 *   dst[i0 dst_stride0 + i1 dst_stride1 + i2 dst_stride2 + j] = src[likewise],  i < extent, j < width
 * Strides are in elements. A source stride of 0 repeats (key heads for every rank); `accumulate` adds to dst, its
 * backward, one call per repeat. Source and destination must not overlap, and no destination be written twice. */
#ifndef KERNELS_COPY_H
#define KERNELS_COPY_H
#include <stdbool.h>
#include <stdint.h>

struct copy_call {
  int64_t extent[3], width;
  int64_t src_stride[3], dst_stride[3];
  bool accumulate;
  const void *src; /* elements */
  void *dst;       /* elements */
};

void copy_reference(const struct copy_call *call);
void copy_cpu(const struct copy_call *call);

#endif
