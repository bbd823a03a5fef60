/* bucket.c: bucket parallel, the baseline of every published DCP number. One sp for all; micro-batches balanced once
 * against the median bucket; one micro-batch per data-parallel rank and step. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/policy/policy.h"

struct balanced {
  int64_t left, batch;
  double time_s;
};

struct bucket_run {
  const struct policy_input *in;
  int sp;
  struct balanced *buckets;
  uint32_t *list; /* a bucket per micro-batch of the epoch */
  size_t n_list, next;
};

/* One sp for all buckets that run; 0 when there are none, -1 on error. */
static int common_sp(const struct policy_input *in, const struct balanced *buckets, struct err *err) {
  int sp = 0;
  for (int b = 0; b < in->profile->n_buckets; b++) {
    const struct bucket_profile *p = &in->profile->buckets[b];
    if (buckets[b].left == 0)
      continue;
    if (sp != 0 && p->best.sp != sp)
      return err_set(err, "all buckets must have the same sp, '%s' has %d where others have %d", p->name, p->best.sp,
                     sp);
    sp = p->best.sp;
    if (sp < 1 || sp > in->world || p->best.batch < 1 || !(p->best.time_s > 0))
      return err_set(err, "bucket '%s': sp must be 1 to %d, batch and time positive", p->name, in->world);
  }
  return sp;
}

static int by_value(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* Of the buckets that hold samples; the mean of the middle two where their number is even. */
static double median_time_s(const struct bucket_run *run) {
  int n_buckets = run->in->profile->n_buckets, n = 0;
  double *times = xmalloc(size_mul((size_t)n_buckets + 1, sizeof *times));
  for (int b = 0; b < n_buckets; b++)
    if (run->buckets[b].left > 0)
      times[n++] = run->buckets[b].time_s;
  qsort(times, (size_t)n, sizeof *times, by_value);
  double median = n == 0 ? 0 : n % 2 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
  free(times);
  return median;
}

/* Slower buckets than the median run smaller micro-batches. */
static void balance(struct bucket_run *run) {
  double median_s = median_time_s(run);
  for (int b = 0; b < run->in->profile->n_buckets; b++) {
    struct balanced *x = &run->buckets[b];
    if (x->left == 0 || x->time_s <= median_s)
      continue;
    int64_t batch = int64_max(1, (int64_t)((double)x->batch * median_s / x->time_s));
    x->time_s = x->time_s * (double)batch / (double)x->batch;
    x->batch = batch;
  }
}

/* Each bucket once per micro-batch, shuffled; the published rules cut the list to whole iterations. */
static void make_list(struct bucket_run *run) {
  const struct policy_options *o = &run->in->options;
  bool drop_last = o->remainder == REMAINDER_DROP_LAST;
  size_t cap = 0, at = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int b = 0; b < run->in->profile->n_buckets; b++) {
      const struct balanced *x = &run->buckets[b];
      int64_t n = x->left == 0 ? 0 : drop_last ? x->left / x->batch : ceil_div(x->left, x->batch);
      for (int64_t i = 0; pass == 1 && i < n; i++)
        run->list[at++] = (uint32_t)b;
      cap += pass == 0 ? (size_t)n : 0;
    }
    if (pass == 0)
      run->list = xmalloc(size_mul(cap + 1, sizeof *run->list));
  }
  run->n_list = cap;
  if (o->shuffle) {
    struct rng rng;
    rng_init(&rng, run->in->seed, "bucket.list");
    rng_shuffle(&rng, run->list, run->n_list);
    rng_release(&rng);
  }
  if (o->remainder != REMAINDER_FAIR && run->sp > 0)
    run->n_list -= run->n_list % (size_t)(run->in->world / run->sp);
}

static void bucket_close(void *state) {
  struct bucket_run *run = state;
  free(run->buckets);
  free(run->list);
  free(run);
}

static int bucket_open(void **out, const struct policy_input *in, struct err *err) {
  struct bucket_run *run = xcalloc(1, sizeof *run);
  run->in = in;
  run->buckets = xcalloc((size_t)in->profile->n_buckets + 1, sizeof *run->buckets);
  for (int b = 0; b < in->profile->n_buckets; b++) {
    const struct candidate *best = &in->profile->buckets[b].best;
    run->buckets[b] = (struct balanced){policy_bucket_samples(in, b), best->batch, best->time_s};
  }
  run->sp = common_sp(in, run->buckets, err);
  if (run->sp < 0) {
    bucket_close(run);
    return -1;
  }
  balance(run);
  make_list(run);
  *out = run;
  return 0;
}

static void add_micro_batch(struct bucket_run *run, struct plan_iteration *it, int first_rank, int bucket) {
  const struct bucket_profile *p = &run->in->profile->buckets[bucket];
  struct balanced *x = &run->buckets[bucket];
  plan_add_group(it, first_rank, run->sp, bucket)->planned_gas = 1;
  struct plan_micro_batch *m = plan_add_micro_batch(it);
  m->count = int64_min(x->batch, x->left);
  m->shape = p->shape;
  m->time_s = x->time_s;
  memcpy(m->recompute_blocks, p->best.recompute_blocks, sizeof m->recompute_blocks);
  x->left -= m->count;
}

/* At the end what no micro-batch of the list took is dropped: remainders of buckets and the list's cut end. */
static int bucket_next(void *state, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct bucket_run *run = state;
  if (run->next < run->n_list) {
    int data_parallel = run->in->world / run->sp;
    for (int r = 0; r < data_parallel && run->next < run->n_list; r++)
      add_micro_batch(run, it, r * run->sp, (int)run->list[run->next++]);
    return 1;
  }
  for (int b = 0; b < run->in->profile->n_buckets; b++) {
    plan_add_drop(it, b, run->buckets[b].left, NULL, true);
    run->buckets[b].left = 0;
  }
  return 0;
}

const struct policy policy_bucket = {
    .name = "bucket",
    .help = "bucket parallel: one SP, one micro-batch per rank and step, batches balanced on the median (VideoSys)",
    .flags = POLICY_FIXED_SP | POLICY_BUCKETED | POLICY_MERGES,
    .open = bucket_open,
    .next = bucket_next,
    .close = bucket_close,
};
