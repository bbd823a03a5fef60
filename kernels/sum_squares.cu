/* sum_squares.cu: see sum_squares_launch.h. Not run on hardware so far. */
#include "kernels/sum_squares_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) sum_squares(const struct sum_squares_args a) {
  float sum[1] = {0};
  for (int64_t item = first_item(); item < a.count / 4; item += item_step()) {
    float x[4];
    load_4(x, a.x + item * 4);
    sum[0] += (x[0] * x[0] + x[1] * x[1]) + (x[2] * x[2] + x[3] * x[3]);
  }
  for (int64_t i = a.count / 4 * 4 + first_item(); i < a.count; i += item_step())
    sum[0] += a.x[i] * a.x[i];
  block_sum(sum, (float *)shared_memory());
  if (threadIdx.x == 0)
    a.partial[blockIdx.x] = sum[0];
}

extern "C" __global__ void __launch_bounds__(256) sum_squares_total(const struct sum_squares_args a) {
  float sum[1] = {0};
  for (int i = (int)threadIdx.x; i < sum_squares_blocks(a.count); i += 256)
    sum[0] += a.partial[i];
  block_sum(sum, (float *)shared_memory());
  if (threadIdx.x == 0)
    *a.sum += sum[0];
}
