/* attention.cuh: what the attention kernels share: which keys a query sees, and the softmax over tiles of scores. A
 * lane holds scores as mma_16x8x16 lays them out, M tiles of 16 rows by N of 8 columns. */
#ifndef KERNELS_ATTENTION_CUH
#define KERNELS_ATTENTION_CUH
#include "kernels/attention_launch.h"
#include "kernels/intrinsics.cuh"

constexpr float LOG2_E = 1.44269504088896341f;

/* One sequence as a block sees it. Key j is visible to query i if j < len_k and, causal, j <= i + shift. */
struct sequence {
  int first_q, len_q, first_k, len_k, shift;
  bool causal;
};

static __device__ __forceinline__ struct sequence sequence_of_block(const struct attention_args &a) {
  int i = (int)blockIdx.z;
  struct sequence s;
  s.first_q = a.cu_seqlens_q[i];
  s.len_q = a.cu_seqlens_q[i + 1] - s.first_q;
  s.first_k = a.cu_seqlens_k[i];
  s.len_k = a.cu_seqlens_k[i + 1] - s.first_k;
  s.shift = s.len_k - s.len_q;
  s.causal = a.causal != 0;
  return s;
}

static __device__ __forceinline__ bool visible(const struct sequence &s, int query, int key) {
  return key < s.len_k && query < s.len_q && (!s.causal || key <= query + s.shift);
}

/* Whether all of a tile of queries [q0, q1) by keys [k0, k1) is visible. */
static __device__ __forceinline__ bool all_visible(const struct sequence &s, int q0, int q1, int k1) {
  return k1 <= s.len_k && q1 <= s.len_q && (!s.causal || k1 - 1 <= q0 + s.shift);
}

/* How many keys, from the first, the queries [q0, q1) may see. */
static __device__ __forceinline__ int keys_seen(const struct sequence &s, int q1) {
  return s.causal ? max(0, min(s.len_k, min(q1, s.len_q) + s.shift)) : s.len_k;
}

/* The element of a (tokens, heads, head_dim) tensor where a head of a sequence begins. */
template <int HEAD_DIM> static __device__ __forceinline__ int64_t head_offset(int first_token, int heads, int head) {
  return ((int64_t)first_token * heads + head) * HEAD_DIM;
}

/* Largest score of a row so far, and the sum of exponentials that this lane has seen, relative to it; base 2. */
template <int M> struct softmax { float largest[M][2], sum[M][2]; };

template <int M> static __device__ __forceinline__ void softmax_begin(struct softmax<M> *state) {
#pragma unroll
  for (int i = 0; i < 2 * M; i++) {
    state->largest[i / 2][i % 2] = -INFINITY;
    state->sum[i / 2][i % 2] = 0;
  }
}

/* Scores become exponentials; what was accumulated so far is rescaled to the new maxima. */
template <int M, int N, int D>
static __device__ __forceinline__ void softmax_step(struct softmax<M> *state, float (&s)[M][N][4],
                                                    float (&out)[M][D][4], float scale_log2) {
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float largest = state->largest[m][half];
#pragma unroll
      for (int n = 0; n < N; n++)
        largest = fmaxf(largest, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
      largest = fmaxf(largest, shuffle_xor(largest, 1));
      largest = fmaxf(largest, shuffle_xor(largest, 2));
      float base = largest == -INFINITY ? 0 : largest * scale_log2; /* nothing visible yet: all exponentials are 0 */
      float rescale = exp2_fast(state->largest[m][half] * scale_log2 - base), sum = 0;
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; i++) {
          s[m][n][i] = exp2_fast(s[m][n][i] * scale_log2 - base);
          sum += s[m][n][i];
        }
      state->largest[m][half] = largest;
      state->sum[m][half] = state->sum[m][half] * rescale + sum;
#pragma unroll
      for (int n = 0; n < D; n++) {
        out[m][n][2 * half] *= rescale;
        out[m][n][2 * half + 1] *= rescale;
      }
    }
}

/* Scores that a query may not see become -inf. Row 0 of the scores is query q0, column 0 is key k0. */
template <int M, int N>
static __device__ __forceinline__ void mask_scores(float (&s)[M][N][4], const struct sequence &seq, int q0, int k0) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (!visible(seq, q0 + 16 * m + lane / 4 + 8 * (i / 2), k0 + 8 * n + 2 * (lane % 4) + i % 2))
          s[m][n][i] = -INFINITY;
}

/* The end of the loop over keys: writes the log-sum-exp of the rows from query q0, and gives what each row of the
 * output must be multiplied by. */
template <int M>
static __device__ __forceinline__ void softmax_end(const struct softmax<M> &state, float (&factor)[M][2],
                                                   const struct attention_args &a, const struct sequence &seq, int q0) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float sum = state.sum[m][half];
      sum += shuffle_xor(sum, 1);
      sum += shuffle_xor(sum, 2);
      int query = q0 + 16 * m + 8 * half + lane / 4;
      factor[m][half] = sum > 0 ? reciprocal_fast(sum) : 0;
      if (lane % 4 == 0 && query < seq.len_q)
        a.lse[(int64_t)blockIdx.y * a.tokens_q + seq.first_q + query] =
            sum > 0 ? state.largest[m][half] * a.scale + logf(sum) : -INFINITY;
    }
}

#endif
