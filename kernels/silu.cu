/* silu.cu: see activation_launch.h. Not run on hardware so far. */
#include "kernels/activation_launch.h"
#include "kernels/elementwise.cuh"

static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }
static __device__ __forceinline__ float silu_slope(float x) { return sigmoid(x) * (1 + x * (1 - sigmoid(x))); }

extern "C" __global__ void __launch_bounds__(256) silu_forward(const struct activation_args a) {
  each_element(a.out, a.x, a.count, [](float x) { return x * sigmoid(x); });
}

extern "C" __global__ void __launch_bounds__(256) silu_backward(const struct activation_args a) {
  each_element(a.dx, a.x, a.dout, a.count, [](float x, float dout) { return dout * silu_slope(x); });
}
