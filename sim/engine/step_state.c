#include "sim/engine/step_state.h"

#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

void record_span(struct engine *e, int first_rank, int sp, int micro_batch, enum timeline_stream stream, int category,
                 const char *name, int64_t start_ns, int64_t end_ns) {
  const struct step_input *in = e->in;
  if (!in->timeline || end_ns <= start_ns)
    return;
  timeline_add(in->timeline, (struct timeline_span){.start_ns = in->timeline_start_ns + start_ns,
                                                    .end_ns = in->timeline_start_ns + end_ns,
                                                    .name = name,
                                                    .stream = (uint8_t)stream,
                                                    .category = (uint8_t)category,
                                                    .iteration = in->iteration,
                                                    .first_rank = first_rank,
                                                    .sp = sp,
                                                    .micro_batch = micro_batch});
}

void record_all_ranks(struct engine *e, int category, const char *name, enum timeline_stream stream, int64_t start_ns,
                      int64_t end_ns) {
  record_span(e, 0, system_world(e->system), -1, stream, category, name, start_ns, end_ns);
}

void wake_at(struct engine *e, struct actor *a, int64_t at_ns) {
  a->wake_ns = at_ns;
  heap_push(&e->timers, at_ns, (uint32_t)(a - e->actors));
}

/* models.md section 7 */
void account_wait(struct engine *e, struct actor *a, int64_t to_ns) {
  struct rank_state *r = &a->rank;
  int64_t ns = to_ns - r->mark_ns, sync = sync_time(e, to_ns), in_sync = sync - a->mark_sync_ns;
  const struct group_state *g = &e->groups[a->group];
  r->mark_ns = to_ns;
  a->mark_sync_ns = sync;
  if (g->in_flight) {
    r->account.exchange_ns += ns;
    return;
  }
  r->account.sync_ns += in_sync;
  if (a->launched > g->completed || a->activity == WAITING_COLLECTIVE)
    r->account.idle_ns += ns - in_sync;
  else
    r->account.host_ns += ns - in_sync;
}

void account_compute(struct engine *e, struct actor *a, const struct op *op, int64_t end_ns) {
  int64_t ns = end_ns - a->rank.mark_ns;
  if (op->category == TIMELINE_CAT_RECOMPUTE)
    a->rank.account.recompute_ns += ns;
  else
    a->rank.account.work_ns[op->work] += ns;
  a->rank.mark_ns = end_ns;
  a->mark_sync_ns = sync_time(e, end_ns);
}

void arrive_collectives(struct engine *e, struct actor *a) {
  const struct group_state *g = &e->groups[a->group];
  size_t per = e->collectives.n, base = g->collective_base;
  if (e->collectives.every_micro_batch)
    base += per * (size_t)a->micro_batch;
  while (a->next_collective < (int)per && e->collectives.v[a->next_collective].after_post <= a->posted)
    e->need[base + (size_t)a->next_collective++]--;
}

void close_micro_batch(struct engine *e, struct actor *a) {
  memcpy(e->work[a->first_work + a->micro_batch], a->rank.account.work_ns, sizeof a->rank.account.work_ns);
  memset(a->rank.account.work_ns, 0, sizeof a->rank.account.work_ns);
  a->micro_batch++;
  a->cursor = (struct cursor){0};
  a->posted = a->next_collective = 0;
}

void start_group(struct engine *e, int group, int64_t now_ns, int64_t host_ns) {
  struct group_state *g = &e->groups[group];
  for (int i = 0; i < g->n_actors; i++) {
    struct actor *a = &e->actors[g->first_actor + i];
    double factor = a->rank.factor;
    a->rank = rank_state_at(now_ns, factor);
    a->rank.host_ns = host_ns;
    a->began_ns = now_ns;
    a->began_sync_ns = a->mark_sync_ns = sync_time(e, now_ns);
    a->activity = TIMER;
  }
}

void hand_over(struct engine *e, int group) {
  struct group_state *g = &e->groups[group];
  for (int i = 0; i < g->n_actors; i++) {
    struct actor *a = &e->actors[g->first_actor + i];
    a->activity = TIMER;
    ASSERT(a->rank.exchange_free_ns <= a->rank.compute_free_ns); /* no exchange in flight */
    wake_at(e, a, a->rank.compute_free_ns);
  }
}

bool predecessors_done(const struct engine *e, int group, int64_t *start_ns, int64_t *host_ns) {
  *start_ns = *host_ns = 0;
  const struct group_state *g = &e->groups[group];
  for (size_t i = g->first_edge; i < g->first_edge + g->n_edges; i++) {
    const struct group_state *from = &e->groups[e->edges[i].from];
    if (!from->done)
      return false;
    *start_ns = int64_max(*start_ns, from->end_ns);
    *host_ns = int64_max(*host_ns, from->host_ns);
  }
  return true;
}
