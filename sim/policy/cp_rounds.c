#include "sim/policy/cp_rounds.h"

#include <math.h>
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

/* ---- The groups of one degree ---- */

static const struct cp_least no_group = {INFINITY, INFINITY};

static int log2_of(int sp) { return __builtin_ctz((unsigned)sp); }

static void degree_reserve(struct cp_degree *d, int n_leaves) {
  d->n_leaves = n_leaves;
  d->groups = xmalloc(size_mul((size_t)n_leaves, sizeof *d->groups));
  d->nodes = xmalloc(size_mul(2 * (size_t)n_leaves, sizeof *d->nodes));
}

static void degree_clear(struct cp_degree *d) {
  d->n = 0;
  for (int i = 0; i < 2 * d->n_leaves; i++)
    d->nodes[i] = no_group;
}

static void degree_set(struct cp_degree *d, int place, struct cp_least least) {
  int node = d->n_leaves + place;
  d->nodes[node] = least;
  for (node /= 2; node > 0; node /= 2) {
    const struct cp_least *a = &d->nodes[2 * node], *b = a + 1;
    d->nodes[node] = (struct cp_least){fmin(a->work, b->work), fmin(a->fill, b->fill)};
  }
}

/* A look for the place in a degree whose rank's work is least with the sample. */
struct look {
  const struct cp_degree *degree;
  double more_fill, most_fill, more_work, floor;
  int place; /* -1: none yet */
  double work;
};

static double work_with(const struct look *l, int node) {
  return fmax(l->floor, l->degree->nodes[node].work + l->more_work);
}

/* Whether a place below the node can be better than the one found: less work, or as much and opened sooner. */
static bool may_be_better(const struct look *l, int node, int first) {
  double work = work_with(l, node);
  if (!(l->degree->nodes[node].fill + l->more_fill <= l->most_fill))
    return false;
  return l->place < 0 || work < l->work || (work == l->work && first < l->place);
}

/* The `n` places below the node, of which `first` is the first; the more promising half before the other. */
static void look_below(struct look *l, int node, int first, int n) {
  if (!may_be_better(l, node, first))
    return;
  if (n == 1) {
    l->place = first;
    l->work = work_with(l, node);
    return;
  }
  int left = 2 * node, half = n / 2;
  bool left_first = work_with(l, left) <= work_with(l, left + 1);
  if (left_first)
    look_below(l, left, first, half);
  look_below(l, left + 1, first + half, half);
  if (!left_first)
    look_below(l, left, first, half);
}

int cp_find_group(const struct cp_rounds *r, int sp, int64_t tokens, double more_work, double floor) {
  const struct cp_degree *d = &r->degrees[log2_of(sp)];
  struct look look = {.degree = d,
                      .more_fill = (double)tokens / sp,
                      .most_fill = (double)r->in->options.rank_tokens,
                      .more_work = more_work,
                      .floor = floor,
                      .place = -1};
  if (d->n > 0)
    look_below(&look, 1, 0, d->n_leaves);
  return look.place < 0 ? -1 : d->groups[look.place];
}

int cp_count_groups(const struct cp_rounds *r, int sp) { return r->degrees[log2_of(sp)].n; }

double cp_least_work(const struct cp_rounds *r) {
  double least = INFINITY;
  for (int i = 0; i < CP_DEGREES; i++)
    if (r->degrees[i].n > 0)
      least = fmin(least, r->degrees[i].nodes[1].work);
  return least;
}

/* ---- Start and end ---- */

int cp_rounds_open(void **out, const struct policy_input *in, void (*form)(struct cp_rounds *r), struct err *err) {
  if (in->options.rank_tokens < 1 || !is_degree(in, 1))
    return err_set(err, "the tokens of a rank must be positive and groups of one rank allowed");
  struct cp_rounds *r = xcalloc(1, sizeof *r);
  r->in = in;
  r->form = form;
  r->groups = xcalloc((size_t)in->world, sizeof *r->groups);
  int n_leaves = 1;
  while (n_leaves < in->world)
    n_leaves *= 2;
  for (int sp = 1; sp <= in->world; sp = cp_next_degree(in, sp))
    degree_reserve(&r->degrees[log2_of(sp)], n_leaves / sp);
  global_batch_init(&r->batch, in, in->options.rank_tokens * largest_degree(in));
  *out = r;
  return 0;
}

void cp_rounds_close(void *run) {
  struct cp_rounds *r = run;
  for (int i = 0; i < CP_DEGREES; i++) {
    free(r->degrees[i].groups);
    free(r->degrees[i].nodes);
  }
  global_batch_release(&r->batch);
  free(r->items);
  free(r->pack);
  free(r->groups);
  free(r);
}

/* ---- Groups and samples ---- */

int cp_open_group(struct cp_rounds *r, int sp) {
  struct cp_degree *d = &r->degrees[log2_of(sp)];
  r->groups[r->n_groups] = (struct cp_group){.sp = sp, .place = d->n};
  d->groups[d->n] = r->n_groups;
  degree_set(d, d->n++, (struct cp_least){0, 0});
  r->free_ranks -= sp;
  return r->n_groups++;
}

void cp_join_group(struct cp_rounds *r, struct cp_item *item, int group) {
  struct cp_group *g = &r->groups[group];
  item->group = group;
  g->work += cp_work(item->tokens, g->sp);
  g->fill += (double)item->tokens / g->sp;
  g->n++;
  degree_set(&r->degrees[log2_of(g->sp)], g->place, (struct cp_least){g->work, g->fill});
  r->most_work = g->work > r->most_work ? g->work : r->most_work;
}

/* The first group of the lowest degree goes to the next, again and again: so all of a degree do, in their order, before
 * any of a higher one. */
static void fill_ranks(struct cp_rounds *r) {
  for (int sp = 1, next; sp <= r->in->world; sp = next) {
    next = cp_next_degree(r->in, sp);
    for (int k = 0; k < r->n_groups; k++) {
      if (r->groups[k].sp != sp)
        continue;
      if (next > r->in->world || next - sp > r->free_ranks)
        return;
      r->free_ranks -= next - sp;
      r->groups[k].sp = next;
    }
  }
}

/* Gathers the entries of each group in `pack`. */
static void fill_packs(struct cp_rounds *r) {
  int64_t first = 0;
  for (int k = 0; k < r->n_groups; k++) {
    struct cp_group *g = &r->groups[k];
    g->first = first;
    first += g->n;
    g->n = 0;
  }
  for (int64_t i = 0; i < r->n_items; i++)
    if (r->items[i].group >= 0) {
      struct cp_group *g = &r->groups[r->items[i].group];
      r->pack[g->first + g->n++] = r->items[i].entry;
    }
}

static void form_round(struct cp_rounds *r) {
  r->n_groups = 0;
  r->free_ranks = r->in->world;
  r->most_work = 0;
  for (int sp = 1; sp <= r->in->world; sp = cp_next_degree(r->in, sp))
    degree_clear(&r->degrees[log2_of(sp)]);
  for (int64_t i = 0; i < r->n_items; i++)
    r->items[i].group = -1;
  r->form(r);
  ASSERT(r->items[0].group >= 0 && r->free_ranks >= 0);
  fill_ranks(r);
  fill_packs(r);
}

static void add_group(struct cp_rounds *r, struct plan_iteration *it, int group, int round, int first_rank) {
  const struct cp_group *from = &r->groups[group];
  struct plan_group *g = plan_add_group(it, first_rank, from->sp, -1);
  g->planned_gas = 1;
  g->round = round;
  packing_add_micro_batch(r->in, it, &r->pack[from->first], from->n);
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
