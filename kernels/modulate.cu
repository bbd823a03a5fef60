/* modulate.cu: see sample_launch.h. Not run on hardware so far. */
#include "kernels/sample.cuh"

extern "C" __global__ void __launch_bounds__(256) modulate_forward(const struct sample_args a) {
  sample_forward(a, [&](int64_t at, int64_t c) {
    float x[8], scale[8], shift[8];
    load_8(x, a.x + at);
    load_8(scale, a.scale + c);
    load_8(shift, a.shift + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] = x[i] * (1 + scale[i]) + shift[i];
    store_8(a.y + at, x);
  });
}

/* dx = dy (1 + scale_b), dscale_b = sum of dy x, dshift_b = sum of dy. */
extern "C" __global__ void __launch_bounds__(256) modulate_backward(const struct sample_args a) {
  float *const partial[2] = {a.dscale_partial, a.dshift_partial};
  float scale[8];
  load_scale(scale, a);
  sample_backward(a, partial, [&](int64_t at, float(&sums)[2][8]) {
    float x[8], dy[8];
    load_8(x, a.x + at);
    load_8(dy, a.dy + at);
#pragma unroll
    for (int i = 0; i < 8; i++) {
      sums[0][i] += dy[i] * x[i];
      sums[1][i] += dy[i];
      dy[i] *= 1 + scale[i];
    }
    store_8(a.dx + at, dy);
  });
}
