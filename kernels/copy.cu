/* copy.cu: see copy_launch.h. A block moves 16 KB at a time, each thread four vectors, all read before the first is
 * written. Not run on hardware so far. */
#include "kernels/copy_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) copy(const struct copy_args a) {
  const uint4 *from = (const uint4 *)a.from;
  uint4 *to = (uint4 *)a.to;
  const int64_t vectors = a.bytes / 16, whole = vectors / 1024 * 1024;
  for (int64_t i = (int64_t)blockIdx.x * 1024 + threadIdx.x; i < whole; i += (int64_t)gridDim.x * 1024) {
    uint4 v[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
      v[j] = from[i + 256 * j];
#pragma unroll
    for (int j = 0; j < 4; j++)
      to[i + 256 * j] = v[j];
  }
  for (int64_t i = whole + first_item(); i < vectors; i += item_step())
    to[i] = from[i];
  for (int64_t i = vectors * 16 + first_item(); i < a.bytes; i += item_step())
    ((char *)to)[i] = ((const char *)from)[i];
}
