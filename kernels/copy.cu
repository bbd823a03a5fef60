/* copy.cu: see copy_launch.h. A block moves 16 KB at a time, each thread four vectors, all read before the first is
 * written. Not run on hardware so far. */
#include "kernels/copy_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) copy(const struct copy_args a) {
  const uint4 *from = (const uint4 *)a.from;
  uint4 *to = (uint4 *)a.to;
  const int64_t vectors = a.bytes / 16, whole = vectors / 1024 * 1024;
  for (int64_t i = (int64_t)blockIdx.x * 1024 + threadIdx.x; i < whole; i += (int64_t)gridDim.x * 1024) {
    uint4 v[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
      v[j] = from[i + 256 * j];
#pragma unroll
    for (int j = 0; j < 4; j++)
      to[i + 256 * j] = v[j];
  }
  for (int64_t i = whole + first_item(); i < vectors; i += item_step())
    to[i] = from[i];
  for (int64_t i = vectors * 16 + first_item(); i < a.bytes; i += item_step())
    ((char *)to)[i] = ((const char *)from)[i];
}

/* Which access, of all those in a row, an item is: divisions of 32 bits, since those of 64 would take longer than the
 * memory. */
template <int N> static __device__ __forceinline__ void copy_strided(const struct copy_strided_args &a) {
  const uint32_t accesses = (uint32_t)copy_strided_accesses(&a), width = (uint32_t)(a.width / N);
  const uint32_t extent1 = (uint32_t)a.extent[1], extent2 = (uint32_t)a.extent[2];
  for (uint32_t item = (uint32_t)first_item(); item < accesses; item += (uint32_t)item_step()) {
    const uint32_t row = item / width, plane = row / extent2;
    const int64_t i0 = plane / extent1, i1 = plane % extent1, i2 = row % extent2, j = (int64_t)(item % width) * N;
    const uint16_t *from = a.from + i0 * a.from_stride[0] + i1 * a.from_stride[1] + i2 * a.from_stride[2] + j;
    uint16_t *to = a.to + i0 * a.to_stride[0] + i1 * a.to_stride[1] + i2 * a.to_stride[2] + j;
    if constexpr (N == 1) {
      *to = a.accumulate ? bf16_round(bf16_value(*to) + bf16_value(*from)) : *from;
    } else if (a.accumulate) {
      float x[8], sum[8];
      load_8(x, from);
      load_8(sum, to);
#pragma unroll
      for (int i = 0; i < 8; i++)
        sum[i] += x[i];
      store_8(to, sum);
    } else {
      *(uint4 *)to = *(const uint4 *)from;
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) copy_strided_by_8(const struct copy_strided_args a) {
  copy_strided<8>(a);
}
extern "C" __global__ void __launch_bounds__(256) copy_strided_by_1(const struct copy_strided_args a) {
  copy_strided<1>(a);
}
