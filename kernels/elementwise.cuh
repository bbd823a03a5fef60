/* elementwise.cuh: loops over bf16 arrays of any length, 16-byte aligned, for a grid of any size: eight elements at a
 * time, the last count % 8 one by one. f is called on floats; out may be an array that is read. */
#ifndef KERNELS_ELEMENTWISE_CUH
#define KERNELS_ELEMENTWISE_CUH
#include "kernels/vector.cuh"

/* out[i] = f(x[i]) */
template <class F>
static __device__ __forceinline__ void each_element(uint16_t *out, const uint16_t *x, int64_t count, F f) {
  for (int64_t item = first_item(); item < count / 8; item += item_step()) {
    float v[8];
    load_8(v, x + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
      v[i] = f(v[i]);
    store_8(out + item * 8, v);
  }
  for (int64_t i = count / 8 * 8 + first_item(); i < count; i += item_step())
    out[i] = bf16_round(f(bf16_value(x[i])));
}

/* out[i] = f(x[i], y[i]) */
template <class F>
static __device__ __forceinline__ void each_element(uint16_t *out, const uint16_t *x, const uint16_t *y, int64_t count,
                                                    F f) {
  for (int64_t item = first_item(); item < count / 8; item += item_step()) {
    float v[8], w[8];
    load_8(v, x + item * 8);
    load_8(w, y + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
      w[i] = f(v[i], w[i]);
    store_8(out + item * 8, w);
  }
  for (int64_t i = count / 8 * 8 + first_item(); i < count; i += item_step())
    out[i] = bf16_round(f(bf16_value(x[i]), bf16_value(y[i])));
}

#endif
