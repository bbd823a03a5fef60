#include "sim/policy/packing.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"
#include "sim/policy/best_fit.h"

/* A sample on its way into a pack. */
struct item {
  int64_t tokens;
  uint32_t entry, pack;
};

void packs_release(struct packs *p) {
  free(p->entries);
  free(p->v);
  *p = (struct packs){0};
}

static struct item *find_items(struct packs *p, const struct sample_set *samples, const uint8_t *excluded,
                               int64_t capacity) {
  struct item *items = xmalloc(size_mul((size_t)samples->n + 1, sizeof *items));
  for (int64_t i = 0; i < samples->n; i++) {
    uint32_t entry = sample_set_at(samples, i);
    int64_t tokens = sample_tokens(samples->samples[entry]);
    if (tokens <= capacity && !(excluded && excluded[entry]))
      items[p->n_entries++] = (struct item){.tokens = tokens, .entry = entry};
  }
  p->entries = xmalloc(size_mul((size_t)p->n_entries + 1, sizeof *p->entries));
  return items;
}

/* Opens a pack whenever the next sample does not fit the last one. */
static void next_fit(struct item *items, int64_t n, int64_t capacity) {
  int64_t room = capacity;
  uint32_t pack = 0;
  for (int64_t i = 0; i < n; i++) {
    if (items[i].tokens > room) {
      pack++;
      room = capacity;
    }
    items[i].pack = pack;
    room -= items[i].tokens;
  }
}

static int longest_first(const void *a, const void *b) {
  const struct item *x = a, *y = b;
  return (x->tokens < y->tokens) - (x->tokens > y->tokens);
}

/* Merge sort of glibc's qsort is not promised to be stable: equal lengths keep their order by their position in .pack.
 */
static int longest_first_stable(const void *a, const void *b) {
  const struct item *x = a, *y = b;
  int order = longest_first(a, b);
  return order ? order : (x->pack > y->pack) - (x->pack < y->pack);
}

static void sort_longest_first(struct item *items, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    items[i].pack = (uint32_t)i;
  qsort(items, (size_t)n, sizeof *items, longest_first_stable);
}

/* The tightest pack that has room, else a new one. */
static void best_fit_decreasing(struct item *items, int64_t n, int64_t capacity) {
  struct best_fit open = {0};
  uint32_t n_packs = 0;
  sort_longest_first(items, n);
  for (int64_t i = 0; i < n; i++) {
    int64_t room = capacity;
    if (!best_fit_take(&open, items[i].tokens, &items[i].pack, &room))
      items[i].pack = n_packs++;
    best_fit_insert(&open, items[i].pack, room - items[i].tokens);
  }
  best_fit_release(&open);
}

/* Bins by (load, number), least first: a binary heap. heap.h orders by integers and by insertion, not by these. */
struct bin {
  double load; /* sum of squared lengths */
  uint32_t number;
  int64_t room;
};

static bool is_less(const struct bin *a, const struct bin *b) {
  return a->load != b->load ? a->load < b->load : a->number < b->number;
}

static void bin_push(struct bin *heap, size_t *n, struct bin bin) {
  size_t i = (*n)++;
  for (; i > 0 && is_less(&bin, &heap[(i - 1) / 2]); i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i] = bin;
}

static struct bin bin_pop(struct bin *heap, size_t *n) {
  struct bin top = heap[0], last = heap[--*n];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < *n; i = child) {
    if (child + 1 < *n && is_less(&heap[child + 1], &heap[child]))
      child++;
    if (!is_less(&heap[child], &last))
      break;
    heap[i] = heap[child];
  }
  heap[i] = last;
  return top;
}

/* Deals one window's samples over `width` bins; returns the number of bins. Bins that no sample of the window fits any
 * more leave the heap, so that passing over full ones stays rare. */
static uint32_t deal(struct item *items, int64_t n, int64_t capacity, int width) {
  struct bin *heap = xmalloc(size_mul((size_t)n + (size_t)width, sizeof *heap));
  struct bin *passed = xmalloc(size_mul((size_t)n + (size_t)width, sizeof *passed));
  size_t n_heap = 0;
  uint32_t n_bins = (uint32_t)width;
  sort_longest_first(items, n);
  for (uint32_t b = 0; b < n_bins; b++)
    bin_push(heap, &n_heap, (struct bin){0, b, capacity});
  for (int64_t i = 0; i < n; i++) {
    size_t n_passed = 0;
    while (n_heap > 0 && heap[0].room < items[i].tokens)
      passed[n_passed++] = bin_pop(heap, &n_heap);
    struct bin bin = n_heap > 0 ? bin_pop(heap, &n_heap) : (struct bin){0, n_bins++, capacity};
    items[i].pack = bin.number;
    bin.room -= items[i].tokens;
    bin.load += (double)items[i].tokens * (double)items[i].tokens;
    passed[n_passed++] = bin;
    for (size_t j = 0; j < n_passed; j++)
      if (passed[j].room >= items[n - 1].tokens)
        bin_push(heap, &n_heap, passed[j]);
  }
  free(heap);
  free(passed);
  return n_bins;
}

