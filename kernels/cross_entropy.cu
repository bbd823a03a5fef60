/* cross_entropy.cu: see cross_entropy_launch.h. A block per token reads its logits once: each thread keeps a largest
 * value and a sum of exponentials relative to it. Not run on hardware so far. */
#include "kernels/cross_entropy_launch.h"
#include "kernels/vector.cuh"

/* Sums of exponentials relative to different largest values, joined. A sum of 0 has -inf beside it. */
static __device__ __forceinline__ void join(float *largest, float *sum, float other_largest, float other_sum) {
  const float m = fmaxf(*largest, other_largest);
  if (m == -INFINITY)
    return;
  *sum = *sum * __expf(*largest - m) + other_sum * __expf(other_largest - m);
  *largest = m;
}

extern "C" __global__ void __launch_bounds__(CROSS_ENTROPY_THREADS)
    cross_entropy_forward(const struct cross_entropy_args a) {
  float *scratch = (float *)shared_memory();
  const uint16_t *logits = a.logits + (int64_t)blockIdx.x * a.vocabulary;
  float largest = -INFINITY, sum = 0;
  for (int c = (int)threadIdx.x * 8; c < a.vocabulary; c += CROSS_ENTROPY_THREADS * 8) {
    float x[8], m = -INFINITY, s = 0;
    load_8(x, logits + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      m = fmaxf(m, x[i]);
#pragma unroll
    for (int i = 0; i < 8; i++)
      s += m == -INFINITY ? 0 : __expf(x[i] - m);
    join(&largest, &sum, m, s);
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    const float other_largest = shuffle_xor(largest, mask), other_sum = shuffle_xor(sum, mask);
    join(&largest, &sum, other_largest, other_sum);
  }
  if (threadIdx.x % 32 == 0) {
    scratch[threadIdx.x / 32 * 2] = largest;
    scratch[threadIdx.x / 32 * 2 + 1] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  for (int warp = 1; warp < CROSS_ENTROPY_THREADS / 32; warp++)
    join(&largest, &sum, scratch[2 * warp], scratch[2 * warp + 1]);
  const float lse = largest + logf(sum);
  const int target = a.targets[blockIdx.x];
  a.lse[blockIdx.x] = lse;
  a.loss[blockIdx.x] = target < 0 ? 0 : lse - bf16_value(logits[target]);
}

extern "C" __global__ void __launch_bounds__(CROSS_ENTROPY_THREADS)
    cross_entropy_backward(const struct cross_entropy_args a) {
  const int64_t first = (int64_t)blockIdx.x * a.vocabulary;
  const int target = a.targets[blockIdx.x];
  const float lse = a.lse[blockIdx.x], scale = target < 0 ? 0 : a.scale;
  for (int c = (int)threadIdx.x * 8; c < a.vocabulary; c += CROSS_ENTROPY_THREADS * 8) {
    float x[8];
    load_8(x, a.logits + first + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] = scale * (__expf(x[i] - lse) - (c + i == target ? 1.0f : 0.0f));
    store_8(a.dlogits + first + c, x);
  }
}
