/* column_sum.cu: see norm_launch.h. A block sums COLUMN_SUM_COLUMNS columns: warps take every 8th row, then the first
 * warp adds what the warps found. Not run on hardware so far. */
#include "kernels/norm_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) column_sum(const struct column_sum_args a) {
  float *sums = (float *)shared_memory();
  const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
  const int column = (int)blockIdx.x * COLUMN_SUM_COLUMNS + lane;
  float sum = 0;
  for (int row = warp; row < a.rows && column < a.columns; row += 8)
    sum += a.partial[(int64_t)row * a.columns + column];
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp != 0 || column >= a.columns)
    return;
  for (int i = 1; i < 8; i++)
    sum += sums[32 * i + lane];
  a.out[column] = sum;
}
