/* copy_launch.h: copies within device memory, of bytes in one run and of elements by strides; see copy.cu. */
#ifndef KERNELS_COPY_LAUNCH_H
#define KERNELS_COPY_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* 16-byte aligned, not overlapping; any number of bytes. */
struct copy_args {
  const void *from;
  void *to;
  int64_t bytes;
};

LAUNCH_INLINE struct kernel_launch copy_launch(const struct copy_args *a) {
  return launch_line("copy", a->bytes, 256 * 4 * 16, LAUNCH_BLOCKS_MAX, 256);
}

/* to[i . to_stride + j] = from[i . from_stride + j] for i < extent, j < width, in bf16; `accumulate`: added to what was
 * there. vector: elements of an access, 8 where width, strides and both addresses are multiples of 8 elements, else 1.
 * Up to 2^31 - 1 accesses. */
struct copy_strided_args {
  const uint16_t *from;
  uint16_t *to;
  int64_t from_stride[3], to_stride[3];
  int64_t extent[3], width;
  int32_t vector;
  int32_t accumulate; /* 0 or 1 */
};

LAUNCH_INLINE int64_t copy_strided_accesses(const struct copy_strided_args *a) {
  return a->extent[0] * a->extent[1] * a->extent[2] * (a->width / a->vector);
}
LAUNCH_INLINE struct kernel_launch copy_strided_launch(const struct copy_strided_args *a) {
  const int64_t accesses = copy_strided_accesses(a);
  const char *kernel = accesses > INT32_MAX ? 0 : a->vector == 8 ? "copy_strided_by_8" : "copy_strided_by_1";
  return launch_line(kernel, accesses, 256, LAUNCH_BLOCKS_MAX, 256);
}

#endif
