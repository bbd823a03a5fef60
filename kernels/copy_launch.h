/* copy_launch.h: a copy within device memory; see copy.cu. */
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

#endif
