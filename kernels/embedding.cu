/* embedding.cu: see embedding_launch.h. A block per token. Atomics in the scatter, because the alternative, tokens
 * sorted by id, is a sort in every step for a kernel that moves few bytes. Not run on hardware so far. */
#include "kernels/embedding_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) embedding_gather(const struct embedding_args a) {
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
    const int32_t id = a.ids[token];
    for (int c = (int)threadIdx.x * 8; c < a.hidden; c += (int)blockDim.x * 8) {
      uint4 row = {0, 0, 0, 0};
      if (id >= 0)
        row = *(const uint4 *)(a.table + (int64_t)id * a.hidden + c);
      *(uint4 *)(a.out + token * a.hidden + c) = row;
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) embedding_scatter(const struct embedding_args a) {
  for (int64_t token = blockIdx.x; token < a.tokens; token += gridDim.x) {
    const int32_t id = a.ids[token];
    if (id < 0)
      continue;
    float *row = a.dtable + (int64_t)id * a.hidden;
    for (int c = (int)threadIdx.x * 8; c < a.hidden; c += (int)blockDim.x * 8) {
      float d[8];
      load_8(d, a.dout + token * a.hidden + c);
#pragma unroll
      for (int i = 0; i < 8; i++)
        atomicAdd(row + c + i, d[i]);
    }
  }
}
