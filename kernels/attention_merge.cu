/* attention_merge.cu: see attention_merge_launch.h. A warp per token and head. Not run on hardware so far. */
#include "kernels/attention_merge_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(32 * ATTENTION_MERGE_TOKENS)
    attention_merge(const struct attention_merge_args a) {
  const int64_t token = (int64_t)blockIdx.x * ATTENTION_MERGE_TOKENS + threadIdx.x / 32;
  const int lane = (int)threadIdx.x % 32, head = (int)blockIdx.y;
  if (token >= a.tokens)
    return;
  const int64_t at = head * a.tokens + token, row = (token * a.heads + head) * a.head_dim;
  const float lse_a = a.lse_a[at], lse_b = a.lse_b[at], largest = fmaxf(lse_a, lse_b);
  if (largest == -INFINITY)
    return;
  const float exp_a = __expf(lse_a - largest), exp_b = __expf(lse_b - largest), sum = exp_a + exp_b;
  for (int c = lane * 8; c < a.head_dim; c += 32 * 8) {
    float x[8], y[8];
    load_8(x, a.out_a + row + c);
    load_8(y, a.out_b + row + c);
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] = (exp_a * x[i] + exp_b * y[i]) / sum;
    store_8(a.out_a + row + c, x);
  }
  __syncwarp(); /* all lanes have read lse_a */
  if (lane == 0)
    a.lse_a[at] = largest + logf(sum);
}
