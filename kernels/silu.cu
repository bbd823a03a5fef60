/* silu.cu: see silu_launch.h. The last count % 8 elements are done one by one. Not run on hardware so far. */
#include "kernels/silu_launch.h"
#include "kernels/vector.cuh"

static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }
static __device__ __forceinline__ float silu_slope(float x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

extern "C" __global__ void __launch_bounds__(256) silu_forward(const struct silu_args a) {
  for (int64_t item = first_item(); item < a.count / 8; item += item_step()) {
    float x[8];
    load_8(x, a.x + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] *= sigmoid(x[i]);
    store_8(a.out + item * 8, x);
  }
  for (int64_t i = a.count / 8 * 8 + first_item(); i < a.count; i += item_step())
    a.out[i] = bf16_round(bf16_value(a.x[i]) * sigmoid(bf16_value(a.x[i])));
}

extern "C" __global__ void __launch_bounds__(256) silu_backward(const struct silu_args a) {
  for (int64_t item = first_item(); item < a.count / 8; item += item_step()) {
    float x[8], d[8];
    load_8(x, a.x + item * 8);
    load_8(d, a.dout + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
      d[i] *= silu_slope(x[i]);
    store_8(a.dx + item * 8, d);
  }
  for (int64_t i = a.count / 8 * 8 + first_item(); i < a.count; i += item_step())
    a.dx[i] = bf16_round(bf16_value(a.dout[i]) * silu_slope(bf16_value(a.x[i])));
}
