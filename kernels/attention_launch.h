/* attention_launch.h: exact attention, forward and backward, over sequences packed one after another; see attention.cu.
 *
 *   out[i] = sum_j softmax_j(scale q[i] . k[j]) v[j],   within a sequence and over the keys that query i may see:
 *   all, or causal: j <= i + len_k - len_q, the last query sees every key. A query that sees none gets out 0, lse -inf.
 *
 * Passes, in this order: attention_forward (out, lse); attention_delta (delta), attention_key_value_gradient (dk, dv),
 * attention_query_gradient (dq). Results do not depend on the order in which blocks run. */
#ifndef KERNELS_ATTENTION_LAUNCH_H
#define KERNELS_ATTENTION_LAUNCH_H
#include <stdint.h>

#include "kernels/kernel_launch.h"

/* Shapes of bf16 tensors, contiguous and 16-byte aligned: q, out, dout, dq (tokens_q, heads_q, head_dim); k, v, dk, dv
 * (tokens_k, heads_kv, head_dim). lse, delta: (heads_q, tokens_q) fp32; lse is the natural log of the sum of
 * exp(scale q . k). A pass reads and writes what the list above says and leaves the other pointers alone.
 * cu_seqlens_X: (sequences + 1) first tokens of the sequences, from 0 to tokens_X; sequences may be empty on either
 * side. head_dim 16, 32, 64, 72, 80, 96 or 128; heads_q a multiple of heads_kv: query head h reads key head
 * h / (heads_q/heads_kv). At most 65535 sequences. */
struct attention_args {
  const uint16_t *q, *k, *v;
  uint16_t *out;
  float *lse;
  const uint16_t *dout;
  float *delta;
  uint16_t *dq, *dk, *dv;
  const int32_t *cu_seqlens_q, *cu_seqlens_k;
  int32_t sequences, tokens_q, tokens_k;
  int32_t max_len_q, max_len_k; /* longest sequence on either side, or more */
  int32_t heads_q, heads_kv, head_dim;
  int32_t causal; /* 0 or 1 */
  float scale;    /* > 0, usually 1 / sqrt(head_dim) */
};

/* Tiles. Rows are what a block owns: 16 * m_tiles * warps queries, or keys in the key_value gradient. Columns are what
 * it loops over, in `stages` buffers. */
struct attention_tiles {
  int warps, m_tiles, columns, stages;
};

enum { ATTENTION_DELTA_TOKENS = 8 }; /* of a block */

LAUNCH_INLINE int attention_padded_dim(int head_dim) { return head_dim == 72 ? 80 : head_dim; }

LAUNCH_INLINE struct attention_tiles attention_forward_tiles(int head_dim) {
  struct attention_tiles narrow = {4, 2, head_dim <= 64 ? 48 : 32, 3}; /* 32 rows a warp read each key once for two */
  struct attention_tiles wide = {8, 1, 64, 2}; /* head dims from 96: 32 rows would not fit registers */
  return head_dim >= 96 ? wide : narrow;
}

LAUNCH_INLINE struct attention_tiles attention_key_value_gradient_tiles(int head_dim) {
  struct attention_tiles t = {8, 1, head_dim >= 96 ? 32 : 64, 2};
  return t;
}

LAUNCH_INLINE struct attention_tiles attention_query_gradient_tiles(int head_dim) {
  struct attention_tiles t = {8, 1, head_dim >= 96 ? 32 : 64, 2};
  return t;
}

LAUNCH_INLINE int attention_tile_rows(struct attention_tiles t) { return 16 * t.m_tiles * t.warps; }

/* `row_tensors` resident tiles, 2 tiles a stage, and in each stage `vectors` floats a column. */
LAUNCH_INLINE unsigned attention_shared_bytes(struct attention_tiles t, int head_dim, int row_tensors, int vectors) {
  return (unsigned)(attention_padded_dim(head_dim) * 2 *
                        (row_tensors * attention_tile_rows(t) + 2 * t.stages * t.columns) +
                    4 * vectors * t.stages * t.columns);
}

