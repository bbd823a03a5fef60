/* bucket_queues.h: which samples a bucket's micro-batches get: each bucket's samples in arrival order, taken from the
 * front as they run (from the back where a rule drops the rest of a bucket). Prefix sums answer in O(1) how many real
 * tokens the next samples hold, before they are taken. */
#ifndef SIM_POLICY_BUCKET_QUEUES_H
#define SIM_POLICY_BUCKET_QUEUES_H
#include <stdint.h>

#include "sim/plan/plan.h"
#include "sim/plan/sample_set.h"

struct bucket_queues {
  int n;                  /* buckets */
  uint32_t *entries;      /* indices into the sample_set, by bucket, arrival order within */
  int64_t *start;         /* n+1: bucket b is entries[start[b]..start[b+1]) */
  int64_t *tokens_before; /* per position in `entries` (and one past the end): real tokens of all positions before */
  int64_t *front, *back;  /* per bucket: next position, one past the last */
};

/* Every entry of `samples` must name a bucket below n_buckets. */
void bucket_queues_init(struct bucket_queues *q, const struct sample_set *samples, int n_buckets);
void bucket_queues_release(struct bucket_queues *q);

/* Samples of the whole bucket, taken or not. */
int64_t bucket_queues_count(const struct bucket_queues *q, int bucket);
/* Real tokens of `count` samples of the bucket from the `from`-th on (0-based, counted from the bucket's first). */
int64_t bucket_queues_tokens(const struct bucket_queues *q, int bucket, int64_t from, int64_t count);

/* Names the samples of every drop and micro-batch of `it` that only counts them, in order, and sets their tokens. */
void bucket_queues_assign(struct bucket_queues *q, struct plan_iteration *it);

#endif
