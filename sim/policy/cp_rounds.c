#include "sim/policy/cp_rounds.h"

#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/policy/packing.h"

static bool is_degree(const struct policy_input *in, int sp) {
  return sp <= in->world && (in->options.sp_degrees == 0 || in->options.sp_degrees & (uint32_t)sp);
}

int cp_next_degree(const struct policy_input *in, int sp) {
  do
    sp *= 2;
  while (sp <= in->world && !is_degree(in, sp));
  return sp;
}

static int largest_degree(const struct policy_input *in) {
  int largest = 1;
  for (int sp = 1; sp <= in->world; sp = cp_next_degree(in, sp))
    largest = sp;
  return largest;
}

int cp_needed_degree(const struct policy_input *in, int64_t tokens) {
  int sp = 1;
  while (tokens > in->options.rank_tokens * sp)
    sp = cp_next_degree(in, sp);
  return sp;
}

int cp_rounds_open(void **out, const struct policy_input *in, void (*form)(struct cp_rounds *r), struct err *err) {
  if (in->options.rank_tokens < 1 || !is_degree(in, 1))
    return err_set(err, "the tokens of a rank must be positive and groups of one rank allowed");
  struct cp_rounds *r = xcalloc(1, sizeof *r);
  r->in = in;
  r->form = form;
  r->groups = xcalloc((size_t)in->world, sizeof *r->groups);
  global_batch_init(&r->batch, in, in->options.rank_tokens * largest_degree(in));
  *out = r;
  return 0;
}

void cp_rounds_close(void *run) {
  struct cp_rounds *r = run;
  global_batch_release(&r->batch);
  free(r->items);
  free(r->pack);
  free(r->groups);
  free(r);
}

int cp_open_group(struct cp_rounds *r, int sp) {
  r->groups[r->n_groups] = (struct cp_group){.sp = sp};
  r->free_ranks -= sp;
  return r->n_groups++;
}

void cp_join_group(struct cp_rounds *r, struct cp_item *item, int group) {
  struct cp_group *g = &r->groups[group];
  item->group = group;
  g->work += cp_work(item->tokens, g->sp);
  g->fill += (double)item->tokens / g->sp;
  r->most_work = g->work > r->most_work ? g->work : r->most_work;
}

bool cp_has_room(const struct cp_rounds *r, const struct cp_group *group, int64_t tokens) {
  return group->fill + (double)tokens / group->sp <= (double)r->in->options.rank_tokens;
}

static void fill_ranks(struct cp_rounds *r) {
  while (r->free_ranks > 0) {
    struct cp_group *least = &r->groups[0];
    for (int k = 1; k < r->n_groups; k++)
      if (r->groups[k].sp < least->sp)
        least = &r->groups[k];
    int sp = cp_next_degree(r->in, least->sp);
    if (sp > r->in->world || sp - least->sp > r->free_ranks)
      return;
    r->free_ranks -= sp - least->sp;
    least->sp = sp;
  }
}

static void form_round(struct cp_rounds *r) {
  r->n_groups = 0;
  r->free_ranks = r->in->world;
  r->most_work = 0;
  for (int64_t i = 0; i < r->n_items; i++)
    r->items[i].group = -1;
  r->form(r);
  ASSERT(r->items[0].group >= 0 && r->free_ranks >= 0);
  fill_ranks(r);
}

static void add_group(struct cp_rounds *r, struct plan_iteration *it, int group, int round, int first_rank) {
  int64_t n = 0;
  struct plan_group *g = plan_add_group(it, first_rank, r->groups[group].sp, -1);
  g->planned_gas = 1;
  g->round = round;
  for (int64_t i = 0; i < r->n_items; i++)
    if (r->items[i].group == group)
      r->pack[n++] = r->items[i].entry;
  packing_add_micro_batch(r->in, it, r->pack, n);
}

static void add_round(struct cp_rounds *r, struct plan_iteration *it, int round) {
  int rank = 0, sp = 0;
  for (int k = 0; k < r->n_groups; k++)
    sp = r->groups[k].sp > sp ? r->groups[k].sp : sp;
  for (; sp > 0; sp /= 2)
    for (int k = 0; k < r->n_groups; k++)
      if (r->groups[k].sp == sp) {
        add_group(r, it, k, round, rank);
        rank += sp;
      }
}

static int longest_first(const void *a, const void *b) {
  const struct cp_item *x = a, *y = b;
  if (x->tokens != y->tokens)
    return x->tokens < y->tokens ? 1 : -1;
  return (x->position > y->position) - (x->position < y->position);
}

static void take_items(struct cp_rounds *r) {
  const struct global_batch *b = &r->batch;
  if (b->n > r->items_cap) {
    r->items_cap = b->n;
    r->items = xrealloc(r->items, size_mul((size_t)b->n, sizeof *r->items));
    r->pack = xrealloc(r->pack, size_mul((size_t)b->n, sizeof *r->pack));
  }
  r->n_items = b->n;
  for (int64_t i = 0; i < b->n; i++)
    r->items[i] = (struct cp_item){
        .tokens = sample_tokens(r->in->samples->samples[b->entries[i]]), .position = i, .entry = b->entries[i]};
  qsort(r->items, (size_t)b->n, sizeof *r->items, longest_first);
}

static void keep_waiting(struct cp_rounds *r) {
  int64_t n = 0;
  for (int64_t i = 0; i < r->n_items; i++)
    if (r->items[i].group < 0)
      r->items[n++] = r->items[i];
  r->n_items = n;
}

int cp_rounds_next(void *run, struct plan_iteration *it, struct err *err) {
  (void)err;
  struct cp_rounds *r = run;
  if (!global_batch_next(&r->batch)) {
    packing_add_drop(it, r->batch.entries, r->batch.n);
    return 0;
  }
  take_items(r);
  for (int round = 0; r->n_items > 0; round++) {
    form_round(r);
    add_round(r, it, round);
    keep_waiting(r);
  }
  it->over_tokens = r->batch.over_tokens;
  return 1;
}
