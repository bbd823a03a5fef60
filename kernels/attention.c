#include "kernels/attention.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/blas.h"
#include "kernels/vector_exp.h"
#include "sim/base/err.h"
#include "sim/base/units.h"

/* Keys that query i of a sequence sees: the first so many. */
static int64_t keys_seen(bool causal, int64_t i, int64_t n_q, int64_t n_k) {
  return causal ? int64_max(0, i + n_k - n_q + 1) : n_k;
}

/* One query head on its key head in one sequence. Rows of q and out are q_stride apart, of k and v kv_stride. */
struct head {
  int64_t n_q, n_k, q_stride, kv_stride;
  int64_t q_at, kv_at, lse_at; /* of the first row in q, out and the like; k, v; lse, delta */
};

static struct head head_of(const struct attention_call *c, int64_t sequence, int64_t h) {
  const int64_t q0 = c->cu_seqlens_q[sequence], k0 = c->cu_seqlens_k[sequence];
  const int64_t kv_head = h / (c->heads / c->kv_heads);
  return (struct head){.n_q = c->cu_seqlens_q[sequence + 1] - q0,
                       .n_k = c->cu_seqlens_k[sequence + 1] - k0,
                       .q_stride = c->heads * c->head_dim,
                       .kv_stride = c->kv_heads * c->head_dim,
                       .q_at = (q0 * c->heads + h) * c->head_dim,
                       .kv_at = (k0 * c->kv_heads + kv_head) * c->head_dim,
                       .lse_at = h * c->q_rows + q0};
}

static void check(const struct attention_call *c) {
  ASSERT(c->kv_heads > 0 && c->heads % c->kv_heads == 0 && c->head_dim > 0);
  ASSERT(c->batch == 0 || (c->cu_seqlens_q[c->batch] == c->q_rows && c->cu_seqlens_k[c->batch] == c->kv_rows));
}

/* ---- Reference ----------------------------------------------------------------------------------------------------
 */

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    sum += a[i] * b[i];
  return sum;
}

static void head_forward_reference(const struct attention_call *c, const struct head *h) {
  const double *q = (const double *)c->q + h->q_at, *k = (const double *)c->k + h->kv_at;
  const double *v = (const double *)c->v + h->kv_at;
  double *out = (double *)c->out + h->q_at, *lse = (double *)c->lse + h->lse_at;
  for (int64_t i = 0; i < h->n_q; i++) {
    const int64_t seen = keys_seen(c->causal, i, h->n_q, h->n_k);
    double *row = out + i * h->q_stride, max = -INFINITY, sum = 0;
    for (int64_t l = 0; l < c->head_dim; l++)
      row[l] = 0;
    for (int64_t j = 0; j < seen; j++)
      max = fmax(max, c->scale * dot(q + i * h->q_stride, k + j * h->kv_stride, c->head_dim));
    for (int64_t j = 0; j < seen; j++) {
      double p = exp(c->scale * dot(q + i * h->q_stride, k + j * h->kv_stride, c->head_dim) - max);
      sum += p;
      for (int64_t l = 0; l < c->head_dim; l++)
        row[l] += p * v[j * h->kv_stride + l];
    }
    for (int64_t l = 0; l < c->head_dim && seen > 0; l++)
      row[l] /= sum;
    lse[i] = seen > 0 ? max + log(sum) : -INFINITY;
  }
}

void attention_forward_reference(const struct attention_call *call) {
  check(call);
  for (int64_t b = 0; b < call->batch; b++)
    for (int64_t h = 0; h < call->heads; h++) {
      const struct head head = head_of(call, b, h);
      head_forward_reference(call, &head);
    }
}

/* Adds to dq, dk and dv. */
static void head_backward_reference(const struct attention_call *c, const struct head *h) {
  const double *q = (const double *)c->q + h->q_at, *k = (const double *)c->k + h->kv_at;
  const double *v = (const double *)c->v + h->kv_at, *dout = (const double *)c->dout + h->q_at;
  const double *out = (const double *)c->out + h->q_at, *lse = (const double *)c->lse + h->lse_at;
  double *dq = (double *)c->dq + h->q_at, *dk = (double *)c->dk + h->kv_at, *dv = (double *)c->dv + h->kv_at;
  for (int64_t i = 0; i < h->n_q; i++) {
    const int64_t row = i * h->q_stride;
    const double delta = dot(dout + row, out + row, c->head_dim);
    for (int64_t j = 0; j < keys_seen(c->causal, i, h->n_q, h->n_k); j++) {
      const int64_t key = j * h->kv_stride;
      const double p = exp(c->scale * dot(q + row, k + key, c->head_dim) - lse[i]);
      const double ds = p * (dot(dout + row, v + key, c->head_dim) - delta);
      for (int64_t l = 0; l < c->head_dim; l++) {
        dq[row + l] += c->scale * ds * k[key + l];
        dk[key + l] += c->scale * ds * q[row + l];
        dv[key + l] += p * dout[row + l];
      }
    }
  }
}

