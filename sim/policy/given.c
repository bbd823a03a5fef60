/* given.c: the batches that the data loader has formed, run as they are (ours): data parallel at one sp, each
 * micro-batch one batch of the trace, in the order of the trace whatever the seed, dealt to the groups round robin.
 * A batch is padded to its longest sample, or packed, as the loader's trainer does. */
#include "sim/policy/given.h"

#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/policy/packing.h"
#include "sim/policy/padding.h"
#include "sim/policy/policy.h"

bool given_batch_next(struct given_batch *b, const struct sample_set *samples) {
  int64_t first = b->first + b->n, i = first;
  if (first == samples->n)
    return false;
  *b = (struct given_batch){.first = first, .number = samples->batch[first], .shape = {1, 1}};
  for (; i < samples->n && samples->batch[i] == b->number; i++) {
    b->shape = padding_join(b->shape, samples->samples[i]);
    b->tokens += sample_tokens(samples->samples[i]);
  }
  b->n = i - first;
  return true;
}

struct given_run {
  const struct policy_input *in;
  int64_t batches; /* still to run */
  struct given_batch batch;
  uint32_t *entries; /* of the batch */
};

static bool next_batch(struct given_run *run) { return given_batch_next(&run->batch, run->in->samples); }

static int given_open(void **out, const struct policy_input *in, struct err *err) {
  const struct policy_options *o = &in->options;
  if (o->sp < 1 || o->sp > in->world)
    return err_set(err, "sp must be 1 to %d", in->world);
  if (!in->samples->batch)
    return err_set(err, "the samples are in no batches");
  struct given_run *run = xcalloc(1, sizeof *run);
  int64_t largest = 0;
  run->in = in;
  for (; next_batch(run); run->batches++)
    largest = int64_max(largest, run->batch.n);
  run->batch = (struct given_batch){0};
  run->entries = xmalloc(size_mul((size_t)largest + 1, sizeof *run->entries));
  if (o->remainder != REMAINDER_FAIR)
    run->batches -= run->batches % (in->world / o->sp);
  *out = run;
  return 0;
}

static void given_close(void *state) {
  struct given_run *run = state;
  free(run->entries);
  free(run);
}

static void name_entries(struct given_run *run) {
  for (int64_t i = 0; i < run->batch.n; i++)
    run->entries[i] = (uint32_t)(run->batch.first + i);
}

static void add_batch(struct given_run *run, struct plan_iteration *it, int first_rank) {
  const struct policy_options *o = &run->in->options;
  name_entries(run);
  plan_add_group(it, first_rank, o->sp, -1)->planned_gas = 1;
  if (o->packed)
    packing_add_micro_batch(run->in, it, run->entries, run->batch.n);
  else
    padding_add_micro_batch(run->in, it, run->entries, run->batch.n, run->batch.shape);
}

static int given_next(void *state, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct given_run *run = state;
  int sp = run->in->options.sp;
  if (run->batches > 0) {
    for (int r = 0; r < run->in->world / sp && run->batches > 0 && next_batch(run); r++, run->batches--)
      add_batch(run, it, r * sp);
    return 1;
  }
  while (next_batch(run)) {
    name_entries(run);
    packing_add_drop(it, run->entries, run->batch.n);
  }
  return 0;
}

const struct policy policy_given = {
    .name = "given",
    .help =
        "the batches of the trace as they are: data parallel at one SP, padded or packed (what a loader does; ours)",
    .flags = POLICY_FIXED_SP | POLICY_NEEDS_SAMPLES | POLICY_MERGES | POLICY_GIVEN,
    .open = given_open,
    .next = given_next,
    .close = given_close,
};
