/* bucket.h: bucketing: which samples share a shape. Text: intervals of length, padded to their upper bound. Video: one
 * bucket per (frames, positions). */
#ifndef TRACES_BUCKET_H
#define TRACES_BUCKET_H
#include "traces/trace.h"

struct bucket {
  char name[32];       /* "2048" (upper bound) or "15x3600" (frames x positions) */
  struct sample shape; /* padded shape: {bound, 1} or {frames, positions} */
  int64_t samples;
};

struct bucketing {
  struct bucket *buckets; /* in insertion order: first appearance in the trace */
  int n;
  uint16_t *of_sample; /* bucket of each sample given to bucketing_make, in its order */
};

/* Text bounds: ceil(2^(i/per_octave)), i = 0, 1, ..., rounded up to a multiple of 128 above 128, no duplicates; or the
 * ascending list `bounds` (n_bounds > 0; the longest sample must not exceed the last). */
int bucketing_make(struct bucketing *out, const struct sample *samples, int64_t n, bool is_2d, int per_octave,
                   const int64_t *bounds, int n_bounds, struct err *err);
void bucketing_release(struct bucketing *b);

/* The padded length for `tokens` under the default bounds: what static pads its longest sample to. */
int64_t bucket_bound(int64_t tokens, int per_octave);

#endif