void attention_backward_reference(const struct attention_call *call) {
  check(call);
  double *dq = call->dq, *dk = call->dk, *dv = call->dv;
  for (int64_t i = 0; i < call->q_rows * call->heads * call->head_dim; i++)
    dq[i] = 0;
  for (int64_t i = 0; i < call->kv_rows * call->kv_heads * call->head_dim; i++)
    dk[i] = dv[i] = 0;
  for (int64_t b = 0; b < call->batch; b++)
    for (int64_t h = 0; h < call->heads; h++) {
      const struct head head = head_of(call, b, h);
      head_backward_reference(call, &head);
    }
}

/* ---- CPU: blocks of queries and keys, their products by BLAS
 * ---------------------------------------------------------- */

enum { Q_BLOCK = 64, K_BLOCK = 256 };

/* s = scale q k^T of the block of queries from i0 and keys from j0, rows K_BLOCK apart. */
static void block_scores(const struct attention_call *c, const struct head *h, int64_t i0, int64_t n_i, int64_t j0,
                         int64_t n_j, float *s) {
  blas_sgemm(&(struct blas_product){.b_transposed = true,
                                    .m = n_i,
                                    .n = n_j,
                                    .k = c->head_dim,
                                    .alpha = c->scale,
                                    .a = (const float *)c->q + h->q_at + i0 * h->q_stride,
                                    .lda = h->q_stride,
                                    .b = (const float *)c->k + h->kv_at + j0 * h->kv_stride,
                                    .ldb = h->kv_stride,
                                    .c = s,
                                    .ldc = K_BLOCK});
}

/* Keys of the block from j0 that query i sees. */
static int64_t block_seen(const struct attention_call *c, const struct head *h, int64_t i, int64_t j0, int64_t n_j) {
  return int64_max(0, int64_min(n_j, keys_seen(c->causal, i, h->n_q, h->n_k) - j0));
}

/* Scores to exp(s - max), sums and rows of `out` to match: max may rise from block to block. */
static void rescale_row(float *s, int64_t seen, int64_t n_j, float *max, float *sum, float *out, int64_t head_dim) {
  float highest = *max, added = 0;
#pragma omp simd reduction(max : highest)
  for (int64_t j = 0; j < seen; j++)
    highest = s[j] > highest ? s[j] : highest;
  for (int64_t j = seen; j < n_j; j++)
    s[j] = 0;
  if (seen == 0)
    return;
  if (highest > *max) {
    const float factor = expf(*max - highest);
    for (int64_t l = 0; l < head_dim; l++)
      out[l] *= factor;
    *sum *= factor;
    *max = highest;
  }
#pragma omp simd reduction(+ : added)
  for (int64_t j = 0; j < seen; j++) {
    s[j] = vector_exp(s[j] - highest);
    added += s[j];
  }
  *sum += added;
}

static void block_forward(const struct attention_call *c, const struct head *h, int64_t i0, float *s) {
  const int64_t n_i = int64_min(Q_BLOCK, h->n_q - i0);
  const int64_t last_seen = keys_seen(c->causal, i0 + n_i - 1, h->n_q, h->n_k);
  float max[Q_BLOCK], sum[Q_BLOCK];
  float *out = (float *)c->out + h->q_at + i0 * h->q_stride, *lse = (float *)c->lse + h->lse_at + i0;
  for (int64_t i = 0; i < n_i; i++) {
    max[i] = -INFINITY;
    sum[i] = 0;
    for (int64_t l = 0; l < c->head_dim; l++)
      out[i * h->q_stride + l] = 0;
  }
  for (int64_t j0 = 0; j0 < last_seen; j0 += K_BLOCK) {
    const int64_t n_j = int64_min(K_BLOCK, last_seen - j0);
    block_scores(c, h, i0, n_i, j0, n_j, s);
    for (int64_t i = 0; i < n_i; i++)
      rescale_row(s + i * K_BLOCK, block_seen(c, h, i0 + i, j0, n_j), n_j, &max[i], &sum[i], out + i * h->q_stride,
                  c->head_dim);
    blas_sgemm(&(struct blas_product){.m = n_i,
                                      .n = c->head_dim,
                                      .k = n_j,
                                      .alpha = 1,
                                      .a = s,
                                      .lda = K_BLOCK,
                                      .b = (const float *)c->v + h->kv_at + j0 * h->kv_stride,
                                      .ldb = h->kv_stride,
                                      .beta = 1,
                                      .c = out,
                                      .ldc = h->q_stride});
  }
  for (int64_t i = 0; i < n_i; i++) {
    for (int64_t l = 0; l < c->head_dim && sum[i] > 0; l++)
      out[i * h->q_stride + l] /= sum[i];
    lse[i] = max[i] + logf(sum[i]);
  }
}

void attention_forward_cpu(const struct attention_call *call) {
  check(call);
  float *s = xmalloc(sizeof *s * Q_BLOCK * K_BLOCK);
  for (int64_t b = 0; b < call->batch; b++)
    for (int64_t h = 0; h < call->heads; h++) {
      const struct head head = head_of(call, b, h);
      for (int64_t i0 = 0; i0 < head.n_q; i0 += Q_BLOCK)
        block_forward(call, &head, i0, s);
    }
  free(s);
}

