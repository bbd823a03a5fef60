/* The fast path: nothing can meet before the first collective begins, so groups are played alone until then. */
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"
#include "sim/engine/step_state.h"

static bool actors_end(const struct engine *e, const struct group_state *g) {
  return e->actors[g->first_actor].micro_batch == e->in->groups[e->actors[g->first_actor].group].n_micro_batches;
}

/* Plays a group alone up to its first collective: whole micro-batches that post nothing, then into the one that does.
 */
static void fold_group(struct engine *e, int group) {
  struct group_state *g = &e->groups[group];
  struct actor *actors = &e->actors[g->first_actor];
  struct rank_state *ranks = e->ranks;
  while (!actors_end(e, g) && !posting(e, actors)) {
    const struct program *p = program_of(e, actors);
    if (g->n_actors == 1) {
      program_play_whole(p, &actors->rank);
    } else {
      for (int i = 0; i < g->n_actors; i++)
        ranks[i] = actors[i].rank;
      struct cursor c = {0};
      program_play(p, &c, ranks, g->n_actors, PLAY_ALL, true);
      for (int i = 0; i < g->n_actors; i++)
        actors[i].rank = ranks[i];
    }
    for (int i = 0; i < g->n_actors; i++)
      close_micro_batch(e, &actors[i]);
  }
  if (actors_end(e, g))
    return;
  for (int i = 0; i < g->n_actors; i++)
    ranks[i] = actors[i].rank;
  struct cursor c = {0};
  program_play(program_of(e, actors), &c, ranks, g->n_actors, PLAY_TO_POST, true);
  for (int i = 0; i < g->n_actors; i++) {
    actors[i].rank = ranks[i];
    actors[i].cursor = c;
  }
}

/* No exchange in flight, so the state can be handed to events as it is. */
static bool clean(const struct rank_state *ranks, int n) {
  for (int i = 0; i < n; i++)
    if (ranks[i].exchange_free_ns > ranks[i].compute_free_ns)
      return false;
  return true;
}

static int64_t latest(const struct rank_state *ranks, int n) {
  int64_t t = 0;
  for (int i = 0; i < n; i++)
    t = int64_max(t, int64_max(ranks[i].compute_free_ns, ranks[i].exchange_free_ns));
  return t;
}

/* The whole rest of a single actor's last micro-batch at one go, if it ends before the first collective can begin. */
static bool fold_rest(struct engine *e, struct actor *a, int64_t horizon_ns) {
  if (e->collectives.every_micro_batch || e->collectives.n == 0)
    return false;
  struct rank_state rank = a->rank;
  struct cursor c = a->cursor;
  program_play(program_of(e, a), &c, &rank, 1, PLAY_ALL, true);
  if (latest(&rank, 1) >= horizon_ns)
    return false;
  a->rank = rank;
  a->cursor = c;
  a->posted = e->collectives.v[e->collectives.n - 1].after_post;
  arrive_collectives(e, a);
  close_micro_batch(e, a);
  return true;
}

/* Goes on op by op while every op is over before `horizon_ns`, before which no collective can be in progress; stops at
 * the last clean point, or behind the first op of a run, whose rest is one event anyway. Arrivals at collectives that
 * lie before the horizon are noted at once: none can start sooner.
 */
