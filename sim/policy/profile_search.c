#include "sim/policy/profile_search.h"

#define MAX_BATCH (INT64_C(1) << 30)

/* The batch tried after `batch`, 0 when there is none. */
static int64_t next_batch(const struct profile_search *s, int64_t batch) {
  int64_t limit = s->max_batch > 0 ? s->max_batch : MAX_BATCH;
  if (batch >= limit)
    return 0;
  return batch * 2 < limit ? batch * 2 : limit;
}

static struct candidate time_of(const struct profile_search *s, int sp, int64_t batch) {
  struct candidate c = {.sp = sp, .batch = batch};
  c.time_s = s->time_s(s->context, sp, batch, c.recompute_blocks);
  return c;
}

static double throughput(const struct candidate *c) { return (double)c->batch / c->sp / c->time_s; }

/* Where the search at the next sp begins after `batch` did not fit, or (0) none was left to try after `last`. */
static int64_t first_batch(const struct profile_search *s, int64_t batch, int64_t last) {
  int64_t failed = batch > 0 ? batch : 2 * last;
  return s->sequential && failed >= 4 ? failed / 4 : 1;
}

/* The largest batch from *first on that fits and the one tried before it; 0 where there is none. *first out: where the
 * search at the next sp begins. */
static int64_t largest_batch(const struct profile_search *s, int sp, int64_t *first, int64_t *before) {
  int64_t batch = *first, last = 0;
  *before = 0;
  for (; batch && s->fits(s->context, sp, batch); batch = next_batch(s, batch)) {
    *before = last;
    last = batch;
  }
  *first = first_batch(s, batch, last);
  return last;
}

bool profile_search_fixed(const struct profile_search *s, int sp, struct candidate *best) {
  int64_t first = 1, before, last = largest_batch(s, sp, &first, &before);
  if (last == 0)
    return false;
  *best = time_of(s, sp, last);
  if (before == 0)
    return true;
  struct candidate smaller = time_of(s, sp, before);
  if (throughput(&smaller) > 2 * throughput(best))
    *best = smaller;
  return true;
}

bool profile_search_best(const struct profile_search *s, struct candidate *detail, int *n_detail,
                         struct candidate *best) {
  int64_t first = 1;
  *n_detail = 0;
  for (int i = 0; i < s->n_sps; i++) {
    struct candidate *of_sp = &detail[*n_detail];
    int64_t batch = first, last = 0;
    for (; batch && s->fits(s->context, s->sps[i], batch); batch = next_batch(s, batch)) {
      struct candidate c = time_of(s, s->sps[i], batch);
      if (last == 0 || throughput(&c) > throughput(of_sp))
        *of_sp = c;
      last = batch;
    }
    first = first_batch(s, batch, last);
    if (last == 0)
      continue;
    if (*n_detail == 0 || throughput(of_sp) > throughput(best))
      *best = *of_sp;
    (*n_detail)++;
  }
  return *n_detail > 0;
}

bool profile_search_largest(const struct profile_search *s, struct candidate *detail, int *n_detail,
                            struct candidate *best) {
  int64_t first = 1;
  *n_detail = 0;
  for (int i = 0; i < s->n_sps; i++) {
    int64_t before, last = largest_batch(s, s->sps[i], &first, &before);
    if (last == 0)
      continue;
    struct candidate c = time_of(s, s->sps[i], last);
    if (*n_detail == 0 || throughput(&c) > throughput(best))
      *best = c;
    detail[(*n_detail)++] = c;
  }
  return *n_detail > 0;
}
