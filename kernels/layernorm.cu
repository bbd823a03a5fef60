/* layernorm.cu: see norm_launch.h, and rmsnorm.cu for how the work is laid out. The variance is taken from deviations,
 * in a second pass over shared memory, not as a difference of large sums. Not run on hardware so far. */
#include "kernels/norm_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(NORM_THREADS) layernorm_forward(const struct norm_args a) {
  float *scratch = (float *)shared_memory();
  uint16_t *row = (uint16_t *)(scratch + 2 * (NORM_THREADS / 32));
  const int64_t first = (int64_t)blockIdx.x * a.hidden;
  float sum[1] = {0}, square[1] = {0};
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
    const uint4 raw = *(const uint4 *)(a.x + first + c);
    *(uint4 *)(row + c) = raw;
    float x[8];
    load_8(x, row + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      sum[0] += x[i];
  }
  block_sum(sum, scratch);
  const float mean = sum[0] / (float)a.hidden;
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
    float x[8];
    load_8(x, row + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      square[0] += (x[i] - mean) * (x[i] - mean);
  }
  block_sum(square, scratch + NORM_THREADS / 32);
  const float rstd = rsqrtf(square[0] / (float)a.hidden + a.epsilon);
  if (threadIdx.x == 0) {
    a.mean[blockIdx.x] = mean;
    a.rstd[blockIdx.x] = rstd;
  }
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
    float x[8], w[8], b[8];
    load_8(x, row + c);
    load_8(w, a.weight + c);
    load_8(b, a.bias + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] = (x[i] - mean) * rstd * w[i] + b[i];
    store_8(a.y + first + c, x);
  }
}

/* With h = (x - mean) rstd: dx = rstd (weight dy - mean(weight dy) - h mean(weight dy h)), dweight = sum over rows of
 * dy h, dbias = sum of dy. */
extern "C" __global__ void __launch_bounds__(NORM_THREADS, 2) layernorm_backward(const struct norm_args a) {
  float *scratch = (float *)shared_memory(), *dweight = scratch + 4 * (NORM_THREADS / 32);
  float *dbias = dweight + a.hidden;
  uint16_t *x_row = (uint16_t *)(dbias + a.hidden), *dy_row = x_row + a.hidden;
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
    *(float4 *)(dweight + c) = *(float4 *)(dweight + c + 4) = float4{0, 0, 0, 0};
    *(float4 *)(dbias + c) = *(float4 *)(dbias + c + 4) = float4{0, 0, 0, 0};
  }
  int turn = 0;
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x, turn ^= 1) {
    const int64_t first = token * a.hidden;
    const float mean = a.mean[token], rstd = a.rstd[token];
    float sums[2] = {0, 0}; /* of weight dy and of weight dy h */
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
        float h = (x[i] - mean) * rstd;
        sums[0] += w[i] * dy[i];
        sums[1] += w[i] * dy[i] * h;
        dweight[c + i] += dy[i] * h;
        dbias[c + i] += dy[i];
      }
    }
    block_sum(sums, scratch + turn * 2 * (NORM_THREADS / 32));
    const float mean_dh = sums[0] / (float)a.hidden, mean_dhh = sums[1] / (float)a.hidden;
    for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
      float x[8], dy[8], w[8];
      load_8(x, x_row + c);
      load_8(dy, dy_row + c);
      load_8(w, a.weight + c);
#pragma unroll
      for (int i = 0; i < 8; i++)
        dy[i] = rstd * (w[i] * dy[i] - mean_dh - (x[i] - mean) * rstd * mean_dhh);
      store_8(a.dx + first + c, dy);
    }
  }
  for (int c = (int)threadIdx.x * 8; c < a.hidden; c += NORM_THREADS * 8) {
    const int64_t to = (int64_t)blockIdx.x * a.hidden + c;
    *(float4 *)(a.dweight_partial + to) = *(const float4 *)(dweight + c);
    *(float4 *)(a.dweight_partial + to + 4) = *(const float4 *)(dweight + c + 4);
    *(float4 *)(a.dbias_partial + to) = *(const float4 *)(dbias + c);
    *(float4 *)(a.dbias_partial + to + 4) = *(const float4 *)(dbias + c + 4);
  }
}
