/* gate.cu: see sample_launch.h. Not run on hardware so far. */
#include "kernels/sample.cuh"

extern "C" __global__ void __launch_bounds__(256) gate_forward(const struct sample_args a) {
  sample_forward(a, [&](int64_t at, int64_t c) {
    float x[8], scale[8], residual[8];
    load_8(x, a.x + at);
    load_8(scale, a.scale + c);
    load_8(residual, a.residual + at);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] = residual[i] + scale[i] * x[i];
    store_8(a.y + at, x);
  });
}

/* dx = scale_b dy, dscale_b = sum of dy x. */
extern "C" __global__ void __launch_bounds__(256) gate_backward(const struct sample_args a) {
  float *const partial[1] = {a.dscale_partial};
  float scale[8];
  load_scale(scale, a);
  sample_backward(a, partial, [&](int64_t at, float(&sums)[1][8]) {
    float x[8], dy[8];
    load_8(x, a.x + at);
    load_8(dy, a.dy + at);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      sums[0][i] += dy[i] * x[i];
      dy[i] *= scale[i];
    }
    store_8(a.dx + at, dy);
  });
}
