/* shim.h: enough of CUDA to run the kernels of kernels/ on a CPU, with g++ or clang++ and no CUDA toolkit:
 *   g++ -x c++ -std=c++17 -I. -include tests/cuda_shim/shim.h kernels/X.cu ...
 * Blocks run one by one; the threads of a block are fibers on one CPU thread, and each runs until it must meet others:
 * __syncthreads meets the block, the warp-wide operations meet the warp. What it is built to find:
 * - a missing barrier: shared memory is NaN when a block starts, a cp.async leaves NaN at its destination until the
 * wait that covers it, and three thread orders let warps run ahead of each other;
 * - a barrier or warp operation that not all threads reach, or reach at different lines: an error;
 * - a read or write outside shared or global memory, in a build with AddressSanitizer;
 * - ldmatrix with two rows of one matrix in the same banks: counted;
 * - reads or writes of global memory by more than one block in an order that matters: blocks run in three orders, too.
 * It does not know TMA, mbarrier, the fences of wgmma, more than one block at a time, or how the hardware rounds inside
 * an mma (here: exact products, summed in fp32 in order of k). Nor does it say anything about speed. */
#ifndef CUDA_SHIM_H
#define CUDA_SHIM_H
#define CUDA_SHIM
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernel_launch.h"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__ __restrict

struct shim_index {
  unsigned x, y, z;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(8) uint2 {
  unsigned x, y;
};

enum shim_order { SHIM_ASCENDING, SHIM_DESCENDING, SHIM_RANDOM, SHIM_ORDERS };

/* Runs a kernel on a grid. NULL, or what went wrong (a static string). */
const char *shim_run(const struct kernel_launch *launch, void (*body)(const void *), const void *body_data,
                     enum shim_order order);

template <class A>
static const char *shim_launch(void (*kernel)(A), const struct kernel_launch &launch, const A &args,
                               enum shim_order order) {
  struct call {
    void (*kernel)(A);
    const A *args;
  } data = {kernel, &args};
  return shim_run(
      &launch,
      [](const void *p) {
        const call *c = (const call *)p;
        c->kernel(*c->args);
      },
      &data, order);
}

/* Barriers by line, for tests that drop them one at a time: all that were met since the program started, and the one
 * to ignore (-1: none). */
struct shim_barrier {
  const char *file;
  int line;
};
enum { SHIM_BARRIERS_MAX = 64 };
extern struct shim_barrier shim_barriers[SHIM_BARRIERS_MAX];
extern int shim_barriers_count, shim_barrier_dropped;

extern int shim_wait_slack; /* groups of copies by which every cp_async_wait waits too little: 0, or 1 in a test */
extern long shim_waits;     /* calls of cp_async_wait */

extern long shim_bank_conflicts; /* ldmatrix: rows that had to wait for another row of their matrix */

/* ---- What kernels see ------------------------------------------------------------------------------------------ */

extern shim_index blockIdx, blockDim, gridDim;
const shim_index *shim_thread();
#define threadIdx (*shim_thread())

void shim_meet_block(const char *file, int line);
/* All lanes of the warp meet; the last one calls `all` with the operands of the 32 lanes. */
void shim_meet_warp(void (*all)(void *const *lanes), void *operands, const char *file, int line);
void shim_copy_async(void *to, const void *from, unsigned bytes, bool valid);
void shim_copy_commit();
void shim_copy_wait(int pending);
void shim_mma(void *const *lanes);
void shim_ldmatrix(void *const *lanes);
void shim_shuffle(void *const *lanes);
void shim_nothing(void *const *lanes);
char *shared_memory();

#define SHIM_AT const char *file = __builtin_FILE(), int line = __builtin_LINE()
inline void __syncthreads(SHIM_AT) { shim_meet_block(file, line); }
void __syncwarp(SHIM_AT);

using shared_address = uintptr_t;
inline shared_address shared_address_of(const void *p) { return (shared_address)p; }

inline float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
inline uint32_t shim_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x)
    return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