static void fold_to(struct engine *e, int group, int64_t horizon_ns) {
  struct group_state *g = &e->groups[group];
  struct actor *actors = &e->actors[g->first_actor];
  if (g->n_actors == 1 && fold_rest(e, actors, horizon_ns))
    return;
  struct rank_state *ranks = e->ranks, *kept = e->kept_ranks;
  size_t bytes = (size_t)g->n_actors * sizeof *ranks;
  for (int i = 0; i < g->n_actors; i++)
    ranks[i] = actors[i].rank;
  const struct program *p = program_of(e, actors);
  struct cursor c = actors->cursor, kept_cursor = c;
  memcpy(kept, ranks, bytes);
  int posted = actors->posted, kept_posted = posted;
  bool in_kept_run = false;
  for (const struct op *op; (op = cursor_op(p, &c)) && op->kind != OP_WAIT; cursor_advance(p, &c)) {
    if (op->kind == OP_POST) {
      if (latest(ranks, g->n_actors) >= horizon_ns)
        break;
      posted += !(cursor_last_repeat(p, &c) && op->last_bytes < 0);
    } else {
      program_play_op(p, op, ranks, g->n_actors);
    }
    if (latest(ranks, g->n_actors) > horizon_ns)
      break;
    bool compute = op->kind == OP_COMPUTE;
    in_kept_run = in_kept_run && compute;
    if (in_kept_run || !clean(ranks, g->n_actors))
      continue;
    in_kept_run = compute;
    memcpy(kept, ranks, bytes);
    kept_posted = posted;
    kept_cursor = c;
    cursor_advance(p, &kept_cursor);
  }
  for (int i = 0; i < g->n_actors; i++) {
    actors[i].rank = kept[i];
    actors[i].cursor = kept_cursor;
    actors[i].posted = kept_posted;
    arrive_collectives(e, &actors[i]);
  }
}

/* A folded group that has nothing left. */
static void finish_folded(struct engine *e, int group) {
  struct group_state *g = &e->groups[group];
  for (int i = 0; i < g->n_actors; i++) {
    struct actor *a = &e->actors[g->first_actor + i];
    int64_t end = int64_max(a->rank.compute_free_ns, a->rank.exchange_free_ns);
    rank_account_gap(&a->rank, end);
    a->ended_ns = end;
    a->activity = FINISHED;
    g->end_ns = int64_max(g->end_ns, end);
    g->host_ns = int64_max(g->host_ns, a->rank.host_ns);
    e->unfinished--;
  }
  g->finished_actors = g->n_actors;
  g->done = true;
}

void step_begin_folded(struct engine *e) {
  int64_t horizon_ns = INT64_MAX;
  bool reached = false;
  for (size_t i = 0; i < e->n_groups; i++) {
    struct group_state *g = &e->groups[i];
    int64_t start_ns, host_ns;
    if (!predecessors_done(e, (int)i, &start_ns, &host_ns))
      continue;
    g->waits_for = 0;
    start_group(e, (int)i, start_ns, host_ns);
    fold_group(e, (int)i);
    if (actors_end(e, g)) {
      finish_folded(e, (int)i);
      continue;
    }
    int64_t at = 0;
    for (int j = 0; j < g->n_actors; j++)
      at = int64_max(at, e->actors[g->first_actor + j].rank.compute_free_ns);
    if (e->collectives.every_micro_batch && g->collective_base > 0)
      continue; /* a later round: others hold the first collective */
    horizon_ns = reached ? int64_max(horizon_ns, at) : at;
    reached = true;
  }
  for (size_t i = 0; i < e->n_groups; i++) {
    struct group_state *g = &e->groups[i];
    if (g->done || e->actors[g->first_actor].activity == WAITING_TO_START)
      continue;
    if (reached && !(e->collectives.every_micro_batch && g->collective_base > 0))
      fold_to(e, (int)i, horizon_ns);
    if (actors_end(e, g))
      finish_folded(e, (int)i);
    else
      hand_over(e, (int)i);
  }
  for (size_t i = 0; i < e->n_edges; i++) /* groups folded meanwhile no longer hold up others */
    if (e->groups[e->edges[i].from].done &&
        e->actors[e->groups[e->edges[i].to].first_actor].activity == WAITING_TO_START)
      e->groups[e->edges[i].to].waits_for--;
  for (size_t i = 0; i < e->n_groups; i++) {
    struct group_state *g = &e->groups[i];
    int64_t start_ns, host_ns;
    if (g->done || e->actors[g->first_actor].activity != WAITING_TO_START || g->waits_for > 0)
      continue;
    ASSERT(predecessors_done(e, (int)i, &start_ns, &host_ns));
    start_group(e, (int)i, start_ns, host_ns);
    hand_over(e, (int)i);
  }
}