LAUNCH_INLINE struct kernel_launch attention_tiled_launch(const char *kernel, struct attention_tiles t, int32_t len,
                                                          int32_t heads, int32_t sequences, unsigned shared_bytes) {
  struct kernel_launch l = {
      kernel,
      {(unsigned)launch_ceil_div(len, attention_tile_rows(t)), (unsigned)heads, (unsigned)sequences},
      (unsigned)(32 * t.warps),
      shared_bytes};
  return l;
}

LAUNCH_INLINE const char *attention_kernel(int head_dim, const char *of_16, const char *of_32, const char *of_64,
                                           const char *of_72, const char *of_80, const char *of_96,
                                           const char *of_128) {
  switch (head_dim) {
  case 16:
    return of_16;
  case 32:
    return of_32;
  case 64:
    return of_64;
  case 72:
    return of_72;
  case 80:
    return of_80;
  case 96:
    return of_96;
  case 128:
    return of_128;
  default:
    return 0;
  }
}

LAUNCH_INLINE struct kernel_launch attention_forward_launch(const struct attention_args *a) {
  const char *kernel =
      attention_kernel(a->head_dim, "attention_forward_16", "attention_forward_32", "attention_forward_64",
                       "attention_forward_72", "attention_forward_80", "attention_forward_96", "attention_forward_128");
  struct attention_tiles t = attention_forward_tiles(a->head_dim);
  return attention_tiled_launch(kernel, t, a->max_len_q, a->heads_q, a->sequences,
                                attention_shared_bytes(t, a->head_dim, 1, 0));
}

/* The same pass with wgmma, for head dims 64 and 128 on sm_90a; see attention_wgmma.cu. */
LAUNCH_INLINE struct attention_tiles attention_forward_wgmma_tiles(void) {
  struct attention_tiles t = {8, 1, 128, 2};
  return t;
}

LAUNCH_INLINE struct kernel_launch attention_forward_wgmma_launch(const struct attention_args *a) {
  const char *kernel =
      attention_kernel(a->head_dim, 0, 0, "attention_forward_wgmma_64", 0, 0, 0, "attention_forward_wgmma_128");
  struct attention_tiles t = attention_forward_wgmma_tiles();
  return attention_tiled_launch(kernel, t, a->max_len_q, a->heads_q, a->sequences,
                                attention_shared_bytes(t, a->head_dim, 1, 0));
}

LAUNCH_INLINE struct kernel_launch attention_delta_launch(const struct attention_args *a) {
  const char *const k = "attention_delta", *kernel = attention_kernel(a->head_dim, k, k, k, k, k, k, k);
  struct kernel_launch l =
      launch_line(kernel, a->tokens_q, ATTENTION_DELTA_TOKENS, INT32_MAX, 32 * ATTENTION_DELTA_TOKENS);
  l.grid[1] = (unsigned)a->heads_q;
  return l;
}

LAUNCH_INLINE struct kernel_launch attention_key_value_gradient_launch(const struct attention_args *a) {
  const char *kernel = attention_kernel(a->head_dim, "attention_key_value_gradient_16",
                                        "attention_key_value_gradient_32", "attention_key_value_gradient_64",
                                        "attention_key_value_gradient_72", "attention_key_value_gradient_80",
                                        "attention_key_value_gradient_96", "attention_key_value_gradient_128");
  struct attention_tiles t = attention_key_value_gradient_tiles(a->head_dim);
  return attention_tiled_launch(kernel, t, a->max_len_k, a->heads_kv, a->sequences,
                                attention_shared_bytes(t, a->head_dim, 2, 2));
}

LAUNCH_INLINE struct kernel_launch attention_query_gradient_launch(const struct attention_args *a) {
  const char *kernel =
      attention_kernel(a->head_dim, "attention_query_gradient_16", "attention_query_gradient_32",
                       "attention_query_gradient_64", "attention_query_gradient_72", "attention_query_gradient_80",
                       "attention_query_gradient_96", "attention_query_gradient_128");
  struct attention_tiles t = attention_query_gradient_tiles(a->head_dim);
  return attention_tiled_launch(kernel, t, a->max_len_q, a->heads_q, a->sequences,
                                attention_shared_bytes(t, a->head_dim, 2, 0));
}

#endif
