/* wgmma.cuh: products of a warpgroup on the tensor cores of sm_90a, from shared memory; see intrinsics.cuh for the
 * twins.
 *
 * A slab is rows of 64 bf16, 128 bytes, whose chunk c of 16 bytes lies at c ^ (row % 8): the 128-byte swizzle. Slabs
 * begin at multiples of 1024 bytes. Four consecutive warps, from a warp that is a multiple of 4, work together; warp w
 * of them holds rows 16 w to 16 w + 15 of a result, laid out as in mma_16x8x16. */
#ifndef KERNELS_WGMMA_CUH
#define KERNELS_WGMMA_CUH
#include "kernels/intrinsics.cuh"

#ifdef __CUDACC__

/* Where a factor lies. */
using wgmma_factor = uint64_t;

static __device__ __forceinline__ uint64_t wgmma_descriptor(shared_address start, int leading_bytes, int stride_bytes) {
  return (uint64_t)(start >> 4 & 0x3fff) | (uint64_t)(leading_bytes >> 4) << 16 | (uint64_t)(stride_bytes >> 4) << 32 |
         (uint64_t)1 << 62;
}

/* A factor whose rows (of a left one) or columns (of a right one) are rows of a slab: 16 elements of each, from `start`
 * in the first row. Groups of 8 rows are 1024 bytes apart. */
static __device__ __forceinline__ wgmma_factor wgmma_rows(shared_address start) {
  return wgmma_descriptor(start, 16, 1024);
}

/* A right factor whose rows are rows of slabs, 16 of them from `start`; every 64 columns the next slab. */
static __device__ __forceinline__ wgmma_factor wgmma_transposed(shared_address start, int slab_bytes) {
  return wgmma_descriptor(start, slab_bytes, 1024);
}

/* Makes what this thread wrote to shared memory visible to wgmma; before a barrier. */
static __device__ __forceinline__ void wgmma_fence_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Before the first product, and whenever registers of a product were written by other instructions. */
static __device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/* Ends a group of products, and waits until all are done. */
static __device__ __forceinline__ void wgmma_finish() {
  asm volatile("wgmma.commit_group.sync.aligned;\n"
               "wgmma.wait_group.sync.aligned 0;" ::
                   : "memory");
}

/* The sums of a product as the first operands of its instruction: 4 * 8 of them from c[i] on; and their numbers. */
#define SUMS_1(c, i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])
#define SUMS_4(c, i) SUMS_1(c, i), SUMS_1(c, i + 1), SUMS_1(c, i + 2), SUMS_1(c, i + 3)
#define SUMS_8(c, i) SUMS_4(c, i), SUMS_4(c, i + 4)
#define OPERANDS_0_31                                                                                                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                             \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OPERANDS_32_63                                                                                                 \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                   \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

/* c (64 x 64) += a (64 x 16) b (16 x 64). */
static __device__ __forceinline__ void wgmma_product(float (&c)[8][4], wgmma_factor a, wgmma_factor b) {
  asm volatile("{.reg .pred add; setp.eq.u32 add, 0, 0; "
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
               "{" OPERANDS_0_31 "}, "
               "%32, %33, add, 1, 1, 0, 0;}"
               : SUMS_8(c, 0)
               : "l"(a), "l"(b));
}

/* c (64 x 64) += a (64 x 16, in registers) b (16 x 64, transposed). */
static __device__ __forceinline__ void wgmma_transposed_product(float (&c)[8][4], const uint32_t (&a)[4],
                                                                wgmma_factor b) {
  asm volatile("{.reg .pred add; setp.eq.u32 add, 0, 0; "
               "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
               "{" OPERANDS_0_31 "}, "
               "{%32, %33, %34, %35}, %36, add, 1, 1, 1;}"
               : SUMS_8(c, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

/* c (64 x 128) += a (64 x 16) b (16 x 128). */
static __device__ __forceinline__ void wgmma_product(float (&c)[16][4], wgmma_factor a, wgmma_factor b) {
  asm volatile("{.reg .pred add; setp.eq.u32 add, 0, 0; "
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
               "{" OPERANDS_0_31 ", " OPERANDS_32_63 "}, "
               "%64, %65, add, 1, 1, 0, 0;}"
               : SUMS_8(c, 0), SUMS_8(c, 8)
               : "l"(a), "l"(b));
}

/* c (64 x 128) += a (64 x 16, in registers) b (16 x 128, transposed). */
static __device__ __forceinline__ void wgmma_transposed_product(float (&c)[16][4], const uint32_t (&a)[4],
                                                                wgmma_factor b) {
  asm volatile("{.reg .pred add; setp.eq.u32 add, 0, 0; "
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
               "{" OPERANDS_0_31 ", " OPERANDS_32_63 "}, "
               "{%64, %65, %66, %67}, %68, add, 1, 1, 1;}"
               : SUMS_8(c, 0), SUMS_8(c, 8)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#undef SUMS_1
#undef SUMS_4
#undef SUMS_8
#undef OPERANDS_0_31
#undef OPERANDS_32_63

#elif !defined(CUDA_SHIM)
#error "compile with nvcc, or with g++ and -include tests/cuda_shim/shim.h"
#endif

#endif
