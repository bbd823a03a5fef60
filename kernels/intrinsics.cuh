/* intrinsics.cuh: what kernels ask of the machine beyond plain C++: bf16 conversion, shuffles, mma.sync, ldmatrix,
 * cp.async. One source for nvcc (sm_80 and later) and for g++, where tests/cuda_shim/shim.h, included before this file,
 * has twins of all of these and of threadIdx, blockIdx, gridDim, __syncthreads, __syncwarp.
 *
 * Kernels have no static shared memory: all of it is shared_memory(), whose size the launch gives. */
#ifndef KERNELS_INTRINSICS_CUH
#define KERNELS_INTRINSICS_CUH
#include <math.h>
#include <stdint.h>

#ifdef __CUDACC__

/* An address in shared memory, as the instructions below take it. */
using shared_address = uint32_t;

extern __shared__ __align__(1024) char dcpsim_shared_memory[];

static __device__ __forceinline__ char *shared_memory() { return dcpsim_shared_memory; }

static __device__ __forceinline__ shared_address shared_address_of(const void *p) {
  return (shared_address)__cvta_generic_to_shared(p);
}

/* Two floats, rounded to nearest even, as bf16: `low` in the low half. */
static __device__ __forceinline__ uint32_t bf16_pack(float low, float high) {
  uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

static __device__ __forceinline__ float float_of_bits(uint32_t bits) { return __uint_as_float(bits); }

/* 2^x to about 2 units in the last place; subnormal results are 0. */
static __device__ __forceinline__ float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* 1 / x to 1 unit in the last place; unlike a division it is no call, which would keep wgmma from overlapping. */
static __device__ __forceinline__ float reciprocal_fast(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* The value of lane (lane ^ mask). All 32 lanes must call it. */
static __device__ __forceinline__ float shuffle_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }

/* c (16 x 8) += a (16 x 16) b (16 x 8). With g = lane / 4 and t = lane % 4 a lane holds
 * a: rows g, g+8, g, g+8 at columns 2t and 2t+1 (a[0], a[1]) and 2t+8 and 2t+9 (a[2], a[3]);
 * b: column g, rows 2t and 2t+1 (b0), 2t+8 and 2t+9 (b1); c: columns 2t and 2t+1 of row g (c[0], c[1]) and g+8. */
static __device__ __forceinline__ void mma_16x8x16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Four 8 x 8 matrices of bf16. Lane l gives the 16-byte row l % 8 of matrix l / 8. A lane receives in r[i] elements 2t
 * and 2t+1 of row g of matrix i; transposed: elements g of rows 2t and 2t+1. */
static __device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], shared_address row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}
static __device__ __forceinline__ void ldmatrix_transposed(uint32_t (&r)[4], shared_address row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(row)
               : "memory");
}

/* Starts a copy of 16 or 4 bytes from global to shared memory; zeros, and no read, unless `valid`. It is complete for
 * the calling thread after a cp_async_wait that covers its group, for others after a barrier as well. */
static __device__ __forceinline__ void cp_async_16(shared_address to, const void *from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
static __device__ __forceinline__ void cp_async_4(shared_address to, const void *from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid ? 4 : 0) : "memory");
}

/* Closes the group of copies started since the last call. */
static __device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Waits for all groups of this thread but the latest PENDING. */
template <int PENDING> static __device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

#elif !defined(CUDA_SHIM)
#error "compile with nvcc, or with g++ and -include tests/cuda_shim/shim.h"
#endif

static __device__ __forceinline__ float bf16_low(uint32_t both) { return float_of_bits(both << 16); }
static __device__ __forceinline__ float bf16_high(uint32_t both) { return float_of_bits(both & 0xffff0000u); }
static __device__ __forceinline__ float bf16_value(uint16_t bits) { return float_of_bits((uint32_t)bits << 16); }
static __device__ __forceinline__ uint16_t bf16_round(float x) { return (uint16_t)bf16_pack(x, 0); }

#endif
