/* gelu.cu: see gelu_launch.h. The last count % 8 elements are done one by one. Not run on hardware so far. */
#include "kernels/gelu_launch.h"
#include "kernels/vector.cuh"

constexpr float SQRT_2_OVER_PI = 0.7978845608028654f, CUBIC = 0.044715f;

/* tanh(u) = 1 - 2 / (exp(2u) + 1): right at both ends, where exp(2u) is 0 or infinite. */
static __device__ __forceinline__ float tanh_of(float u) { return 1 - 2 / (__expf(2 * u) + 1); }

static __device__ __forceinline__ float gelu(float x) {
  return 0.5f * x * (1 + tanh_of(SQRT_2_OVER_PI * (x + CUBIC * x * x * x)));
}

static __device__ __forceinline__ float gelu_slope(float x) {
  const float t = tanh_of(SQRT_2_OVER_PI * (x + CUBIC * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * SQRT_2_OVER_PI * (1 + 3 * CUBIC * x * x);
}

extern "C" __global__ void __launch_bounds__(256) gelu_forward(const struct gelu_args a) {
  for (int64_t item = first_item(); item < a.count / 8; item += item_step()) {
    float x[8];
    load_8(x, a.x + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] = gelu(x[i]);
    store_8(a.out + item * 8, x);
  }
  for (int64_t i = a.count / 8 * 8 + first_item(); i < a.count; i += item_step())
    a.out[i] = bf16_round(gelu(bf16_value(a.x[i])));
}

extern "C" __global__ void __launch_bounds__(256) gelu_backward(const struct gelu_args a) {
  for (int64_t item = first_item(); item < a.count / 8; item += item_step()) {
    float x[8], d[8];
    load_8(x, a.x + item * 8);
    load_8(d, a.dout + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
      d[i] *= gelu_slope(x[i]);
    store_8(a.dx + item * 8, d);
  }
  for (int64_t i = a.count / 8 * 8 + first_item(); i < a.count; i += item_step())
    a.dx[i] = bf16_round(bf16_value(a.dout[i]) * gelu_slope(bf16_value(a.x[i])));
}
