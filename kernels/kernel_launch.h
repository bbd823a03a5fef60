/* kernel_launch.h: how a kernel is launched, for C and for CUDA. Each operator X has X_launch.h with
 *   struct X_args        what its kernels take, by value: shapes and device pointers. bf16 values are uint16_t bits.
 *   X_PASS_launch(args)  the launch of one pass for that shape.
 * Each kernel takes exactly one parameter, the struct: cuLaunchKernel(f, grid, block, shared_bytes, stream, {&args}).
 */
#ifndef KERNELS_KERNEL_LAUNCH_H
#define KERNELS_KERNEL_LAUNCH_H
#include <stdint.h>

#ifdef __cplusplus
#define LAUNCH_INLINE constexpr inline /* so that kernels take their tile sizes from the same functions */
#else
#define LAUNCH_INLINE static inline
#endif

/* `kernel`: its extern "C" name; NULL if no kernel takes this shape (the header of the operator says which it takes).
 * A grid with a zero means that there is nothing to do: do not launch. More than 48 KB of `shared_bytes`, all of it
 * dynamic, must be allowed first: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. Blocks are one-dimensional. */
struct kernel_launch {
  const char *kernel;
  unsigned grid[3];
  unsigned block;
  unsigned shared_bytes;
};

enum {
  LAUNCH_BLOCKS_MAX = 132 * 16, /* of a loop over elements: fills an H100 or H200 (132 multiprocessors) */
  LAUNCH_VECTOR = 8,            /* bf16 elements of a 16-byte access */
};

LAUNCH_INLINE int64_t launch_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* A one-dimensional launch of ceil(items / items_per_block) blocks, at most `blocks_max`. */
LAUNCH_INLINE struct kernel_launch launch_line(const char *kernel, int64_t items, int64_t items_per_block,
                                               int64_t blocks_max, unsigned block) {
  int64_t blocks = items > 0 ? launch_ceil_div(items, items_per_block) : 0;
  struct kernel_launch l = {kernel, {(unsigned)(blocks < blocks_max ? blocks : blocks_max), 1, 1}, block, 0};
  return l;
}

/* The launch of each_element of elementwise.cuh over `count` bf16. */
LAUNCH_INLINE struct kernel_launch launch_elements(const char *kernel, int64_t count) {
  return launch_line(kernel, count, 256 * LAUNCH_VECTOR, LAUNCH_BLOCKS_MAX, 256);
}

#endif
