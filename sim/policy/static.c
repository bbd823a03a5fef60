/* static.c: what a naive trainer does (ours): data parallel at one sp, each micro-batch the next `batch` samples in
 * arrival order, padded to the longest of them. */
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/policy/padding.h"
#include "sim/policy/policy.h"
#include "traces/bucket.h"

struct static_run {
  const struct policy_input *in;
  int64_t arrival;       /* next to look at */
  int64_t micro_batches; /* still to run */
  uint32_t *entries;     /* of one micro-batch */
};

static bool is_excluded(const struct policy_input *in, uint32_t entry) { return in->excluded && in->excluded[entry]; }

static int static_open(void **out, const struct policy_input *in, struct err *err) {
  const struct policy_options *o = &in->options;
  if (o->sp < 1 || o->sp > in->world || o->batch < 1)
    return err_set(err, "sp must be 1 to %d and batch positive", in->world);
  struct static_run *run = xcalloc(1, sizeof *run);
  int64_t n = 0;
  for (int64_t i = 0; i < in->samples->n; i++)
    n += !is_excluded(in, (uint32_t)i);
  run->in = in;
  run->entries = xmalloc(size_mul((size_t)int64_min(o->batch, in->samples->n) + 1, sizeof *run->entries));
  run->micro_batches = o->remainder == REMAINDER_DROP_LAST ? n / o->batch : ceil_div(n, o->batch);
  if (o->remainder != REMAINDER_FAIR)
    run->micro_batches -= run->micro_batches % (in->world / o->sp);
  *out = run;
  return 0;
}

static void static_close(void *state) {
  struct static_run *run = state;
  free(run->entries);
  free(run);
}

/* The next at most `want` samples that can run; returns how many there were. */
static int64_t take(struct static_run *run, int64_t want, uint32_t *into) {
  int64_t n = 0;
  for (; n < want && run->arrival < run->in->samples->n; run->arrival++) {
    uint32_t entry = sample_set_at(run->in->samples, run->arrival);
    if (!is_excluded(run->in, entry))
      into[n++] = entry;
  }
  return n;
}

static void add_micro_batch(struct static_run *run, struct plan_iteration *it, int first_rank) {
  const struct policy_options *o = &run->in->options;
  plan_add_group(it, first_rank, o->sp, -1)->planned_gas = 1;
  int64_t n = take(run, o->batch, run->entries);
  struct sample shape = padding_longest(run->in->samples, run->entries, n);
  if (!run->in->samples->is_2d) /* as buckets are: few shapes */
    shape.a = (uint32_t)bucket_bound(shape.a, o->per_octave);
  padding_add_micro_batch(run->in, it, run->entries, n, shape);
}

static int static_next(void *state, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct static_run *run = state;
  const struct policy_options *o = &run->in->options;
  if (run->micro_batches > 0) {
    for (int r = 0; r < run->in->world / o->sp && run->micro_batches > 0; r++, run->micro_batches--)
      add_micro_batch(run, it, r * o->sp);
    return 1;
  }
  int64_t rest = run->in->samples->n - run->arrival;
  uint32_t *entries = plan_pool(it, (size_t)rest);
  plan_add_drop(it, -1, take(run, rest, entries), entries, true);
  return 0;
}

const struct policy policy_static = {
    .name = "static",
    .help = "data parallel at one SP, the next samples padded to their longest (what a naive trainer does; ours)",
    .flags = POLICY_FIXED_SP | POLICY_NEEDS_SAMPLES | POLICY_MERGES,
    .open = static_open,
    .next = static_next,
    .close = static_close,
};
