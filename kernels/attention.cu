/* attention.cu: flash attention for mma.sync tensor cores (sm_80 and later; compiled for sm_90a). Passes, shapes and
 * what a query may see: attention_launch.h.
 *
 * Each block owns a tile of rows and loops over tiles of columns, which cp.async brings in while it computes. Scores
 * stay in registers: a warp has whole rows of them, so that a softmax needs two shuffles, and as results of one product
 * they are the left factor of the next without passing through shared memory.
 *
 * The backward pass is two kernels, one over keys (dk, dv) and one over queries (dq), each making the scores again: 7
 * products a tile instead of 5. The alternative, one kernel over keys that adds to an fp32 dq with atomics, would give
 * other last bits in every run, and take 8 bytes of traffic per element of dq and tile of keys, a pass that converts dq
 * to bf16, and scores that go through shared memory. dk and dv of a key head add up the query heads of its group in
 * order within one block. So all results are the same in every run.
 *
 * Not run on hardware so far: the logic is tested on a CPU (tests/cuda), the code is compiled and has no spills. */
#include "kernels/attention.cuh"
#include "kernels/tile.cuh"

/* The tile of rows is read, and at the end reused to write results, by the warp that owns its rows only: no barrier is
 * needed between the last step and tile_store, and none of its copies are under way without a step. */

template <int HEAD_DIM> static __device__ __forceinline__ void attention_forward(const struct attention_args &a) {
  constexpr int COLUMNS = attention_padded_dim(HEAD_DIM);
  constexpr struct attention_tiles T = attention_forward_tiles(HEAD_DIM);
  constexpr int ROWS = attention_tile_rows(T), KEYS = T.columns, THREADS = 32 * T.warps, STAGES = T.stages;
  constexpr int KEY_BYTES = KEYS * COLUMNS * 2;
  const struct sequence seq = sequence_of_block(a);
  /* The last queries see the most keys: start them first. */
  const int q0 = (int)(gridDim.x - 1 - blockIdx.x) * ROWS, head = (int)blockIdx.y;
  if (q0 >= seq.len_q)
    return;
  const int kv_head = head / (a.heads_q / a.heads_kv);
  const int row_warp = (int)threadIdx.x / 32 * 16 * T.m_tiles;
  const int64_t stride_q = (int64_t)a.heads_q * HEAD_DIM, stride_k = (int64_t)a.heads_kv * HEAD_DIM;
  const int64_t offset_q = head_offset<HEAD_DIM>(seq.first_q, a.heads_q, head);
  const int64_t offset_k = head_offset<HEAD_DIM>(seq.first_k, a.heads_kv, kv_head);
  const shared_address q_tile = shared_address_of(shared_memory()), stages = q_tile + ROWS * COLUMNS * 2;
  const int steps = (keys_seen(seq, q0 + ROWS) + KEYS - 1) / KEYS;

  auto copy_keys = [&](int step) {
    if (step < steps) {
      shared_address k_tile = stages + step % STAGES * 2 * KEY_BYTES;
      tile_copy<HEAD_DIM, COLUMNS, KEYS, THREADS>(k_tile, a.k + offset_k, step * KEYS, seq.len_k, stride_k);
      tile_copy<HEAD_DIM, COLUMNS, KEYS, THREADS>(k_tile + KEY_BYTES, a.v + offset_k, step * KEYS, seq.len_k, stride_k);
    }
    cp_async_commit(); /* one group per step, even an empty one, keeps the count that the wait goes by */
  };
  if (steps > 0)
    tile_copy<HEAD_DIM, COLUMNS, ROWS, THREADS>(q_tile, a.q + offset_q, q0, seq.len_q, stride_q);
  for (int step = 0; step < STAGES - 1; step++)
    copy_keys(step);

  float out[T.m_tiles][COLUMNS / 8][4];
  struct softmax<T.m_tiles> state;
  tile_zero(out);
  softmax_begin(&state);
  const float scale_log2 = a.scale * LOG2_E;
  for (int step = 0; step < steps; step++) {
    cp_async_wait<STAGES - 2>();
    __syncthreads(); /* this step's tiles are there for all, and all are done with the buffer that is filled next */
    copy_keys(step + STAGES - 1);
    shared_address k_tile = stages + step % STAGES * 2 * KEY_BYTES;
    float s[T.m_tiles][KEYS / 8][4];
    tile_zero(s);
    tile_product_transposed<COLUMNS>(s, q_tile, row_warp, k_tile);
    if (!all_visible(seq, q0, q0 + ROWS, (step + 1) * KEYS))
      mask_scores(s, seq, q0 + row_warp, step * KEYS);
    softmax_step(&state, s, out, scale_log2);
    tile_product<COLUMNS>(out, s, k_tile + KEY_BYTES);
  }

  float factor[T.m_tiles][2];
  softmax_end(state, factor, a, seq, q0 + row_warp);
  tile_store<HEAD_DIM, COLUMNS>(out, factor, shared_memory(), row_warp, a.out + offset_q, q0, seq.len_q, stride_q);
}