/* p and ds of one block from its scores, in p and ds. */
static void block_gradients(const struct attention_call *c, const struct head *h, int64_t i0, int64_t n_i, int64_t j0,
                            int64_t n_j, float *p, float *ds) {
  const float *lse = (const float *)c->lse + h->lse_at + i0, *delta = (const float *)c->delta + h->lse_at + i0;
  block_scores(c, h, i0, n_i, j0, n_j, p);
  blas_sgemm(&(struct blas_product){.b_transposed = true,
                                    .m = n_i,
                                    .n = n_j,
                                    .k = c->head_dim,
                                    .alpha = 1,
                                    .a = (const float *)c->dout + h->q_at + i0 * h->q_stride,
                                    .lda = h->q_stride,
                                    .b = (const float *)c->v + h->kv_at + j0 * h->kv_stride,
                                    .ldb = h->kv_stride,
                                    .c = ds,
                                    .ldc = K_BLOCK});
  for (int64_t i = 0; i < n_i; i++) {
    const int64_t seen = block_seen(c, h, i0 + i, j0, n_j);
    float *p_row = p + i * K_BLOCK, *ds_row = ds + i * K_BLOCK;
#pragma omp simd
    for (int64_t j = 0; j < seen; j++) {
      p_row[j] = vector_exp(p_row[j] - lse[i]);
      ds_row[j] = c->scale * p_row[j] * (ds_row[j] - delta[i]);
    }
    for (int64_t j = seen; j < n_j; j++)
      p_row[j] = ds_row[j] = 0;
  }
}

/* Adds what one block gives to dq, dk, dv. */
static void block_backward(const struct attention_call *c, const struct head *h, int64_t i0, int64_t n_i, int64_t j0,
                           int64_t n_j, float *p, float *ds) {
  const int64_t q_at = h->q_at + i0 * h->q_stride, kv_at = h->kv_at + j0 * h->kv_stride;
  block_gradients(c, h, i0, n_i, j0, n_j, p, ds);
  struct blas_product dq = {.m = n_i,
                            .n = c->head_dim,
                            .k = n_j,
                            .alpha = 1,
                            .a = ds,
                            .lda = K_BLOCK,
                            .b = (const float *)c->k + kv_at,
                            .ldb = h->kv_stride,
                            .beta = 1,
                            .c = (float *)c->dq + q_at,
                            .ldc = h->q_stride};
  struct blas_product dk = {.a_transposed = true,
                            .m = n_j,
                            .n = c->head_dim,
                            .k = n_i,
                            .alpha = 1,
                            .a = ds,
                            .lda = K_BLOCK,
                            .b = (const float *)c->q + q_at,
                            .ldb = h->q_stride,
                            .beta = 1,
                            .c = (float *)c->dk + kv_at,
                            .ldc = h->kv_stride};
  struct blas_product dv = dk;
  dv.a = p;
  dv.b = (const float *)c->dout + q_at;
  dv.c = (float *)c->dv + kv_at;
  blas_sgemm(&dq);
  blas_sgemm(&dk);
  blas_sgemm(&dv);
}

static void head_backward(const struct attention_call *c, const struct head *h, float *p, float *ds) {
  const float *out = (const float *)c->out + h->q_at, *dout = (const float *)c->dout + h->q_at;
  float *delta = (float *)c->delta + h->lse_at;
  for (int64_t i = 0; i < h->n_q; i++) {
    delta[i] = 0;
    for (int64_t l = 0; l < c->head_dim; l++)
      delta[i] += dout[i * h->q_stride + l] * out[i * h->q_stride + l];
  }
  for (int64_t i0 = 0; i0 < h->n_q; i0 += Q_BLOCK) {
    const int64_t n_i = int64_min(Q_BLOCK, h->n_q - i0);
    const int64_t last_seen = keys_seen(c->causal, i0 + n_i - 1, h->n_q, h->n_k);
    for (int64_t j0 = 0; j0 < last_seen; j0 += K_BLOCK)
      block_backward(c, h, i0, n_i, j0, int64_min(K_BLOCK, last_seen - j0), p, ds);
  }
}

void attention_backward_cpu(const struct attention_call *call) {
  check(call);
  float *dq = call->dq, *dk = call->dk, *dv = call->dv;
  for (int64_t i = 0; i < call->q_rows * call->heads * call->head_dim; i++)
    dq[i] = 0;
  for (int64_t i = 0; i < call->kv_rows * call->kv_heads * call->head_dim; i++)
    dk[i] = dv[i] = 0;
  float *p = xmalloc(sizeof *p * Q_BLOCK * K_BLOCK), *ds = xmalloc(sizeof *ds * Q_BLOCK * K_BLOCK);
  for (int64_t b = 0; b < call->batch; b++)
    for (int64_t h = 0; h < call->heads; h++) {
      const struct head head = head_of(call, b, h);
      head_backward(call, &head, p, ds);
    }
  free(p);
  free(ds);
}
