/* residual_add.cu: see residual_add_launch.h. Not run on hardware so far. */
#include "kernels/residual_add_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) residual_add(const struct residual_add_args a) {
  for (int64_t item = first_item(); item < a.count / 8; item += item_step()) {
    float x[8], y[8];
    load_8(x, a.a + item * 8);
    load_8(y, a.b + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] += y[i];
    store_8(a.out + item * 8, x);
  }
  for (int64_t i = a.count / 8 * 8 + first_item(); i < a.count; i += item_step())
    a.out[i] = bf16_round(bf16_value(a.a[i]) + bf16_value(a.b[i]));
}
