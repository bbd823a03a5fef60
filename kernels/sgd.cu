/* sgd.cu: see optimizer_launch.h, and adamw.cu for how the work is laid out. Not run on hardware so far. */
#include "kernels/optimizer_launch.h"
#include "kernels/vector.cuh"

static __device__ __forceinline__ float sgd_update(const struct optimizer_args &a, float p, float *m, float g) {
  *m = a.beta1 * *m + a.gradient_scale * g + a.decay * p;
  return p - a.rate * *m;
}

static __device__ __forceinline__ float value_of(float x) { return x; }
static __device__ __forceinline__ float value_of(uint16_t x) { return bf16_value(x); }

template <class G> static __device__ __forceinline__ void sgd(const struct optimizer_args &a, const G *gradient) {
  for (int64_t item = first_item(); item < a.count / 4; item += item_step()) {
    float p[4], m[4], g[4];
    load_4(p, a.master + item * 4);
    load_4(m, a.m + item * 4);
    load_4(g, gradient + item * 4);
#pragma unroll
    for (int i = 0; i < 4; i++)
      p[i] = sgd_update(a, p[i], &m[i], g[i]);
    store_4(a.master + item * 4, p);
    store_4(a.m + item * 4, m);
    store_4(a.weight + item * 4, p);
  }
  for (int64_t i = a.count / 4 * 4 + first_item(); i < a.count; i += item_step()) {
    a.master[i] = sgd_update(a, a.master[i], a.m + i, value_of(gradient[i]));
    a.weight[i] = bf16_round(a.master[i]);
  }
}

extern "C" __global__ void __launch_bounds__(256) sgd_of_bf16(const struct optimizer_args a) {
  sgd(a, (const uint16_t *)a.gradient);
}
extern "C" __global__ void __launch_bounds__(256) sgd_of_fp32(const struct optimizer_args a) {
  sgd(a, (const float *)a.gradient);
}
