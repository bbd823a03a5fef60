/* gelu.cu: see activation_launch.h. Not run on hardware so far. */
#include "kernels/activation_launch.h"
#include "kernels/elementwise.cuh"

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

extern "C" __global__ void __launch_bounds__(256) gelu_forward(const struct activation_args a) {
  each_element(a.out, a.x, a.count, [](float x) { return gelu(x); });
}

extern "C" __global__ void __launch_bounds__(256) gelu_backward(const struct activation_args a) {
  each_element(a.dx, a.x, a.dout, a.count, [](float x, float dout) { return dout * gelu_slope(x); });
}
