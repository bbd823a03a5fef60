/* megatron_dynamic_cp.c: Megatron-Core's dynamic context parallelism (its `default_dynamic_cp`, packing-aware): each
 * global batch becomes one or more rounds of groups of different SP degrees, one pack per group.
 *
 * A round, from the samples that are left, longest first. work(L, sp) = L^2 / sp on each rank of a group; need(L) = the
 * least degree at which L / sp tokens fit a rank; bound = the longest L * rank_tokens * 1.05.
 *   1. The longest opens a group of need(L) ranks.
 *   2. Each next one joins a group or opens one, of a degree from need(L) up, where the group's tokens per rank stay
 *      within rank_tokens and the largest work of any rank, which must stay within the bound, is least. Of equals the
 *      lowest degree, there joining before opening, there the group opened first. No such place: it waits for the next
 *      round.
 *   3. While ranks are empty, the first group of the lowest degree goes to the next degree.
 * Rounds of a step are not synchronised: the original hands each rank its list of packs and runs its usual loop of
 * micro-batches, in which ranks meet only in the exchanges of their groups and in the gradients at the end.
 *
 * Ours: groups are laid out by degree, highest first, so that blocks are aligned; where no degree fits the empty ranks
 * (worlds that are no power of two; --max-sp) they idle, while the original then runs one group of all ranks. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/policy/global_batch.h"
#include "sim/policy/packing.h"

#define WORK_BOUND_SLACK 0.05

struct group {
  int sp;
  double work, fill; /* of each of its ranks: L^2 / sp and tokens, summed */
  int64_t n;
};

/* A sample of the batch that has not run yet. */
struct item {
  int64_t tokens, position; /* position: arrival in the batch */
  uint32_t entry;
  int group; /* of this round; -1: waits */
};

struct dynamic_run {
  const struct policy_input *in;
  struct global_batch batch;
  struct item *items; /* longest first */
  int64_t n_items, items_cap;
  uint32_t *pack; /* scratch: the entries of one group */
  /* the round being formed */
  struct group *groups;
  int n_groups, free_ranks;
  double most_work, bound;
};

static bool is_degree(const struct policy_input *in, int sp) {
  return sp <= in->world && (in->options.sp_degrees == 0 || in->options.sp_degrees & (uint32_t)sp);
}

/* The next degree above; more than the world: none. */
static int next_degree(const struct policy_input *in, int sp) {
  do
    sp *= 2;
  while (sp <= in->world && !is_degree(in, sp));
  return sp;
}

static int largest_degree(const struct policy_input *in) {
  int largest = 1;
  for (int sp = 1; sp <= in->world; sp = next_degree(in, sp))
    largest = sp;
  return largest;
}

static int needed_degree(const struct policy_input *in, int64_t tokens) {
  int sp = 1;
  while (tokens > in->options.rank_tokens * sp)
    sp = next_degree(in, sp);
  return sp;
}

static int dynamic_open(void **out, const struct policy_input *in, struct err *err) {
  if (in->options.rank_tokens < 1 || !is_degree(in, 1))
    return err_set(err, "the tokens of a rank must be positive and groups of one rank allowed");
  struct dynamic_run *run = xcalloc(1, sizeof *run);
  run->in = in;
  run->groups = xcalloc((size_t)in->world, sizeof *run->groups);
  global_batch_init(&run->batch, in, in->options.rank_tokens * largest_degree(in));
  *out = run;
  return 0;
}

static void dynamic_close(void *state) {
  struct dynamic_run *run = state;
  global_batch_release(&run->batch);
  free(run->items);
  free(run->pack);
  free(run->groups);
  free(run);
}

/* ---- One round ---- */

static double work_of(int64_t tokens, int sp) { return (double)tokens * (double)tokens / sp; }

static int open_group(struct dynamic_run *run, int sp) {
  run->groups[run->n_groups] = (struct group){.sp = sp};
  run->free_ranks -= sp;
  return run->n_groups++;
}

static void join_group(struct dynamic_run *run, struct item *item, int group) {
  struct group *g = &run->groups[group];
  item->group = group;
  g->work += work_of(item->tokens, g->sp);
  g->fill += (double)item->tokens / g->sp;
  g->n++;
  run->most_work = g->work > run->most_work ? g->work : run->most_work;
}

/* Where a sample could go, and the largest work of any rank then. */
struct place {
  int group, sp; /* group -1: a new one; sp 0: nowhere */
  double most_work;
};

static void consider(const struct dynamic_run *run, struct place *best, int group, int sp, double work) {
  double most = work > run->most_work ? work : run->most_work;
  if (most > run->bound || (best->sp > 0 && (most > best->most_work || (most == best->most_work && sp >= best->sp))))
    return;
  *best = (struct place){group, sp, most};
}

