#include "sim/execute/sequences.h"

#include <stdlib.h>

#include "sim/base/units.h"

void sequences_clear(struct sequences *s) {
  s->n = 0;
  s->longest_q = s->longest_k = 0;
}

void sequences_release(struct sequences *s) {
  free(s->q);
  free(s->k);
  *s = (struct sequences){0};
}

static void add_entry(struct sequences *s, int64_t queries, int64_t keys) {
  if (s->n + 2 > s->cap) {
    s->cap = s->cap ? 2 * s->cap : 64;
    s->q = xrealloc(s->q, size_mul(s->cap, sizeof *s->q));
    s->k = xrealloc(s->k, size_mul(s->cap, sizeof *s->k));
    s->q[0] = s->k[0] = 0;
  }
  s->q[s->n + 1] = (int32_t)(s->q[s->n] + queries);
  s->k[s->n + 1] = (int32_t)(s->k[s->n] + keys);
  s->n++;
  s->longest_q = int64_max(s->longest_q, queries);
  s->longest_k = int64_max(s->longest_k, keys);
}

void sequences_add(struct sequences *s, int64_t queries, int64_t keys, int64_t seen) {
  add_entry(s, queries, seen);
  if (seen < keys)
    add_entry(s, 0, keys - seen);
}

void sequences_take(struct player *p, struct sequences *s) {
  s->cu_q = take_fp32(p, (int64_t)s->n + 1);
  s->cu_k = take_fp32(p, (int64_t)s->n + 1);
}

int sequences_upload(struct player *p, const struct sequences *s, struct err *err) {
  size_t bytes = (s->n + 1) * sizeof(int32_t);
  if (s->n == 0)
    return 0;
  return device_copy(p->device, s->cu_q, s->q, bytes, err) || device_copy(p->device, s->cu_k, s->k, bytes, err) ? -1
                                                                                                                : 0;
}

void sequences_use(const struct sequences *s, struct attention_call *call) {
  call->batch = (int64_t)s->n;
  call->q_rows = s->n ? s->q[s->n] : 0;
  call->kv_rows = s->n ? s->k[s->n] : 0;
  call->max_q = s->longest_q;
  call->max_kv = s->longest_k;
  call->cu_seqlens_q = s->cu_q;
  call->cu_seqlens_k = s->cu_k;
}