/* delta (heads, tokens) = sum over the head dim of out * dout. A warp per token and head; head_dim / 8 lanes work. */
extern "C" __global__ void __launch_bounds__(32 * ATTENTION_DELTA_TOKENS)
    attention_delta(const struct attention_args a) {
  const int token = (int)(blockIdx.x * ATTENTION_DELTA_TOKENS + threadIdx.x / 32), head = (int)blockIdx.y;
  const int lane = threadIdx.x % 32;
  const int64_t row = (int64_t)token * a.heads_q + head;
  if (token >= a.tokens_q)
    return;
  float sum = 0;
  if (lane * 8 < a.head_dim) {
    const uint4 o = *(const uint4 *)(a.out + row * a.head_dim + lane * 8);
    const uint4 d = *(const uint4 *)(a.dout + row * a.head_dim + lane * 8);
    const uint32_t os[4] = {o.x, o.y, o.z, o.w}, ds[4] = {d.x, d.y, d.z, d.w};
#pragma unroll
    for (int i = 0; i < 4; i++)
      sum += bf16_low(os[i]) * bf16_low(ds[i]) + bf16_high(os[i]) * bf16_high(ds[i]);
  }
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2)
    sum += shuffle_xor(sum, mask);
  if (lane == 0)
    a.delta[(int64_t)head * a.tokens_q + token] = sum;
}

/* s and dp are scores and gradients of probabilities, transposed: rows are keys from k0, columns queries from q0. s
 * becomes the probabilities, dp the gradients of the scores over `scale`. lse and delta: of the queries from q0. */
template <int M, int N>
static __device__ __forceinline__ void
score_gradient_transposed(float (&s)[M][N][4], float (&dp)[M][N][4], const struct sequence &seq, int q0, int k0,
                          bool mask, const float *lse, const float *delta, float scale_log2) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < N; n++) {
    int query = 8 * n + 2 * (lane % 4);
    float2 l = *(const float2 *)(lse + query), d = *(const float2 *)(delta + query);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float p = exp2_fast(s[m][n][i] * scale_log2 - (i % 2 ? l.y : l.x) * LOG2_E);
        if (mask && !visible(seq, q0 + query + i % 2, k0 + 16 * m + lane / 4 + 8 * (i / 2)))
          p = 0; /* also where nothing is visible and lse is -inf */
        s[m][n][i] = p;
        dp[m][n][i] = p * (dp[m][n][i] - (i % 2 ? d.y : d.x));
      }
  }
}