static void place_item(struct dynamic_run *run, struct item *item) {
  int need = needed_degree(run->in, item->tokens);
  struct place best = {0};
  for (int k = 0; k < run->n_groups; k++) {
    const struct group *g = &run->groups[k];
    if (g->sp >= need && g->fill + (double)item->tokens / g->sp <= (double)run->in->options.rank_tokens)
      consider(run, &best, k, g->sp, g->work + work_of(item->tokens, g->sp));
  }
  for (int sp = need; sp <= run->free_ranks; sp = next_degree(run->in, sp))
    consider(run, &best, -1, sp, work_of(item->tokens, sp));
  if (best.sp > 0)
    join_group(run, item, best.group >= 0 ? best.group : open_group(run, best.sp));
}

/* Groups of the lowest degree grow, the first one first, until no rank is empty or none can. */
static void fill_ranks(struct dynamic_run *run) {
  while (run->free_ranks > 0) {
    struct group *least = &run->groups[0];
    for (int k = 1; k < run->n_groups; k++)
      if (run->groups[k].sp < least->sp)
        least = &run->groups[k];
    int sp = next_degree(run->in, least->sp);
    if (sp > run->in->world || sp - least->sp > run->free_ranks)
      return;
    run->free_ranks -= sp - least->sp;
    least->sp = sp;
  }
}

static void form_round(struct dynamic_run *run) {
  const struct policy_input *in = run->in;
  run->n_groups = 0;
  run->free_ranks = in->world;
  run->most_work = 0;
  run->bound = (double)run->items[0].tokens * (double)in->options.rank_tokens * (1.0 + WORK_BOUND_SLACK);
  for (int64_t i = 0; i < run->n_items; i++)
    run->items[i].group = -1;
  join_group(run, &run->items[0], open_group(run, needed_degree(in, run->items[0].tokens)));
  for (int64_t i = 1; i < run->n_items; i++)
    place_item(run, &run->items[i]);
  fill_ranks(run);
}

static void add_group(struct dynamic_run *run, struct plan_iteration *it, int group, int round, int first_rank) {
  int64_t n = 0;
  struct plan_group *g = plan_add_group(it, first_rank, run->groups[group].sp, -1);
  g->planned_gas = 1;
  g->round = round;
  for (int64_t i = 0; i < run->n_items; i++)
    if (run->items[i].group == group)
      run->pack[n++] = run->items[i].entry;
  packing_add_micro_batch(run->in, it, run->pack, n);
}

static void add_round(struct dynamic_run *run, struct plan_iteration *it, int round) {
  int rank = 0, sp = 0;
  for (int k = 0; k < run->n_groups; k++)
    sp = run->groups[k].sp > sp ? run->groups[k].sp : sp;
  for (; sp > 0; sp /= 2)
    for (int k = 0; k < run->n_groups; k++)
      if (run->groups[k].sp == sp) {
        add_group(run, it, k, round, rank);
        rank += sp;
      }
}

/* ---- One step ---- */

static int longest_first(const void *a, const void *b) {
  const struct item *x = a, *y = b;
  if (x->tokens != y->tokens)
    return x->tokens < y->tokens ? 1 : -1;
  return (x->position > y->position) - (x->position < y->position);
}

static void take_items(struct dynamic_run *run) {
  const struct global_batch *b = &run->batch;
  if (b->n > run->items_cap) {
    run->items_cap = b->n;
    run->items = xrealloc(run->items, size_mul((size_t)b->n, sizeof *run->items));
    run->pack = xrealloc(run->pack, size_mul((size_t)b->n, sizeof *run->pack));
  }
  run->n_items = b->n;
  for (int64_t i = 0; i < b->n; i++)
    run->items[i] = (struct item){
        .tokens = sample_tokens(run->in->samples->samples[b->entries[i]]), .position = i, .entry = b->entries[i]};
  qsort(run->items, (size_t)b->n, sizeof *run->items, longest_first);
}

static void keep_waiting(struct dynamic_run *run) {
  int64_t n = 0;
  for (int64_t i = 0; i < run->n_items; i++)
    if (run->items[i].group < 0)
      run->items[n++] = run->items[i];
  run->n_items = n;
}

static int dynamic_next(void *state, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct dynamic_run *run = state;
  if (!global_batch_next(&run->batch)) {
    packing_add_drop(it, run->batch.entries, run->batch.n);
    return 0;
  }
  take_items(run);
  for (int round = 0; run->n_items > 0; round++) {
    form_round(run);
    add_round(run, it, round);
    keep_waiting(run);
  }
  it->over_tokens = run->batch.over_tokens;
  return 1;
}

const struct policy policy_megatron_dynamic_cp = {
    .name = "megatron_dynamic_cp",
    .help = "SP chosen per sample, rounds of packs of each global batch (Megatron-Core default_dynamic_cp, its source)",
    .flags = POLICY_NEEDS_SAMPLES | POLICY_PACKS | POLICY_GLOBAL_BATCH,
    .open = dynamic_open,
    .next = dynamic_next,
    .close = dynamic_close,
};
