/* embedding.cu: see embedding_launch.h. Atomics in the scatter, because the alternative, tokens sorted by id, is a sort
 * in every step for a kernel that moves few bytes. Not run on hardware so far. */
#include "kernels/embedding_launch.h"
#include "kernels/vector.cuh"

extern "C" __global__ void __launch_bounds__(256) embedding_gather(const struct embedding_args a) {
  const int vectors = a.hidden / 8;
  for (int64_t item = first_item(); item < a.tokens * vectors; item += item_step()) {
    const int32_t id = a.ids[item / vectors];
    uint4 row = {0, 0, 0, 0};
    if (id >= 0)
      row = *(const uint4 *)(a.table + (int64_t)id * a.hidden + item % vectors * 8);
    *(uint4 *)(a.out + item * 8) = row;
  }
}

extern "C" __global__ void __launch_bounds__(256) embedding_scatter(const struct embedding_args a) {
  const int vectors = a.hidden / 8;
  for (int64_t item = first_item(); item < a.tokens * vectors; item += item_step()) {
    const int32_t id = a.ids[item / vectors];
    if (id < 0)
      continue;
    float d[8];
    load_8(d, a.dout + item * 8);
#pragma unroll
    for (int i = 0; i < 8; i++)
      atomicAdd(a.dtable + (int64_t)id * a.hidden + item % vectors * 8 + i, d[i]);
  }
}
