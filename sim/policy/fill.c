#include "sim/policy/fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

static const struct candidate *best_of(const struct fill *f, int bucket) {
  return &f->in->profile->buckets[bucket].best;
}

static int find_list(const struct fill *f, int sp) {
  for (int i = 0; i < f->n_lists; i++)
    if (f->lists[i].sp == sp)
      return i;
  return -1;
}

/* A list's memory stays with it while it is out of sight, beyond n_lists: a list that comes back is found there. */
static struct fill_list *list_for(struct fill *f, int sp) {
  int i = find_list(f, sp);
  if (i >= 0)
    return &f->lists[i];
  for (i = f->n_lists; f->lists[i].sp != sp; i++)
    ;
  struct fill_list list = f->lists[i];
  f->lists[i] = f->lists[f->n_lists];
  f->lists[f->n_lists] = list;
  return &f->lists[f->n_lists++];
}

/* Fair: back to its place, so that no sp hides another. */
static struct fill_list *sort_in(struct fill *f, struct fill_list *list) {
  for (; list > f->lists && list[-1].sp > list->sp; list--) {
    struct fill_list t = list[-1];
    list[-1] = *list;
    *list = t;
  }
  return list;
}

static void list_add(struct fill *f, int bucket) {
  struct fill_list *list = list_for(f, best_of(f, bucket)->sp);
  if (f->in->options.remainder == REMAINDER_FAIR)
    list = sort_in(f, list);
  list->buckets[list->n_buckets++] = bucket;
}

static void list_remove(struct fill *f, int bucket) {
  int at = find_list(f, best_of(f, bucket)->sp), i = 0;
  struct fill_list *list = &f->lists[at];
  while (list->buckets[i] != bucket)
    i++;
  list->n_buckets--;
  memmove(&list->buckets[i], &list->buckets[i + 1], (size_t)(list->n_buckets - i) * sizeof *list->buckets);
  if (list->n_buckets > 0)
    return;
  struct fill_list empty = *list;
  f->n_lists--;
  memmove(list, list + 1, (size_t)(f->n_lists - at) * sizeof *list);
  f->lists[f->n_lists] = empty;
}

/* One list of n slots for every sp that occurs, all out of sight. */
static void make_lists(struct fill *f) {
  int n = f->in->profile->n_buckets, n_lists = 0;
  f->lists = xcalloc((size_t)n + 1, sizeof *f->lists);
  f->memory = xcalloc(size_mul((size_t)n + 1, 31), sizeof *f->memory);
  for (int bit = 0; bit < 31; bit++)
    for (int b = 0; b < n; b++)
      if (f->left[b] > 0 && best_of(f, b)->sp == 1 << bit) {
        f->lists[n_lists] = (struct fill_list){.sp = 1 << bit, .buckets = f->memory + (size_t)n_lists * (size_t)n};
        n_lists++;
        break;
      }
  /* Seen in ascending order when buckets are added in that order. */
  for (int i = 0; i < n_lists; i++)
    for (int b = 0; b < n; b++)
      if (f->left[b] > 0 && best_of(f, b)->sp == f->lists[i].sp)
        list_add(f, b);
}

static int check_bucket(const struct policy_input *in, int bucket, struct err *err) {
  const struct bucket_profile *p = &in->profile->buckets[bucket];
  int sp = p->best.sp;
  if (sp < 1 || (sp & (sp - 1)) || sp > in->world)
    return err_set(err, "bucket '%s': sp must be a power of two of at most %d ranks, got %d", p->name, in->world, sp);
  if (p->best.batch < 1 || !(p->best.time_s > 0))
    return err_set(err, "bucket '%s': batch and time must be positive", p->name);
  return 0;
}

int fill_init(struct fill *f, const struct policy_input *in, const char *purpose, bool published_by_share,
              struct err *err) {
  *f = (struct fill){.in = in, .published_by_share = published_by_share};
  f->left = xcalloc((size_t)in->profile->n_buckets + 1, sizeof *f->left);
  for (int b = 0; b < in->profile->n_buckets; b++) {
    f->left[b] = policy_bucket_samples(in, b);
    if (f->left[b] > 0 && check_bucket(in, b, err) < 0)
      return -1;
  }
  make_lists(f);
  rng_init(&f->rng, in->seed, purpose);
  return 0;
}

