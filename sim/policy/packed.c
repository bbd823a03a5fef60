/* packed.c: packed parallel at one sp: samples are concatenated without padding into packs, one pack per data-parallel
 * rank and step. The published work draws it but never ran it, so the rule is ours. */
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/policy/packing.h"
#include "sim/policy/policy.h"

struct packed_run {
  const struct policy_input *in;
  struct packs packs;
  size_t next, n_run; /* packs[n_run..] are dropped */
};

static int packed_open(void **out, const struct policy_input *in, struct err *err) {
  const struct policy_options *o = &in->options;
  if (o->sp < 1 || o->sp > in->world || o->pack_tokens < 1)
    return err_set(err, "sp must be 1 to %d and the tokens of a pack positive", in->world);
  struct packed_run *run = xcalloc(1, sizeof *run);
  int width = in->world / o->sp;
  run->in = in;
  packs_make(&run->packs, in->samples, in->excluded, o->packing, o->pack_tokens, width);
  if (o->packing == PACKING_BFD && o->shuffle) {
    struct rng rng;
    rng_init(&rng, in->seed, "packed.packs");
    packs_shuffle(&run->packs, &rng);
    rng_release(&rng);
  }
  packs_top_up(&run->packs, width);
  run->n_run = run->packs.n;
  if (o->remainder != REMAINDER_FAIR)
    run->n_run -= run->n_run % (size_t)width; /* what topping up could not fill */
  *out = run;
  return 0;
}

static void packed_close(void *state) {
  struct packed_run *run = state;
  packs_release(&run->packs);
  free(run);
}

static void add_pack(struct packed_run *run, struct plan_iteration *it, int first_rank, const struct pack *pack) {
  plan_add_group(it, first_rank, run->in->options.sp, -1)->planned_gas = 1;
  packing_add_micro_batch(run->in, it, &run->packs.entries[pack->first], pack->n);
}

static int packed_next(void *state, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct packed_run *run = state;
  int sp = run->in->options.sp;
  if (run->next < run->n_run) {
    for (int r = 0; r < run->in->world / sp && run->next < run->n_run; r++)
      add_pack(run, it, r * sp, &run->packs.v[run->next++]);
    return 1;
  }
  for (; run->next < run->packs.n; run->next++) {
    const struct pack *pack = &run->packs.v[run->next];
    packing_add_drop(it, &run->packs.entries[pack->first], pack->n);
  }
  return 0;
}

const struct policy policy_packed = {
    .name = "packed",
    .help = "packed parallel: one SP, samples concatenated without padding (as Megatron-Core dp_balanced; rule ours)",
    .flags = POLICY_FIXED_SP | POLICY_NEEDS_SAMPLES | POLICY_MERGES | POLICY_PACKS,
    .open = packed_open,
    .next = packed_next,
    .close = packed_close,
};
