#include "sim/experiment/step_memo.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"
#include "sim/plan/program_time.h"

#define MEMO_BYTES (48u << 20) /* of records, per run */
#define MEMO_FIRST_SLOTS (1u << 8)
#define MEMO_MAX_SLOTS (1u << 18)

void step_record_release(struct step_record *r) {
  free(r->busy_ns);
  free(r->work);
  *r = (struct step_record){0};
}

static void reserve(struct step_record *r, size_t groups, size_t work) {
  VEC_RESERVE(r->busy_ns, r->groups_cap, groups);
  VEC_RESERVE(r->work, r->work_cap, work);
}

void step_record_fill(struct step_record *r, const struct step_input *in, const struct step_result *result) {
  reserve(r, (size_t)in->n_groups, (size_t)result->n_work);
  r->step_ns = result->step_ns;
  r->imbalance_ns = result->imbalance_ns;
  r->max_busy_ns = result->max_busy_ns;
  r->ranks = result->between;
  account_add(&r->ranks, &result->idle, result->idle_ranks);
  r->n_groups = in->n_groups;
  r->n_work = 0;
  for (int i = 0; i < in->n_groups; i++)
    r->busy_ns[i] = 0;
  for (int i = 0; i < result->n_actors; i++) {
    const struct step_actor *a = &result->actors[i];
    account_add(&r->ranks, &a->account, a->ranks);
    r->busy_ns[a->group] = int64_max(r->busy_ns[a->group], a->busy_ns);
    for (int m = 0; m < in->groups[a->group].n_micro_batches; m++) {
      struct record_work *w = &r->work[r->n_work++];
      *w = (struct record_work){.group = a->group, .micro_batch = m, .ranks = a->ranks};
      memcpy(w->work_ns, result->work_ns[a->first_micro_batch + m], sizeof w->work_ns);
    }
  }
}

/* ---- the table ---- */

struct group_number {
  uint32_t number;
  int group;
};

/* Of the groups sorted by number. */
struct kept_group {
  uint32_t number;
  int64_t busy_ns, work_ns[WORK_CLASSES];
};

struct kept {
  uint64_t hash;
  int64_t step_ns, imbalance_ns, max_busy_ns;
  struct account ranks;
  int n;
  struct kept_group groups[];
};

struct step_memo {
  struct kept **slots;
  size_t n_slots, n, bytes;
  struct group_number *sorted; /* of the last look-up */
  int n_sorted;
  size_t sorted_cap;
  uint64_t hash;
};

struct step_memo *step_memo_new(void) {
  struct step_memo *m = xcalloc(1, sizeof *m);
  m->n_slots = MEMO_FIRST_SLOTS; /* most runs are short */
  m->slots = xcalloc(m->n_slots, sizeof *m->slots);
  return m;
}

static void clear(struct step_memo *m) {
  for (size_t i = 0; i < m->n_slots; i++) {
    free(m->slots[i]);
    m->slots[i] = NULL;
  }
  m->n = m->bytes = 0;
}

void step_memo_free(struct step_memo *m) {
  if (!m)
    return;
  clear(m);
  free(m->slots);
  free(m->sorted);
  free(m);
}

static int by_number(const void *a, const void *b) {
  const struct group_number *x = a, *y = b;
  if (x->number != y->number)
    return x->number < y->number ? -1 : 1;
  return x->group - y->group;
}

static void sort(struct step_memo *m, const uint32_t *numbers, int n) {
  VEC_RESERVE(m->sorted, m->sorted_cap, (size_t)n);
  m->n_sorted = n;
  for (int i = 0; i < n; i++)
    m->sorted[i] = (struct group_number){numbers[i], i};
  qsort(m->sorted, (size_t)n, sizeof *m->sorted, by_number);
  m->hash = (uint64_t)n;
  for (int i = 0; i < n; i++) {
    m->hash = (m->hash ^ m->sorted[i].number) * UINT64_C(0x9e3779b97f4a7c15);
    m->hash ^= m->hash >> 31;
  }
}

static bool is_it(const struct step_memo *m, const struct kept *k) {
  if (k->hash != m->hash || k->n != m->n_sorted)
    return false;
  for (int i = 0; i < k->n; i++)
    if (k->groups[i].number != m->sorted[i].number)
      return false;
  return true;
}

/* Where the groups of the last look-up are, or the empty slot where they belong. */
static size_t slot_of(const struct step_memo *m) {
  size_t at = m->hash & (m->n_slots - 1);
  while (m->slots[at] && !is_it(m, m->slots[at]))
    at = (at + 1) & (m->n_slots - 1);
  return at;
}

static void grow(struct step_memo *m) {
  struct kept **old = m->slots;
  size_t n_old = m->n_slots;
  m->n_slots = n_old * 2;
  m->slots = xcalloc(m->n_slots, sizeof *m->slots);
  for (size_t i = 0; i < n_old; i++) {
    if (!old[i])
      continue;
    size_t at = old[i]->hash & (m->n_slots - 1);
    while (m->slots[at])
      at = (at + 1) & (m->n_slots - 1);
    m->slots[at] = old[i];
  }
  free(old);
}

bool step_memo_find(struct step_memo *m, const uint32_t *numbers, int n_groups, struct step_record *r) {
  sort(m, numbers, n_groups);
  const struct kept *k = m->slots[slot_of(m)];
  if (!k)
    return false;
  reserve(r, (size_t)n_groups, (size_t)n_groups);
  r->step_ns = k->step_ns;
  r->imbalance_ns = k->imbalance_ns;
  r->max_busy_ns = k->max_busy_ns;
  r->ranks = k->ranks;
  r->n_groups = n_groups;
  r->n_work = (size_t)n_groups;
  for (int i = 0; i < n_groups; i++) {
    int group = m->sorted[i].group;
    struct record_work *w = &r->work[i];
    r->busy_ns[group] = k->groups[i].busy_ns;
    w->group = group;
    memcpy(w->work_ns, k->groups[i].work_ns, sizeof w->work_ns);
    w->micro_batch = 0;
    w->ranks = 0; /* the caller knows the group's degree */
  }
  return true;
}

void step_memo_keep(struct step_memo *m, const struct step_record *r) {
  size_t bytes = sizeof(struct kept) + size_mul((size_t)r->n_groups, sizeof(struct kept_group));
  ASSERT(r->n_groups == m->n_sorted);
  if (r->n_work != (size_t)r->n_groups) /* ranks of a group parted: not alike */
    return;
  if (m->bytes + bytes > MEMO_BYTES || 2 * m->n > MEMO_MAX_SLOTS)
    clear(m);
  if (2 * (m->n + 1) > m->n_slots)
    grow(m);
  struct kept *k = xmalloc(bytes);
  *k = (struct kept){.hash = m->hash,
                     .step_ns = r->step_ns,
                     .imbalance_ns = r->imbalance_ns,
                     .max_busy_ns = r->max_busy_ns,
                     .ranks = r->ranks,
                     .n = r->n_groups};
  int *place = xmalloc(size_mul((size_t)r->n_groups + 1, sizeof *place)); /* of a group in the sorted order */
  for (int i = 0; i < k->n; i++) {
    place[m->sorted[i].group] = i;
    k->groups[i].number = m->sorted[i].number;
    k->groups[i].busy_ns = r->busy_ns[m->sorted[i].group];
  }
  for (size_t i = 0; i < r->n_work; i++)
    memcpy(k->groups[place[r->work[i].group]].work_ns, r->work[i].work_ns, sizeof r->work[i].work_ns);
  free(place);
  m->slots[slot_of(m)] = k;
  m->n++;
  m->bytes += bytes;
}
