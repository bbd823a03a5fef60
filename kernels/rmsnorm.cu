/* rmsnorm.cu: see norm_launch.h. A block per row forward, a block for every gridDim.x-th row backward. A row is read
 * from device memory once and kept in shared memory; each thread comes back to the elements that it brought itself, so
 * that only the sums need a barrier. Not run on hardware so far. */
#include "kernels/norm_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(NORM_THREADS) rmsnorm_forward(const struct norm_args a) {
  float *scratch = (float *)shared_memory();
  uint16_t *row = (uint16_t *)(scratch + NORM_THREADS / 32);
  const int64_t first = (int64_t)blockIdx.x * a.hidden;
  float sum[1] = {0};
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
    const uint4 raw = *(const uint4 *)(a.x + first + c);
    *(uint4 *)(row + c) = raw;
    float x[8];
    load_8(x, row + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      sum[0] += x[i] * x[i];
  }
  block_sum(sum, scratch);
  const float rstd = rsqrtf(sum[0] / (float)a.hidden + a.epsilon);
  if (threadIdx.x == 0)
    a.rstd[blockIdx.x] = rstd;
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
    float x[8], w[8];
    load_8(x, row + c);
    load_8(w, a.weight + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] *= rstd * w[i];
    store_8(a.y + first + c, x);
  }
}

/* With h = x rstd: dx = rstd (weight dy - h mean(weight dy h)), dweight = sum over rows of dy h. */
extern "C" __global__ void __launch_bounds__(NORM_THREADS, 2) rmsnorm_backward(const struct norm_args a) {
  float *scratch = (float *)shared_memory(), *dweight = scratch + 2 * (NORM_THREADS / 32);
  uint16_t *x_row = (uint16_t *)(dweight + a.hidden), *dy_row = x_row + a.hidden;
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8)
    *(float4 *)(dweight + c) = *(float4 *)(dweight + c + 4) = float4{0, 0, 0, 0};
  int turn = 0;
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x, turn ^= 1) {
    const int64_t first = token * a.hidden;
    const float rstd = a.rstd[token];
    float dot[1] = {0};
    for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
      const uint4 x_raw = *(const uint4 *)(a.x + first + c), dy_raw = *(const uint4 *)(a.dy + first + c);
      *(uint4 *)(x_row + c) = x_raw;
      *(uint4 *)(dy_row + c) = dy_raw;
      float x[8], dy[8], w[8];
      load_8(x, x_row + c);
      load_8(dy, dy_row + c);
      load_8(w, a.weight + c);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        dot[0] += w[i] * dy[i] * x[i] * rstd;
        dweight[c + i] += dy[i] * x[i] * rstd;
      }
    }
    block_sum(dot, scratch + turn * (NORM_THREADS / 32));
    const float mean = dot[0] / (float)a.hidden;
    for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
      float x[8], dy[8], w[8];
      load_8(x, x_row + c);
      load_8(dy, dy_row + c);
      load_8(w, a.weight + c);
#pragma unroll
      for (int i = 0; i < 8; i++)
        dy[i] = rstd * (w[i] * dy[i] - x[i] * rstd * mean);
      store_8(a.dx + first + c, dy);
    }
  }
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
    float *partial = a.dweight_partial + (int64_t)blockIdx.x * a.hidden + c;
    *(float4 *)partial = *(const float4 *)(dweight + c);
    *(float4 *)(partial + 4) = *(const float4 *)(dweight + c + 4);
  }
}
