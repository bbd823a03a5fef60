/* attention_wgmma.cu: the forward pass of attention.cu with wgmma, the tensor core instructions of sm_90a, which read
 * their factors from shared memory by themselves. Head dims 64 and 128. Same arguments and results.
 *
 * NOT RUN ON HARDWARE, and so not what attention_forward_launch chooses. On a CPU the logic is tested, and the layouts
 * in shared memory as the PTX manual describes them; not tested are the descriptors' bits and the fences.
 *
 * Two warpgroups of 64 queries each. Tiles come by cp.async into slabs (wgmma.cuh): that needs no tensor map from the
 * host, as TMA would, and sequences may begin at any row. */
#include "kernels/attention.cuh"
#include "kernels/tile.cuh"
#include "kernels/wgmma.cuh"

/* Starts the copy of ROWS rows from row0 of a matrix (see tile_copy) into HEAD_DIM / 64 slabs. */
template <int HEAD_DIM, int ROWS, int THREADS>
static __device__ __forceinline__ void slab_copy(shared_address slabs, const uint16_t *matrix, int row0, int rows,
                                                 int64_t stride) {
  constexpr int CHUNKS = HEAD_DIM / 8;
  static_assert(ROWS * CHUNKS % THREADS == 0, "every thread copies equally many chunks");
#pragma unroll
  for (int n = 0; n < ROWS * CHUNKS / THREADS; n++) {
    int i = n * THREADS + (int)threadIdx.x, row = i / CHUNKS, chunk = i % CHUNKS;
    bool valid = row0 + row < rows;
    cp_async_16(slabs + chunk / 8 * ROWS * 128 + row * 128 + ((chunk ^ row) & 7) * 16,
                valid ? matrix + (row0 + row) * stride + chunk * 8 : matrix, valid);
  }
}

template <int HEAD_DIM> static __device__ __forceinline__ void attention_forward_wgmma(const struct attention_args &a) {
  constexpr struct attention_tiles T = attention_forward_wgmma_tiles();
  constexpr int ROWS = attention_tile_rows(T), KEYS = T.columns, THREADS = 32 * T.warps, STAGES = T.stages;
  constexpr int KEY_BYTES = KEYS * HEAD_DIM * 2;
  const struct sequence seq = sequence_of_block(a);
  const int q0 = (int)(gridDim.x - 1 - blockIdx.x) * ROWS, head = (int)blockIdx.y;
  if (q0 >= seq.len_q)
    return;
  const int kv_head = head / (a.heads_q / a.heads_kv), row_warp = (int)threadIdx.x / 32 * 16;
  const int64_t stride_q = (int64_t)a.heads_q * HEAD_DIM, stride_k = (int64_t)a.heads_kv * HEAD_DIM;
  const int64_t offset_q = head_offset<HEAD_DIM>(seq.first_q, a.heads_q, head);
  const int64_t offset_k = head_offset<HEAD_DIM>(seq.first_k, a.heads_kv, kv_head);
  const shared_address q_slabs = shared_address_of(shared_memory()), stages = q_slabs + ROWS * HEAD_DIM * 2;
  const shared_address q_group = q_slabs + threadIdx.x / 128 * 64 * 128; /* the rows of this warpgroup */
  const int steps = (keys_seen(seq, q0 + ROWS) + KEYS - 1) / KEYS;

  auto copy_keys = [&](int step) {
    if (step < steps) {
      shared_address k_slabs = stages + step % STAGES * 2 * KEY_BYTES;
      slab_copy<HEAD_DIM, KEYS, THREADS>(k_slabs, a.k + offset_k, step * KEYS, seq.len_k, stride_k);
      slab_copy<HEAD_DIM, KEYS, THREADS>(k_slabs + KEY_BYTES, a.v + offset_k, step * KEYS, seq.len_k, stride_k);
    }
    cp_async_commit();
  };
  if (steps > 0)
    slab_copy<HEAD_DIM, ROWS, THREADS>(q_slabs, a.q + offset_q, q0, seq.len_q, stride_q);
  for (int step = 0; step < STAGES - 1; step++)
    copy_keys(step);

  float out[1][HEAD_DIM / 8][4];
  struct softmax<1> state;
  tile_zero(out);
  softmax_begin(&state);
  for (int step = 0; step < steps; step++) {
    cp_async_wait<STAGES - 2>();
    wgmma_fence_shared();
    __syncthreads(); /* this step's tiles are there for all, and all are done with the buffer that is filled next */
    copy_keys(step + STAGES - 1);
    const shared_address k_slabs = stages + step % STAGES * 2 * KEY_BYTES, v_slabs = k_slabs + KEY_BYTES;
    float s[1][KEYS / 8][4];
    tile_zero(s);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < HEAD_DIM / 16; k++) /* 16 elements are 32 bytes; a slab holds four times that */
      wgmma_product(s[0], wgmma_rows(q_group + k / 4 * ROWS * 128 + k % 4 * 32),
                    wgmma_rows(k_slabs + k / 4 * KEYS * 128 + k % 4 * 32));
    wgmma_finish();
    if (!all_visible(seq, q0, q0 + ROWS, (step + 1) * KEYS))
      mask_scores(s, seq, q0 + row_warp, step * KEYS);
    softmax_step(&state, s, out, a.scale * LOG2_E);
    uint32_t p[KEYS / 16][4];
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        p[k][i] = bf16_pack(s[0][2 * k + i / 2][i % 2 * 2], s[0][2 * k + i / 2][i % 2 * 2 + 1]);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < KEYS / 16; k++)
      wgmma_transposed_product(out[0], p[k], wgmma_transposed(v_slabs + k * 16 * 128, KEYS * 128));
    wgmma_finish();
  }
  if (HEAD_DIM > 64)
    __syncthreads(); /* the rows of tile_store lie across the slabs of queries, which others may still read */

  float factor[1][2];
  softmax_end(state, factor, a, seq, q0 + row_warp);
  tile_store<HEAD_DIM, HEAD_DIM>(out, factor, shared_memory(), row_warp, a.out + offset_q, q0, seq.len_q, stride_q);
}

extern "C" __global__ void __launch_bounds__(32 * attention_forward_wgmma_tiles().warps, 1)
    attention_forward_wgmma_64(const struct attention_args a) {
  attention_forward_wgmma<64>(a);
}
extern "C" __global__ void __launch_bounds__(32 * attention_forward_wgmma_tiles().warps, 1)
    attention_forward_wgmma_128(const struct attention_args a) {
  attention_forward_wgmma<128>(a);
}