void fill_release(struct fill *f) {
  if (f->rng.gsl)
    rng_release(&f->rng);
  free(f->left);
  free(f->lists);
  free(f->memory);
  *f = (struct fill){0};
}

static int64_t micro_batches_left(const struct fill *f, int bucket) {
  return ceil_div(f->left[bucket], best_of(f, bucket)->batch);
}

static int64_t list_weight(const struct fill *f, const struct fill_list *list) {
  if (f->in->options.pick != PICK_PROPORTIONAL)
    return list->n_buckets;
  int64_t sum = 0;
  for (int i = 0; i < list->n_buckets; i++)
    sum += micro_batches_left(f, list->buckets[i]);
  return sum;
}

/* The published sampler walks the list while the sp fits, so an sp that came back is hidden behind a larger one. */
static int count_eligible(const struct fill *f, int free_ranks) {
  int n = 0;
  while (n < f->n_lists && f->lists[n].sp <= free_ranks)
    n++;
  return n;
}

static const struct fill_list *draw_list(struct fill *f, int n_eligible) {
  int64_t total = 0, below = 0;
  for (int i = 0; i < n_eligible; i++)
    total += list_weight(f, &f->lists[i]);
  bool cumulated = f->in->options.pick == PICK_PROPORTIONAL || f->published_by_share;
  double u = rng_uniform(&f->rng);
  for (int i = 0; i < n_eligible; i++) {
    int64_t weight = list_weight(f, &f->lists[i]);
    below = cumulated ? below + weight : weight;
    if (u < (double)below / (double)total)
      return &f->lists[i];
  }
  return &f->lists[n_eligible - 1];
}

static int draw_bucket(struct fill *f, const struct fill_list *list) {
  if (f->in->options.pick != PICK_PROPORTIONAL)
    return list->buckets[rng_below(&f->rng, (uint64_t)list->n_buckets)];
  int64_t total = list_weight(f, list), below = 0;
  double u = rng_uniform(&f->rng);
  for (int i = 0; i < list->n_buckets; i++) {
    below += micro_batches_left(f, list->buckets[i]);
    if (u < (double)below / (double)total)
      return list->buckets[i];
  }
  return list->buckets[list->n_buckets - 1];
}

int fill_pick(struct fill *f, int free_ranks) {
  int n_eligible = count_eligible(f, free_ranks);
  if (n_eligible == 0)
    return -1;
  while (f->n_injected_used < f->in->n_injected_picks) {
    int bucket = f->in->injected_picks[f->n_injected_used++];
    if (f->left[bucket] > 0 && find_list(f, best_of(f, bucket)->sp) < n_eligible)
      return bucket;
  }
  if (f->in->options.pick == PICK_DETERMINISTIC || f->in->n_injected_picks > 0)
    return f->lists[n_eligible - 1].buckets[0];
  return draw_bucket(f, draw_list(f, n_eligible));
}

void fill_take(struct fill *f, int bucket, int64_t count) {
  int64_t before = f->left[bucket];
  ASSERT(count <= before);
  f->left[bucket] -= count;
  if (before > 0 && f->left[bucket] == 0)
    list_remove(f, bucket);
  if (before == 0 && f->left[bucket] > 0)
    list_add(f, bucket);
}

double fill_floor_divide(double a, double b) { return nearbyint((a - fmod(a, b)) / b); }

void fill_sort(struct fill_entry *entries, int n) {
  struct fill_entry *sorted = xmalloc(size_mul((size_t)n, sizeof *sorted));
  int at = 0;
  for (int sp = 1 << 30; sp > 0; sp >>= 1)
    for (int i = 0; i < n; i++)
      if (entries[i].sp == sp)
        sorted[at++] = entries[i];
  ASSERT(at == n);
  memcpy(entries, sorted, (size_t)n * sizeof *entries);
  free(sorted);
}