/* Windows of `width` next_fit packs, each dealt anew. */
static void longest_processing_time(struct item *items, int64_t n, int64_t capacity, int width) {
  uint32_t n_packs = 0;
  next_fit(items, n, capacity);
  for (int64_t from = 0, to; from < n; from = to) {
    uint32_t first = items[from].pack;
    for (to = from; to < n && items[to].pack - first < (uint32_t)width;)
      to++;
    uint32_t n_bins = deal(items + from, to - from, capacity, width);
    for (int64_t i = from; i < to; i++)
      items[i].pack += n_packs;
    n_packs += n_bins;
  }
}

/* Groups the entries by their item's pack, keeping item order within; numbers that no item has make no pack. */
static void collect(struct packs *p, const struct item *items) {
  uint32_t n_packs = 0;
  for (int64_t i = 0; i < p->n_entries; i++)
    n_packs = items[i].pack >= n_packs ? items[i].pack + 1 : n_packs;
  p->cap = (size_t)n_packs + 1;
  p->v = xcalloc(p->cap, sizeof *p->v);
  for (int64_t i = 0; i < p->n_entries; i++)
    p->v[items[i].pack].n++;
  int64_t first = 0;
  for (uint32_t k = 0; k < n_packs; k++) {
    p->v[k].first = first;
    first += p->v[k].n;
    p->v[k].n = 0;
  }
  for (int64_t i = 0; i < p->n_entries; i++) {
    struct pack *pack = &p->v[items[i].pack];
    p->entries[pack->first + pack->n++] = items[i].entry;
  }
  for (uint32_t k = 0; k < n_packs; k++)
    if (p->v[k].n > 0)
      p->v[p->n++] = p->v[k];
}

void packs_make(struct packs *p, const struct sample_set *samples, const uint8_t *excluded, enum packing packing,
                int64_t capacity, int width) {
  *p = (struct packs){0};
  struct item *items = find_items(p, samples, excluded, capacity);
  switch (packing) {
  case PACKING_NEXT_FIT:
    next_fit(items, p->n_entries, capacity);
    break;
  case PACKING_BFD:
    best_fit_decreasing(items, p->n_entries, capacity);
    break;
  case PACKING_LPT:
    longest_processing_time(items, p->n_entries, capacity, width);
    break;
  }
  collect(p, items);
  free(items);
}

void packs_shuffle(struct packs *p, struct rng *rng) {
  uint32_t *order = xmalloc(size_mul(p->n + 1, sizeof *order));
  struct pack *shuffled = xmalloc(size_mul(p->cap, sizeof *shuffled));
  for (size_t i = 0; i < p->n; i++)
    order[i] = (uint32_t)i;
  rng_shuffle(rng, order, p->n);
  for (size_t i = 0; i < p->n; i++)
    shuffled[i] = p->v[order[i]];
  free(p->v);
  free(order);
  p->v = shuffled;
}

void packs_top_up(struct packs *p, int width) {
  size_t at = p->n;
  while (p->n % (size_t)width != 0) {
    while (at > 0 && p->v[at - 1].n < 2)
      at--;
    if (at == 0)
      return;
    struct pack *from = &p->v[at - 1];
    struct pack alone = {from->first + --from->n, 1};
    VEC_PUSH(p->v, p->n, p->cap, alone);
  }
}

/* Iterations may outlive what the entries lie in. */
static const uint32_t *copy_entries(struct plan_iteration *it, const uint32_t *entries, int64_t n) {
  uint32_t *copy = plan_pool(it, (size_t)n);
  return memcpy(copy, entries, (size_t)n * sizeof *copy);
}

static double pack_time_s(const struct policy_input *in, int sp, const struct plan_micro_batch *m) {
  if (!in->costs.packed_time_s)
    return 0;
  struct sample *extents = xmalloc(size_mul((size_t)m->count, sizeof *extents));
  for (int64_t i = 0; i < m->count; i++)
    extents[i] = in->samples->samples[m->samples[i]];
  double seconds = in->costs.packed_time_s(in->costs.context, sp, extents, m->count, m->recompute_blocks);
  free(extents);
  return seconds;
}

void packing_add_micro_batch(const struct policy_input *in, struct plan_iteration *it, const uint32_t *entries,
                             int64_t n) {
  struct plan_micro_batch *m = plan_add_micro_batch(it);
  m->packed = true;
  m->count = n;
  m->samples = copy_entries(it, entries, n);
  memcpy(m->recompute_blocks, in->options.full_recompute_blocks, sizeof m->recompute_blocks);
  m->time_s = pack_time_s(in, it->groups[it->n_groups - 1].sp, m);
}

void packing_add_drop(struct plan_iteration *it, const uint32_t *entries, int64_t n) {
  plan_add_drop(it, -1, n, copy_entries(it, entries, n), true);
}
