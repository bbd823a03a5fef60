/* megatron_dp_balanced.c: the packing baseline of Megatron-Core's dynamic context parallelism (its `dp_balanced`): one
 * SP degree (its context parallel size); the samples of each global batch are packed in arrival order (next fit) into
 * packs of at most rank_tokens * sp tokens; while their number is no multiple of the data-parallel ranks, the last
 * sample of the last pack that holds more than one becomes a pack of its own; rank j runs packs j, j + n, j + 2n, ...
 *
 * Ours: where a batch has too few samples for every rank to get a pack (the original stops with an error), ranks idle,
 * or under a published remainder rule the packs that fill no row of ranks are dropped. */
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/policy/global_batch.h"
#include "sim/policy/packing.h"

struct dp_balanced_run {
  const struct policy_input *in;
  struct global_batch batch;
};

static int dp_balanced_open(void **out, const struct policy_input *in, struct err *err) {
  const struct policy_options *o = &in->options;
  if (o->sp < 1 || o->sp > in->world || o->pack_tokens < 1)
    return err_set(err, "sp must be 1 to %d and the tokens of a pack positive", in->world);
  struct dp_balanced_run *run = xcalloc(1, sizeof *run);
  run->in = in;
  global_batch_init(&run->batch, in, o->pack_tokens);
  *out = run;
  return 0;
}

static void dp_balanced_close(void *state) {
  struct dp_balanced_run *run = state;
  global_batch_release(&run->batch);
  free(run);
}

static void pack_batch(struct dp_balanced_run *run, struct packs *packs, int width) {
  struct sample_set batch = *run->in->samples;
  batch.order = run->batch.entries;
  batch.n = run->batch.n;
  packs_make(packs, &batch, NULL, PACKING_NEXT_FIT, run->in->options.pack_tokens, width);
  packs_top_up(packs, width);
}

static void add_rank(struct dp_balanced_run *run, struct plan_iteration *it, const struct packs *packs, size_t n_run,
                     int rank) {
  int sp = run->in->options.sp;
  size_t width = (size_t)(run->in->world / sp);
  struct plan_group *group = plan_add_group(it, rank * sp, sp, -1);
  group->planned_gas = (int)((n_run - (size_t)rank + width - 1) / width);
  for (size_t k = (size_t)rank; k < n_run; k += width)
    packing_add_micro_batch(run->in, it, &packs->entries[packs->v[k].first], packs->v[k].n);
}

/* Whether anything of the batch runs. */
static bool run_batch(struct dp_balanced_run *run, struct plan_iteration *it) {
  int width = run->in->world / run->in->options.sp;
  struct packs packs;
  pack_batch(run, &packs, width);
  size_t n_run = packs.n;
  if (run->in->options.remainder != REMAINDER_FAIR)
    n_run -= n_run % (size_t)width;
  for (int rank = 0; rank < width && (size_t)rank < n_run; rank++)
    add_rank(run, it, &packs, n_run, rank);
  for (size_t k = n_run; k < packs.n; k++)
    packing_add_drop(it, &packs.entries[packs.v[k].first], packs.v[k].n);
  it->over_tokens = run->batch.over_tokens;
  packs_release(&packs);
  return n_run > 0;
}

static int dp_balanced_next(void *state, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct dp_balanced_run *run = state;
  while (global_batch_next(&run->batch))
    if (run_batch(run, it))
      return 1;
  packing_add_drop(it, run->batch.entries, run->batch.n);
  return 0;
}

const struct policy policy_megatron_dp_balanced = {
    .name = "megatron_dp_balanced",
    .help = "each global batch packed in arrival order at one SP (Megatron-Core dp_balanced, read in its source)",
    .flags = POLICY_FIXED_SP | POLICY_NEEDS_SAMPLES | POLICY_PACKS | POLICY_GLOBAL_BATCH,
    .open = dp_balanced_open,
    .next = dp_balanced_next,
    .close = dp_balanced_close,
};
