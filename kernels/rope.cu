/* rope.cu: see rope_launch.h. A block per token; a thread turns 8 pairs (4 where half a head is no
 * multiple of 8). Not run on hardware so
 * far. */
#include "kernels/rope_launch.h"
#include "kernels/vector.cuh"

template <int N> static __device__ __forceinline__ void load_n(float (&v)[N], const uint16_t *p) {
  if constexpr (N == 8)
    load_8(v, p);
  else
    load_4(v, p);
}

template <int N> static __device__ __forceinline__ void store_n(uint16_t *p, const float (&v)[N]) {
  if constexpr (N == 8)
    store_8(p, v);
  else
    store_4(p, v);
}

template <int N> static __device__ __forceinline__ void rope(const struct rope_args &a) {
  const int half = a.head_dim / 2, vectors = half / N;
  const float sign = a.backward ? -1.0f : 1.0f;
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
    const uint16_t *x = a.x + token * a.heads * a.head_dim;
    uint16_t *y = a.y + token * a.heads * a.head_dim;
    const int64_t angles = (int64_t)a.positions[token] * half;
    for (int item = (int)threadIdx.x; item < a.heads * vectors; item += (int)blockDim.x) {
      const int pair = item % vectors * N, at = item / vectors * a.head_dim + pair;
      float low[N], high[N], y_low[N], y_high[N];
      load_n(low, x + at);
      load_n(high, x + at + half);
#pragma unroll
      for (int i = 0; i < N; i += 4) {
        float c[4], s[4];
        load_4(c, a.cos + angles + pair + i);
        load_4(s, a.sin + angles + pair + i);
#pragma unroll
        for (int j = 0; j < 4; j++) {
          y_low[i + j] = low[i + j] * c[j] - high[i + j] * (sign * s[j]);
          y_high[i + j] = high[i + j] * c[j] + low[i + j] * (sign * s[j]);
        }
      }
      store_n(y + at, y_low);
      store_n(y + at + half, y_high);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) rope_by_8(const struct rope_args a) { rope<8>(a); }
extern "C" __global__ void __launch_bounds__(256) rope_by_4(const struct rope_args a) { rope<4>(a); }
