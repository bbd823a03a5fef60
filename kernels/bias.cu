/* bias.cu: see sample_launch.h. Not run on hardware so far. */
#include "kernels/sample.cuh"

extern "C" __global__ void __launch_bounds__(256) bias_forward(const struct sample_args a) {
  sample_forward(a, [&](int64_t at, int64_t c) {
    float x[8], shift[8];
    load_8(x, a.x + at);
    load_8(shift, a.shift + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] += shift[i];
    store_8(a.y + at, x);
  });
}

extern "C" __global__ void __launch_bounds__(256) bias_backward(const struct sample_args a) {
  float *const partial[1] = {a.dshift_partial};
  sample_backward(a, partial, [&](int64_t at, float(&sums)[1][8]) {
    float dy[8];
    load_8(dy, a.dy + at);
#pragma unroll
    for (int i = 0; i < 8; i++)
      sums[0][i] += dy[i];
  });
}
