#include "sim/policy/bucket_queues.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

void bucket_queues_init(struct bucket_queues *q, const struct sample_set *samples, int n_buckets) {
  size_t n = (size_t)n_buckets, total = (size_t)samples->n;
  *q = (struct bucket_queues){.n = n_buckets};
  q->start = xcalloc(n + 1, sizeof *q->start);
  q->front = xcalloc(n + 1, sizeof *q->front);
  q->back = xcalloc(n + 1, sizeof *q->back);
  q->entries = xcalloc(total + 1, sizeof *q->entries);
  q->tokens_before = xcalloc(total + 1, sizeof *q->tokens_before);
  for (int64_t i = 0; i < samples->n; i++) {
    ASSERT(samples->bucket[i] < n_buckets);
    q->start[samples->bucket[i] + 1]++;
  }
  for (int b = 0; b < n_buckets; b++) {
    q->start[b + 1] += q->start[b];
    q->front[b] = q->back[b] = q->start[b];
  }
  for (int64_t i = 0; i < samples->n; i++) {
    uint32_t entry = sample_set_at(samples, i);
    q->entries[q->back[samples->bucket[entry]]++] = entry;
  }
  for (size_t i = 0; i < total; i++)
    q->tokens_before[i + 1] = q->tokens_before[i] + sample_tokens(samples->samples[q->entries[i]]);
}

void bucket_queues_release(struct bucket_queues *q) {
  free(q->entries);
  free(q->start);
  free(q->tokens_before);
  free(q->front);
  free(q->back);
  *q = (struct bucket_queues){0};
}

int64_t bucket_queues_count(const struct bucket_queues *q, int bucket) {
  return q->start[bucket + 1] - q->start[bucket];
}

int64_t bucket_queues_tokens(const struct bucket_queues *q, int bucket, int64_t from, int64_t count) {
  int64_t at = q->start[bucket] + from;
  ASSERT(from >= 0 && count >= 0 && at + count <= q->start[bucket + 1]);
  return q->tokens_before[at + count] - q->tokens_before[at];
}

static const uint32_t *take(struct bucket_queues *q, int bucket, int64_t count, bool tail, uint32_t *into) {
  ASSERT(count >= 0 && count <= q->back[bucket] - q->front[bucket]);
  int64_t at = tail ? (q->back[bucket] -= count) : q->front[bucket];
  if (!tail)
    q->front[bucket] += count;
  return memcpy(into, &q->entries[at], (size_t)count * sizeof *into);
}

void bucket_queues_assign(struct bucket_queues *q, struct plan_iteration *it) {
  int64_t total = 0;
  for (size_t i = 0; i < it->n_drops; i++)
    total += it->drops[i].samples ? 0 : it->drops[i].count;
  for (size_t i = 0; i < it->n_micro_batches; i++)
    total += it->micro_batches[i].samples ? 0 : it->micro_batches[i].count;
  if (total == 0)
    return;
  uint32_t *pool = plan_pool(it, (size_t)total);
  for (size_t i = 0; i < it->n_drops; i++) {
    struct plan_drop *d = &it->drops[i];
    if (d->samples)
      continue;
    d->samples = take(q, d->bucket, d->count, d->tail, pool);
    pool += d->count;
  }
  for (size_t i = 0; i < it->n_micro_batches; i++) {
    struct plan_micro_batch *m = &it->micro_batches[i];
    if (m->samples)
      continue;
    int64_t from = q->front[m->bucket] - q->start[m->bucket];
    m->samples = take(q, m->bucket, m->count, false, pool);
    m->tokens = bucket_queues_tokens(q, m->bucket, from, m->count);
    pool += m->count;
  }
}
