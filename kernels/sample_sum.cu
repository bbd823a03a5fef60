/* sample_sum.cu: see sample_launch.h. A thread per column. Not run on hardware so far. */
#include "kernels/sample_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) sample_sum(const struct sample_sum_args a) {
  const int64_t column = first_item(), sample = blockIdx.y;
  if (column >= a.width)
    return;
  float sum = 0;
  for (int part = 0; part < a.parts; part++)
    sum += a.partial[((int64_t)part * a.samples + sample) * a.width + column];
  a.out[sample * a.stride + column] += sum;
}
