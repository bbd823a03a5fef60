/* swiglu.cu: see swiglu_launch.h. Not run on hardware so far. */
#include "kernels/swiglu_launch.h"
#include "kernels/vector.cuh"

static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }

extern "C" __global__ void __launch_bounds__(256) swiglu_forward(const struct swiglu_args a) {
  const int vectors = a.width / 8;
  for (int64_t item = first_item(); item < a.tokens * vectors; item += item_step()) {
    const int64_t at = item / vectors * a.stride + item % vectors * 8;
    float gate[8], up[8];
    load_8(gate, a.gate + at);
    load_8(up, a.up + at);
#pragma unroll
    for (int i = 0; i < 8; i++)
      up[i] *= gate[i] * sigmoid(gate[i]);
    store_8(a.out + item * 8, up);
  }
}

extern "C" __global__ void __launch_bounds__(256) swiglu_backward(const struct swiglu_args a) {
  const int vectors = a.width / 8;
  for (int64_t item = first_item(); item < a.tokens * vectors; item += item_step()) {
    const int64_t at = item / vectors * a.stride + item % vectors * 8;
    float gate[8], up[8], dout[8];
    load_8(gate, a.gate + at);
    load_8(up, a.up + at);
    load_8(dout, a.dout + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const float s = sigmoid(gate[i]), silu = gate[i] * s;
      gate[i] = dout[i] * up[i] * (s + silu * (1 - s));
      up[i] = dout[i] * silu;
    }
    store_8(a.dgate + at, gate);
    store_8(a.dup + at, up);
  }
}
