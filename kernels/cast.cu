/* cast.cu: see cast_launch.h. A thread converts 4 numbers, so that fp32 accesses are 16 bytes; the last count % 4 are
 * done one by one. Not run on hardware so far. */
#include "kernels/cast_launch.h"
#include "kernels/vector.cuh"

static __device__ __forceinline__ float value_of(float x) { return x; }
static __device__ __forceinline__ float value_of(uint16_t x) { return bf16_value(x); }
static __device__ __forceinline__ void store(float *p, float x) { *p = x; }
static __device__ __forceinline__ void store(uint16_t *p, float x) { *p = bf16_round(x); }

template <class FROM, class TO> static __device__ __forceinline__ void cast(const struct cast_args &a) {
  const FROM *from = (const FROM *)a.from;
  TO *to = (TO *)a.to;
  for (int64_t item = first_item(); item < a.count / 4; item += item_step()) {
    float x[4];
    load_4(x, from + item * 4);
#pragma unroll
    for (int i = 0; i < 4; i++)
      x[i] *= a.scale;
    store_4(to + item * 4, x);
  }
  for (int64_t i = a.count / 4 * 4 + first_item(); i < a.count; i += item_step())
    store(to + i, a.scale * value_of(from[i]));
}

extern "C" __global__ void __launch_bounds__(256) cast_to_fp32(const struct cast_args a) { cast<uint16_t, float>(a); }
extern "C" __global__ void __launch_bounds__(256) cast_to_bf16(const struct cast_args a) { cast<float, uint16_t>(a); }