template <int HEAD_DIM>
static __device__ __forceinline__ void attention_key_value_gradient(const struct attention_args &a) {
  constexpr int COLUMNS = attention_padded_dim(HEAD_DIM);
  constexpr struct attention_tiles T = attention_key_value_gradient_tiles(HEAD_DIM);
  constexpr int ROWS = attention_tile_rows(T), QUERIES = T.columns, THREADS = 32 * T.warps, STAGES = T.stages;
  constexpr int ROW_BYTES = ROWS * COLUMNS * 2, QUERY_BYTES = QUERIES * COLUMNS * 2;
  constexpr int STAGE_BYTES = 2 * QUERY_BYTES + 2 * QUERIES * 4;
  const struct sequence seq = sequence_of_block(a);
  const int k0 = (int)blockIdx.x * ROWS, kv_head = (int)blockIdx.y; /* the first keys are seen by the most queries */
  if (k0 >= seq.len_k)
    return;
  const int group = a.heads_q / a.heads_kv, row_warp = (int)threadIdx.x / 32 * 16 * T.m_tiles;
  const int64_t stride_q = (int64_t)a.heads_q * HEAD_DIM, stride_k = (int64_t)a.heads_kv * HEAD_DIM;
  const int64_t offset_k = head_offset<HEAD_DIM>(seq.first_k, a.heads_kv, kv_head);
  const shared_address k_tile = shared_address_of(shared_memory()), v_tile = k_tile + ROW_BYTES;
  /* Steps: the tiles of queries that see a key of this block, for each query head of the group. */
  const int tile_first = seq.causal ? max(0, k0 - seq.shift) / QUERIES : 0;
  const int tiles = max(0, (seq.len_q + QUERIES - 1) / QUERIES - tile_first), steps = group * tiles;

  auto copy_queries = [&](int step) {
    if (step < steps) {
      int head = kv_head * group + step / tiles, q0 = (tile_first + step % tiles) * QUERIES;
      int64_t offset_q = head_offset<HEAD_DIM>(seq.first_q, a.heads_q, head);
      shared_address q_tile = v_tile + ROW_BYTES + step % STAGES * STAGE_BYTES;
      tile_copy<HEAD_DIM, COLUMNS, QUERIES, THREADS>(q_tile, a.q + offset_q, q0, seq.len_q, stride_q);
      tile_copy<HEAD_DIM, COLUMNS, QUERIES, THREADS>(q_tile + QUERY_BYTES, a.dout + offset_q, q0, seq.len_q, stride_q);
      if (threadIdx.x < 2 * QUERIES) { /* lse, then delta */
        int i = (int)threadIdx.x % QUERIES;
        bool valid = q0 + i < seq.len_q;
        const float *rows = (int)threadIdx.x < QUERIES ? a.lse : a.delta;
        cp_async_4(q_tile + 2 * QUERY_BYTES + threadIdx.x * 4,
                   valid ? rows + (int64_t)head * a.tokens_q + seq.first_q + q0 + i : rows, valid);
      }
    }
    cp_async_commit();
  };
  if (steps > 0) {
    tile_copy<HEAD_DIM, COLUMNS, ROWS, THREADS>(k_tile, a.k + offset_k, k0, seq.len_k, stride_k);
    tile_copy<HEAD_DIM, COLUMNS, ROWS, THREADS>(v_tile, a.v + offset_k, k0, seq.len_k, stride_k);
  }
  for (int step = 0; step < STAGES - 1; step++)
    copy_queries(step);

  float dk[T.m_tiles][COLUMNS / 8][4], dv[T.m_tiles][COLUMNS / 8][4];
  tile_zero(dk);
  tile_zero(dv);
  for (int step = 0; step < steps; step++) {
    cp_async_wait<STAGES - 2>();
    __syncthreads(); /* this step's tiles are there for all, and all are done with the buffer that is filled next */
    copy_queries(step + STAGES - 1);
    const int stage = 2 * ROW_BYTES + step % STAGES * STAGE_BYTES, q0 = (tile_first + step % tiles) * QUERIES;
    const shared_address q_tile = k_tile + stage, dout_tile = q_tile + QUERY_BYTES;
    const float *lse = (const float *)(shared_memory() + stage + 2 * QUERY_BYTES);
    float s[T.m_tiles][QUERIES / 8][4], dp[T.m_tiles][QUERIES / 8][4];
    tile_zero(s);
    tile_product_transposed<COLUMNS>(s, k_tile, row_warp, q_tile);
    tile_zero(dp);
    tile_product_transposed<COLUMNS>(dp, v_tile, row_warp, dout_tile);
    score_gradient_transposed(s, dp, seq, q0, k0 + row_warp, !all_visible(seq, q0, q0 + QUERIES, k0 + ROWS), lse,
                              lse + QUERIES, a.scale * LOG2_E);
    tile_product<COLUMNS>(dv, s, dout_tile);
    tile_product<COLUMNS>(dk, dp, q_tile);
  }

  float scale[T.m_tiles][2], one[T.m_tiles][2];
#pragma unroll
  for (int i = 0; i < 2 * T.m_tiles; i++) {
    scale[i / 2][i % 2] = a.scale;
    one[i / 2][i % 2] = 1;
  }
  tile_store<HEAD_DIM, COLUMNS>(dk, scale, shared_memory(), row_warp, a.dk + offset_k, k0, seq.len_k, stride_k);
  tile_store<HEAD_DIM, COLUMNS>(dv, one, shared_memory() + ROW_BYTES, row_warp, a.dv + offset_k, k0, seq.len_k,
                                stride_k);
}

