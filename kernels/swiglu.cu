/* swiglu.cu: see swiglu_launch.h. A block per token. Not run on hardware so far. */
#include "kernels/swiglu_launch.h"
#include "kernels/vector.cuh"

static __device__ __forceinline__ float sigmoid(float x) { return 1 / (1 + __expf(-x)); }

extern "C" __global__ void __launch_bounds__(256) swiglu_forward(const struct swiglu_args a) {
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x)
    for (int c = (int)threadIdx.x * 8; c < a.width; c += (int)blockDim.x * 8) {
      float gate[8], up[8];
      load_8(gate, a.gate + token * a.stride + c);
      load_8(up, a.up + token * a.stride + c);
#pragma unroll
      for (int i = 0; i < 8; i++)
        up[i] *= gate[i] * sigmoid(gate[i]);
      store_8(a.out + token * a.width + c, up);
    }
}

extern "C" __global__ void __launch_bounds__(256) swiglu_backward(const struct swiglu_args a) {
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x)
    for (int c = (int)threadIdx.x * 8; c < a.width; c += (int)blockDim.x * 8) {
      float gate[8], up[8], dout[8];
      load_8(gate, a.gate + token * a.stride + c);
      load_8(up, a.up + token * a.stride + c);
      load_8(dout, a.dout + token * a.width + c);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const float s = sigmoid(gate[i]), silu = gate[i] * s;
        gate[i] = dout[i] * up[i] * (s + silu * (1 - s));
        up[i] = dout[i] * silu;
      }
      store_8(a.dgate + token * a.stride + c, gate);
      store_8(a.dup + token * a.stride + c, up);
    }
}
