/* vector.cuh: 16-byte accesses and block-wide sums, for the kernels that memory bandwidth bounds. */
#ifndef KERNELS_VECTOR_CUH
#define KERNELS_VECTOR_CUH
#include "kernels/intrinsics.cuh"

/* Eight consecutive bf16, 16-byte aligned, as floats. */
static __device__ __forceinline__ void load_8(float (&v)[8], const uint16_t *p) {
  const uint4 raw = *(const uint4 *)p;
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    v[2 * i] = bf16_low(words[i]);
    v[2 * i + 1] = bf16_high(words[i]);
  }
}

static __device__ __forceinline__ void store_8(uint16_t *p, const float (&v)[8]) {
  *(uint4 *)p = uint4{bf16_pack(v[0], v[1]), bf16_pack(v[2], v[3]), bf16_pack(v[4], v[5]), bf16_pack(v[6], v[7])};
}

/* Four consecutive bf16, 8-byte aligned. */
static __device__ __forceinline__ void load_4(float (&v)[4], const uint16_t *p) {
  const uint2 raw = *(const uint2 *)p;
  v[0] = bf16_low(raw.x);
  v[1] = bf16_high(raw.x);
  v[2] = bf16_low(raw.y);
  v[3] = bf16_high(raw.y);
}

static __device__ __forceinline__ void store_4(uint16_t *p, const float (&v)[4]) {
  *(uint2 *)p = uint2{bf16_pack(v[0], v[1]), bf16_pack(v[2], v[3])};
}

/* Four consecutive floats, 16-byte aligned. */
static __device__ __forceinline__ void load_4(float (&v)[4], const float *p) {
  const float4 raw = *(const float4 *)p;
  v[0] = raw.x;
  v[1] = raw.y;
  v[2] = raw.z;
  v[3] = raw.w;
}

static __device__ __forceinline__ void store_4(float *p, const float (&v)[4]) {
  *(float4 *)p = float4{v[0], v[1], v[2], v[3]};
}

/* The loop over items of a grid of any size. */
static __device__ __forceinline__ int64_t first_item() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ __forceinline__ int64_t item_step() { return (int64_t)gridDim.x * blockDim.x; }

/* Sums over a block of up to 32 warps, the same bits in every thread. `scratch`: COUNT floats a warp in shared memory,
 * which must not be used again before another barrier: callers in a loop alternate between two. */
template <int COUNT> static __device__ __forceinline__ void block_sum(float (&x)[COUNT], float *scratch) {
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
      x[i] += shuffle_xor(x[i], mask);
    if (threadIdx.x % 32 == 0)
      scratch[threadIdx.x / 32 * COUNT + i] = x[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < COUNT; i++) {
    x[i] = 0;
    for (int warp = 0; warp < (int)blockDim.x / 32; warp++)
      x[i] += scratch[warp * COUNT + i];
  }
}

#endif
