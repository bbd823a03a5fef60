#include "traces/bucket.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

#define BUCKET_MAX 65535
#define BUCKET_MAX_PER_OCTAVE 256
#define BUCKET_MAX_BOUND (INT64_C(1) << 31)
#define DIRECT_LENGTHS 65536 /* lengths below this are looked up, the others searched for */

/* Bound number i: exp2 of an integer is exact, and no other power of two rounds across an integer here. */
static int64_t bound_at(int64_t i, int per_octave) {
  int64_t bound = (int64_t)ceil(exp2((double)i / per_octave));
  return bound > 128 ? ceil_div(bound, 128) * 128 : bound;
}

int64_t bucket_bound(int64_t tokens, int per_octave) {
  ASSERT(tokens > 0 && tokens <= BUCKET_MAX_BOUND && per_octave > 0);
  int64_t i = 0;
  while (bound_at(i, per_octave) < tokens)
    i++;
  return bound_at(i, per_octave);
}

struct bounds {
  int64_t *v;
  size_t n, cap;
};

static void default_bounds(struct bounds *b, int64_t longest, int per_octave) {
  for (int64_t i = 0; b->n == 0 || b->v[b->n - 1] < longest; i++) {
    int64_t bound = bound_at(i, per_octave);
    if (b->n == 0 || bound > b->v[b->n - 1])
      VEC_PUSH(b->v, b->n, b->cap, bound);
  }
}

static int given_bounds(struct bounds *b, int64_t longest, const int64_t *v, int n, struct err *err) {
  if (n > BUCKET_MAX)
    return err_usage(err, "more than %d bucket bounds", BUCKET_MAX);
  for (int i = 0; i < n; i++) {
    if (v[i] < 1 || v[i] > BUCKET_MAX_BOUND)
      return err_usage(err, "bucket bounds must be from 1 to %lld, got %lld", (long long)BUCKET_MAX_BOUND,
                       (long long)v[i]);
    if (i > 0 && v[i] <= v[i - 1])
      return err_usage(err, "bucket bounds must ascend, got %lld after %lld", (long long)v[i], (long long)v[i - 1]);
    VEC_PUSH(b->v, b->n, b->cap, v[i]);
  }
  if (longest > v[n - 1])
    return err_usage(err,
                     "the longest sample has %lld tokens, the last bucket bound is %lld: add a bound or cut the "
                     "samples (--max-length)",
                     (long long)longest, (long long)v[n - 1]);
  return 0;
}

/* Index of the first bound >= tokens. */
static uint32_t search(const struct bounds *b, int64_t tokens) {
  size_t low = 0, high = b->n - 1;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (b->v[mid] < tokens)
      low = mid + 1;
    else
      high = mid;
  }
  return (uint32_t)low;
}

/* Buckets of a run so far, by first appearance. */
static uint16_t append_bucket(struct bucketing *out, size_t *cap, struct sample shape) {
  size_t n = (size_t)out->n;
  struct bucket b = {.shape = shape};
  VEC_PUSH(out->buckets, n, *cap, b);
  out->n = (int)n;
  return (uint16_t)(n - 1);
}

static void bucket_by_length(struct bucketing *out, const struct sample *samples, int64_t n, const struct bounds *b) {
  uint16_t *direct = xmalloc(DIRECT_LENGTHS * sizeof *direct);
  int32_t *bucket_of_bound = xmalloc(size_mul(b->n, sizeof *bucket_of_bound));
  size_t cap = 0, bound = 0;
  for (size_t i = 0; i < b->n; i++)
    bucket_of_bound[i] = -1;
  for (int64_t t = 0; t < DIRECT_LENGTHS; t++) {
    while (bound + 1 < b->n && b->v[bound] < t)
      bound++;
    direct[t] = (uint16_t)bound;
  }
  for (int64_t i = 0; i < n; i++) {
    uint32_t tokens = samples[i].a;
    uint32_t at = tokens < DIRECT_LENGTHS ? direct[tokens] : search(b, tokens);
    if (bucket_of_bound[at] < 0)
      bucket_of_bound[at] = append_bucket(out, &cap, (struct sample){(uint32_t)b->v[at], 1});
    out->of_sample[i] = (uint16_t)bucket_of_bound[at];
    out->buckets[bucket_of_bound[at]].samples++;
  }
  free(direct);
  free(bucket_of_bound);
}

/* Open addressing over the shapes seen: twice as many slots as buckets there can be. */
enum { SLOTS = 1 << 17 };

static uint32_t find_slot(const struct bucketing *out, const int32_t *slots, struct sample s) {
  uint64_t key = (uint64_t)s.a << 32 | s.b;
  uint32_t at = (uint32_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 47);
  while (slots[at]) {
    struct sample have = out->buckets[slots[at] - 1].shape;
    if (have.a == s.a && have.b == s.b)
      break;
    at = (at + 1) % SLOTS;
  }
  return at;
}

static int bucket_by_shape(struct bucketing *out, const struct sample *samples, int64_t n, struct err *err) {
  int32_t *slots = xcalloc(SLOTS, sizeof *slots); /* 1 + bucket; 0: empty */
  size_t cap = 0;
  int rc = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t at = find_slot(out, slots, samples[i]);
    if (!slots[at] && out->n == BUCKET_MAX) {
      rc = err_set(err, "more than %d different shapes: give clips the sizes of their buckets", BUCKET_MAX);
      break;
    }
    if (!slots[at])
      slots[at] = append_bucket(out, &cap, samples[i]) + 1;
    out->of_sample[i] = (uint16_t)(slots[at] - 1);
    out->buckets[slots[at] - 1].samples++;
  }
  free(slots);
  return rc;
}

static void name_buckets(struct bucketing *out, bool is_2d) {
  for (int i = 0; i < out->n; i++) {
    struct bucket *b = &out->buckets[i];
    if (is_2d)
      snprintf(b->name, sizeof b->name, "%ux%u", b->shape.a, b->shape.b);
    else
      snprintf(b->name, sizeof b->name, "%u", b->shape.a);
  }
}

int bucketing_make(struct bucketing *out, const struct sample *samples, int64_t n, bool is_2d, int per_octave,
                   const int64_t *bounds, int n_bounds, struct err *err) {
  struct bounds b = {0};
  int64_t longest = 1;
  int rc = 0;
  *out = (struct bucketing){0};
  if (!is_2d && n_bounds <= 0 && (per_octave < 1 || per_octave > BUCKET_MAX_PER_OCTAVE))
    return err_usage(err, "buckets per octave must be from 1 to %d, got %d", BUCKET_MAX_PER_OCTAVE, per_octave);
  for (int64_t i = 0; i < n; i++)
    longest = int64_max(longest, samples[i].a);
  if (!is_2d && n_bounds > 0)
    rc = given_bounds(&b, longest, bounds, n_bounds, err);
  else if (!is_2d)
    default_bounds(&b, longest, per_octave);
  if (rc == 0) {
    out->of_sample = xmalloc(size_mul((size_t)n + 1, sizeof *out->of_sample));
    if (is_2d)
      rc = bucket_by_shape(out, samples, n, err);
    else
      bucket_by_length(out, samples, n, &b);
  }
  name_buckets(out, is_2d);
  free(b.v);
  if (rc)
    bucketing_release(out);
  return rc;
}

void bucketing_release(struct bucketing *b) {
  free(b->buckets);
  free(b->of_sample);
  *b = (struct bucketing){0};
}
