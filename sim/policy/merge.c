#include "sim/policy/merge.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

void merge_release(struct merge *m) {
  for (size_t i = 0; i < m->parts_cap; i++)
    plan_iteration_release(&m->parts[i]);
  free(m->parts);
  *m = (struct merge){0};
}

static void swap(struct plan_iteration *a, struct plan_iteration *b) {
  struct plan_iteration t = *a;
  *a = *b;
  *b = t;
}

static struct plan_iteration *slot_ahead(struct merge *m) {
  if (m->n_parts == m->parts_cap) {
    size_t cap = m->parts_cap ? m->parts_cap * 2 : 4;
    m->parts = xrealloc(m->parts, size_mul(cap, sizeof *m->parts));
    memset(m->parts + m->parts_cap, 0, (cap - m->parts_cap) * sizeof *m->parts);
    m->parts_cap = cap;
  }
  return &m->parts[m->n_parts];
}

/* target[i]: the group of the last round of `out` (from `round_start` on) that group i of `part` continues. Both are
 * ordered by first rank. False where one has none. */
static bool match_groups(const struct plan_iteration *out, size_t round_start, const struct plan_iteration *part,
                         size_t *target) {
  size_t at = round_start;
  for (size_t i = 0; i < part->n_groups; i++) {
    const struct plan_group *g = &part->groups[i];
    while (at < out->n_groups && out->groups[at].first_rank < g->first_rank)
      at++;
    if (at == out->n_groups || out->groups[at].first_rank != g->first_rank || out->groups[at].sp != g->sp)
      return false;
    target[i] = at;
  }
  return true;
}

static void join_group(struct plan_group *into, const struct plan_group *g) {
  into->n_micro_batches += g->n_micro_batches;
  into->planned_gas += g->planned_gas;
  if (into->bucket != g->bucket)
    into->bucket = -1;
}

/* Moves what `part` owns beside its groups and micro-batches. */
static void take_drops_and_pools(struct plan_iteration *out, struct plan_iteration *part) {
  for (size_t i = 0; i < part->n_drops; i++)
    VEC_PUSH(out->drops, out->n_drops, out->drops_cap, part->drops[i]);
  for (size_t i = 0; i < part->n_pools; i++)
    VEC_PUSH(out->pools, out->n_pools, out->pools_cap, part->pools[i]);
  part->n_pools = 0;
}

/* Groups of all parts into `out`; target[] gets, part after part, the group in `out` of each of their groups. */
static void join_groups(struct merge *m, struct plan_iteration *out, size_t *target) {
  size_t round_start = 0;
  int round = 0;
  for (size_t p = 0; p < m->n_parts; p++) {
    struct plan_iteration *part = &m->parts[p];
    bool same = p > 0 && match_groups(out, round_start, part, target);
    if (!same && p > 0) {
      round_start = out->n_groups;
      round++;
    }
    for (size_t i = 0; i < part->n_groups; i++) {
      if (same) {
        join_group(&out->groups[target[i]], &part->groups[i]);
        continue;
      }
      target[i] = out->n_groups;
      VEC_PUSH(out->groups, out->n_groups, out->groups_cap, part->groups[i]);
      out->groups[target[i]].round = round;
    }
    target += part->n_groups;
  }
}

/* Micro-batches in group order, those of one group in part order. */
static void join_micro_batches(struct merge *m, struct plan_iteration *out, const size_t *target) {
  size_t total = 0;
  for (size_t i = 0; i < out->n_groups; i++) {
    out->groups[i].first_micro_batch = total;
    total += out->groups[i].n_micro_batches;
    out->groups[i].n_micro_batches = 0;
  }
  if (total > out->micro_batches_cap) {
    out->micro_batches = xrealloc(out->micro_batches, size_mul(total, sizeof *out->micro_batches));
    out->micro_batches_cap = total;
  }
  out->n_micro_batches = total;
  for (size_t p = 0; p < m->n_parts; p++) {
    const struct plan_iteration *part = &m->parts[p];
    for (size_t i = 0; i < part->n_groups; i++) {
      const struct plan_group *from = &part->groups[i];
      struct plan_group *into = &out->groups[*target++];
      memcpy(&out->micro_batches[into->first_micro_batch + into->n_micro_batches],
             &part->micro_batches[from->first_micro_batch], from->n_micro_batches * sizeof *out->micro_batches);
      into->n_micro_batches += from->n_micro_batches;
    }
  }
}

static void join(struct merge *m, struct plan_iteration *out) {
  size_t n = 0;
  for (size_t p = 0; p < m->n_parts; p++)
    n += m->parts[p].n_groups;
  size_t *target = xmalloc(size_mul(n + 1, sizeof *target));
  join_groups(m, out, target);
  join_micro_batches(m, out, target);
  for (size_t p = 0; p < m->n_parts; p++)
    take_drops_and_pools(out, &m->parts[p]);
  free(target);
}

int merge_next(struct merge *m, int (*next)(void *context, struct plan_iteration *it, struct err *err), void *context,
               int64_t limit_tokens, struct plan_iteration *out, struct err *err) {
  int64_t tokens = 0;
  plan_iteration_clear(out);
  for (;;) {
    struct plan_iteration *ahead = slot_ahead(m);
    if (!m->ahead) {
      m->ahead_rc = next(context, ahead, err);
      m->ahead = true;
    }
    if (m->ahead_rc <= 0 || (m->n_parts > 0 && tokens + ahead->tokens > limit_tokens))
      break;
    tokens += ahead->tokens;
    m->ahead = false;
    m->n_parts++;
  }
  size_t n = m->n_parts;
  if (n == 0) {
    m->ahead = m->ahead_rc == 0; /* the end stays the end */
    swap(out, &m->parts[0]);
    plan_iteration_clear(&m->parts[0]);
    return m->ahead_rc;
  }
  if (n == 1)
    swap(out, &m->parts[0]);
  else
    join(m, out);
  out->over_tokens = tokens > limit_tokens;
  swap(&m->parts[0], &m->parts[n]);
  m->n_parts = 0;
  return 1;
}