/* As score_gradient_transposed, with rows = queries and their lse and delta in registers. */
template <int M, int N>
static __device__ __forceinline__ void
score_gradient(float (&s)[M][N][4], float (&dp)[M][N][4], const struct sequence &seq, int q0, int k0, bool mask,
               const float (&lse)[M][2], const float (&delta)[M][2], float scale_log2) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        float p = exp2_fast(s[m][n][i] * scale_log2 - lse[m][i / 2] * LOG2_E);
        if (mask && !visible(seq, q0 + 16 * m + lane / 4 + 8 * (i / 2), k0 + 8 * n + 2 * (lane % 4) + i % 2))
          p = 0;
        dp[m][n][i] = p * (dp[m][n][i] - delta[m][i / 2]);
      }
}

template <int HEAD_DIM>
static __device__ __forceinline__ void attention_query_gradient(const struct attention_args &a) {
  constexpr int COLUMNS = attention_padded_dim(HEAD_DIM);
  constexpr struct attention_tiles T = attention_query_gradient_tiles(HEAD_DIM);
  constexpr int ROWS = attention_tile_rows(T), KEYS = T.columns, THREADS = 32 * T.warps, STAGES = T.stages;
  constexpr int ROW_BYTES = ROWS * COLUMNS * 2, KEY_BYTES = KEYS * COLUMNS * 2;
  const struct sequence seq = sequence_of_block(a);
  const int q0 = (int)(gridDim.x - 1 - blockIdx.x) * ROWS, head = (int)blockIdx.y;
  if (q0 >= seq.len_q)
    return;
  const int kv_head = head / (a.heads_q / a.heads_kv), lane = threadIdx.x % 32;
  const int row_warp = (int)threadIdx.x / 32 * 16 * T.m_tiles;
  const int64_t stride_q = (int64_t)a.heads_q * HEAD_DIM, stride_k = (int64_t)a.heads_kv * HEAD_DIM;
  const int64_t offset_q = head_offset<HEAD_DIM>(seq.first_q, a.heads_q, head);
  const int64_t offset_k = head_offset<HEAD_DIM>(seq.first_k, a.heads_kv, kv_head);
  const shared_address q_tile = shared_address_of(shared_memory()), dout_tile = q_tile + ROW_BYTES;
  const int steps = (keys_seen(seq, q0 + ROWS) + KEYS - 1) / KEYS;

  auto copy_keys = [&](int step) {
    if (step < steps) {
      shared_address k_tile = dout_tile + ROW_BYTES + step % STAGES * 2 * KEY_BYTES;
      tile_copy<HEAD_DIM, COLUMNS, KEYS, THREADS>(k_tile, a.k + offset_k, step * KEYS, seq.len_k, stride_k);
      tile_copy<HEAD_DIM, COLUMNS, KEYS, THREADS>(k_tile + KEY_BYTES, a.v + offset_k, step * KEYS, seq.len_k, stride_k);
    }
    cp_async_commit();
  };
  if (steps > 0) {
    tile_copy<HEAD_DIM, COLUMNS, ROWS, THREADS>(q_tile, a.q + offset_q, q0, seq.len_q, stride_q);
    tile_copy<HEAD_DIM, COLUMNS, ROWS, THREADS>(dout_tile, a.dout + offset_q, q0, seq.len_q, stride_q);
  }
  for (int step = 0; step < STAGES - 1; step++)
    copy_keys(step);

  float dq[T.m_tiles][COLUMNS / 8][4], lse[T.m_tiles][2], delta[T.m_tiles][2], scale[T.m_tiles][2];
  tile_zero(dq);
#pragma unroll
  for (int m = 0; m < T.m_tiles; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int query = q0 + row_warp + 16 * m + 8 * half + lane / 4;
      int64_t i = (int64_t)head * a.tokens_q + seq.first_q + query;
      lse[m][half] = query < seq.len_q ? a.lse[i] : 0;
      delta[m][half] = query < seq.len_q ? a.delta[i] : 0;
      scale[m][half] = a.scale;
    }
  for (int step = 0; step < steps; step++) {
    cp_async_wait<STAGES - 2>();
    __syncthreads(); /* this step's tiles are there for all, and all are done with the buffer that is filled next */
    copy_keys(step + STAGES - 1);
    shared_address k_tile = dout_tile + ROW_BYTES + step % STAGES * 2 * KEY_BYTES;
    float s[T.m_tiles][KEYS / 8][4], dp[T.m_tiles][KEYS / 8][4];
    tile_zero(s);
    tile_product_transposed<COLUMNS>(s, q_tile, row_warp, k_tile);
    tile_zero(dp);
    tile_product_transposed<COLUMNS>(dp, dout_tile, row_warp, k_tile + KEY_BYTES);
    score_gradient(s, dp, seq, q0 + row_warp, step * KEYS, !all_visible(seq, q0, q0 + ROWS, (step + 1) * KEYS), lse,
                   delta, a.scale * LOG2_E);
    tile_product<COLUMNS>(dq, dp, k_tile);
  }
  tile_store<HEAD_DIM, COLUMNS>(dq, scale, shared_memory(), row_warp, a.dq + offset_q, q0, seq.len_q, stride_q);
}

/* One kernel per pass and head dim. The second bound, one block a multiprocessor, allows 255 registers a thread. */
#define ATTENTION_KERNEL(PASS, HEAD_DIM)                                                                               \
  extern "C" __global__ void __launch_bounds__(32 * attention_##PASS##_tiles(HEAD_DIM).warps, 1)                       \
      attention_##PASS##_##HEAD_DIM(const struct attention_args a) {                                                   \
    attention_##PASS<HEAD_DIM>(a);                                                                                     \
  }

#define ATTENTION_KERNELS(HEAD_DIM)                                                                                    \
  ATTENTION_KERNEL(forward, HEAD_DIM)                                                                                  \
  ATTENTION_KERNEL(key_value_gradient, HEAD_DIM)                                                                       \
  ATTENTION_KERNEL(query_gradient, HEAD_DIM)

ATTENTION_KERNELS(16)
ATTENTION_KERNELS(32)
ATTENTION_KERNELS(64)
ATTENTION_KERNELS(72)
ATTENTION_KERNELS(80)
ATTENTION_KERNELS(96)
ATTENTION_KERNELS(128)
