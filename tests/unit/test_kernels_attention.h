/* Attention on sequences of given lengths: its arrays, and the call on them. */
#ifndef TESTS_UNIT_TEST_KERNELS_ATTENTION_H
#define TESTS_UNIT_TEST_KERNELS_ATTENTION_H
#include "kernels/operator.h"
#include "tests/unit/test_kernels_arrays.h"

enum { Q, K, V, OUT, LSE, DOUT, DQ, DK, DV, DELTA, ATTENTION_ARRAYS };

enum { MAX_BATCH = 16 };

struct batch {
  int n;
  int32_t q[MAX_BATCH + 1], k[MAX_BATCH + 1]; /* first rows */
  int max_q, max_k;
};

struct heads {
  int heads, kv_heads, head_dim;
};

/* Sequences of q_lengths on k_lengths (NULL: the same). */
static inline struct batch batch_of(int n, const int32_t *q_lengths, const int32_t *k_lengths) {
  struct batch b = {.n = n};
  for (int i = 0; i < n; i++) {
    const int32_t q = q_lengths[i], k = (k_lengths ? k_lengths : q_lengths)[i];
    b.q[i + 1] = b.q[i] + q;
    b.k[i + 1] = b.k[i] + k;
    b.max_q = q > b.max_q ? q : b.max_q;
    b.max_k = k > b.max_k ? k : b.max_k;
  }
  return b;
}

static inline void attention_arrays(struct arrays *a, const struct batch *b, struct heads h, uint64_t seed) {
  const size_t q = (size_t)(b->q[b->n] * h.heads * h.head_dim), k = (size_t)(b->k[b->n] * h.kv_heads * h.head_dim);
  const size_t rows = (size_t)(b->q[b->n] * h.heads);
  const size_t size[ATTENTION_ARRAYS] = {q, k, k, q, rows, q, q, k, k, rows};
  arrays_init(a, ATTENTION_ARRAYS, size, seed);
}

static inline struct attention_call attention_call_of(void *const p[], const struct batch *b, struct heads h,
                                                      bool causal) {
  return (struct attention_call){.batch = b->n,
                                 .heads = h.heads,
                                 .kv_heads = h.kv_heads,
                                 .head_dim = h.head_dim,
                                 .q_rows = b->q[b->n],
                                 .kv_rows = b->k[b->n],
                                 .max_q = b->max_q,
                                 .max_kv = b->max_k,
                                 .causal = causal,
                                 .scale = 1 / sqrtf((float)h.head_dim),
                                 .cu_seqlens_q = b->q,
                                 .cu_seqlens_k = b->k,
                                 .q = p[Q],
                                 .k = p[K],
                                 .v = p[V],
                                 .out = p[OUT],
                                 .lse = p[LSE],
                                 .dout = p[DOUT],
                                 .dq = p[DQ],
                                 .dk = p[DK],
                                 .dv = p[DV],
                                 .delta = p[DELTA]};
}

#endif