inline uint32_t bf16_pack(float low, float high) { return shim_bf16(high) << 16 | shim_bf16(low); }
inline float exp2_fast(float x) {
  float y = exp2f(x);
  return y < 1.17549435e-38f ? 0 : y;
}
inline float reciprocal_fast(float x) { return 1 / x; }
inline float rsqrtf(float x) { return 1 / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float atomicAdd(float *p, float x) {
  float old = *p;
  *p += x;
  return old;
}

struct shim_shuffle_lane {
  float x, *out;
  int mask;
};
inline float shuffle_xor(float x, int mask, SHIM_AT) {
  float out;
  struct shim_shuffle_lane lane = {x, &out, mask};
  shim_meet_warp(shim_shuffle, &lane, file, line);
  return out;
}

struct shim_mma_lane {
  float *c;
  const uint32_t *a;
  uint32_t b[2];
};
inline void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, SHIM_AT) {
  struct shim_mma_lane lane = {c, a, {b0, b1}};
  shim_meet_warp(shim_mma, &lane, file, line);
}

struct shim_ldmatrix_lane {
  uint32_t *r;
  const char *row;
  bool transposed;
};
inline void ldmatrix(uint32_t (&r)[4], shared_address row, SHIM_AT) {
  struct shim_ldmatrix_lane lane = {r, (const char *)row, false};
  shim_meet_warp(shim_ldmatrix, &lane, file, line);
}
inline void ldmatrix_transposed(uint32_t (&r)[4], shared_address row, SHIM_AT) {
  struct shim_ldmatrix_lane lane = {r, (const char *)row, true};
  shim_meet_warp(shim_ldmatrix, &lane, file, line);
}

/* A factor of wgmma by the offsets of its descriptor, 128-byte swizzle. `transposed`: its rows are rows of slabs. */
struct wgmma_factor {
  const char *start;
  int leading_bytes, stride_bytes;
  bool transposed;
};
inline struct wgmma_factor wgmma_rows(shared_address start) { return {(const char *)start, 16, 1024, false}; }
inline struct wgmma_factor wgmma_transposed(shared_address start, int slab_bytes) {
  return {(const char *)start, slab_bytes, 1024, true};
}
struct shim_wgmma_lane {
  float *c;
  int columns;
  const uint32_t *a_registers; // or, where these are null,
  struct wgmma_factor a, b;
};
void shim_wgmma(void *const *lanes);
/* As shim_meet_warp, for the four warps of a warpgroup. */
void shim_meet_warpgroup(void (*all)(void *const *lanes), void *operands, const char *file, int line);
template <int N> inline void wgmma_product(float (&c)[N][4], struct wgmma_factor a, struct wgmma_factor b, SHIM_AT) {
  struct shim_wgmma_lane lane = {c[0], 8 * N, nullptr, a, b};
  shim_meet_warpgroup(shim_wgmma, &lane, file, line);
}
template <int N>
inline void wgmma_transposed_product(float (&c)[N][4], const uint32_t (&a)[4], struct wgmma_factor b, SHIM_AT) {
  struct shim_wgmma_lane lane = {c[0], 8 * N, a, {}, b};
  shim_meet_warpgroup(shim_wgmma, &lane, file, line);
}
inline void wgmma_fence_shared() {} // products are done at once here: their fences and waits are not tested
inline void wgmma_fence() {}
inline void wgmma_finish() {}

inline void cp_async_16(shared_address to, const void *from, bool valid) {
  shim_copy_async((void *)to, from, 16, valid);
}
inline void cp_async_4(shared_address to, const void *from, bool valid) { shim_copy_async((void *)to, from, 4, valid); }
inline void cp_async_commit() { shim_copy_commit(); }
template <int PENDING> inline void cp_async_wait() { shim_copy_wait(PENDING); }

#endif
