/* attention.h: scaled dot-product attention of sequences of unequal length, packed one after another, with
 * grouped-query heads; self- and cross-attention.
 *
 * Sequence b has queries cu_seqlens_q[b] .. cu_seqlens_q[b+1] - 1 and keys cu_seqlens_k[b] .. cu_seqlens_k[b+1] - 1
 * (int32, batch + 1 rising entries from 0). Head h uses key head h / (heads / kv_heads). For each query i (position
 * within its sequence of n_q queries and n_k keys):
 *   s_ij = scale q_i . k_j over keys j, causal: only j <= i + n_k - n_q (the last query sees every key)
 *   lse_i = log sum_j exp(s_ij),  p_ij = exp(s_ij - lse_i),  out_i = sum_j p_ij v_j
 * A query without keys has out 0 and lse -infinity. Backward, from dout:
 *   delta_i = dout_i . out_i,  ds_ij = p_ij (dout_i . v_j - delta_i)
 *   dq_i = scale sum_j ds_ij k_j,  dk_j = scale sum ds_ij q_i,  dv_j = sum p_ij dout_i, the sums over i and over the
 *   query heads of a key head.
 * Backward takes out and lse as given, so that the blocks of a ring can be done one by one with those of the whole.
 *
 * All dense: q, dq, out, dout (q_rows, heads, head_dim); k, v, dk, dv (kv_rows, kv_heads, head_dim). */
#ifndef KERNELS_ATTENTION_H
#define KERNELS_ATTENTION_H
#include <stdbool.h>
#include <stdint.h>

struct attention_call {
  int64_t batch, heads, kv_heads, head_dim; /* heads a multiple of kv_heads; head_dim 1..256 */
  int64_t q_rows, kv_rows;                  /* the last entries of cu_seqlens_q, cu_seqlens_k */
  int64_t max_q, max_kv;                    /* the longest sequence, or more */
  bool causal;
  float scale;                                /* 1 / sqrt(head_dim) as a rule */
  const int32_t *cu_seqlens_q, *cu_seqlens_k; /* on the device */
  const void *q, *k, *v;                      /* elements */
  void *out;                                  /* elements; backward reads it */
  void *lse;                                  /* fp32 (heads, q_rows); backward reads it */
  /* Backward only. */
  const void *dout;   /* elements */
  void *dq, *dk, *dv; /* elements, overwritten */
  void *delta;        /* fp32 (heads, q_rows), overwritten: scratch */
};

void attention_forward_reference(const struct attention_call *call);
void attention_backward_reference(const struct attention_call *call);
void attention_forward_cpu(const struct attention_call *call);
void attention_backward_cpu(const struct attention_call *call);

#endif
