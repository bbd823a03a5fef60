/* cast_launch.h: between bf16 and fp32, with a factor: to = scale from; see cast.cu. */
#ifndef KERNELS_CAST_LAUNCH_H
#define KERNELS_CAST_LAUNCH_H
#include <stdbool.h>
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* from, to: (count), one bf16 and the other fp32, 16-byte aligned, not overlapping; any count. */
struct cast_args {
  const void *from;
  void *to;
  int64_t count;
  float scale;
};

LAUNCH_INLINE struct kernel_launch cast_launch(const struct cast_args *a, bool to_fp32) {
  return launch_line(to_fp32 ? "cast_to_fp32" : "cast_to_bf16", a->count, 256 * 4, LAUNCH_BLOCKS_MAX, 256);
}

#endif
