#include "sim/engine/step.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"
#include "sim/engine/step_state.h"
#include "sim/plan/lower.h"

struct engine *engine_new(const struct system *system, bool unequal_counts) {
  struct engine *e = xcalloc(1, sizeof *e);
  e->system = system;
  e->unequal_counts = unequal_counts;
  lower_step_tail(&e->tail, system);
  program_fold_cache(&e->tail);
  classes_init(&e->classes, params_overlap_slowdown_frac(system->params), system->cluster->oversubscription > 1);
  size_t world = (size_t)system_world(system);
  e->rank_group = xmalloc(size_mul(world, sizeof *e->rank_group));
  e->ranks = xmalloc(size_mul(world, sizeof *e->ranks));
  e->kept_ranks = xmalloc(size_mul(world, sizeof *e->kept_ranks));
  return e;
}

void engine_free(struct engine *e) {
  if (!e)
    return;
  collectives_release(&e->collectives);
  program_release(&e->tail);
  classes_release(&e->classes);
  heap_release(&e->timers);
  free(e->actors);
  free(e->groups);
  free(e->edges);
  free(e->rank_group);
  free(e->ranks);
  free(e->kept_ranks);
  free(e->need);
  free(e->work);
  free(e->out_actors);
  free(e);
}

/* ---- recording ---- */

static void record(struct engine *e, const struct actor *a, enum timeline_stream stream, int category, const char *name,
                   int64_t start_ns, int64_t end_ns) {
  const struct step_group *g = &e->in->groups[a->group];
  bool whole = a->ranks == g->sp;
  record_span(e, whole ? g->first_rank : a->first_rank, whole ? g->sp : 1, a->micro_batch, stream, category, name,
              start_ns, end_ns);
}

/* ---- collectives over all ranks ---- */

static const struct step_collective *collective_at(const struct engine *e, size_t k) {
  return &e->collectives.v[k % e->collectives.n];
}

/* Whether collective k can start. */
static bool all_arrived(const struct engine *e, size_t k) { return k < e->n_need && e->need[k] == 0; }

static void start_collective(struct engine *e) {
  const struct step_collective *c = collective_at(e, e->completed);
  e->collective_active = true;
  e->collective_start_ns = e->now_ns;
  memcpy(e->classes.v[CLASS_COLLECTIVE].load, c->load, sizeof c->load);
  e->classes.signature = 0; /* its load may differ from the one before */
  classes_start(&e->classes, CLASS_COLLECTIVE, e->now_ns, c->ns, 0);
}

static void start_collective_if_ready(struct engine *e) {
  if (e->collective_active || !all_arrived(e, e->completed))
    return;
  settle_runs(e);
  start_collective(e);
  expect_runs(e);
}

/* Collectives that must be complete before an OP_WAIT of this actor passes. */
static size_t wait_target(const struct engine *e, const struct actor *a, int lag) {
  const struct group_state *g = &e->groups[a->group];
  size_t base = g->collective_base;
  if (e->collectives.every_micro_batch)
    base += e->collectives.n * (size_t)a->micro_batch;
  int arrived = a->next_collective - lag;
  return base + (arrived > 0 ? (size_t)arrived : 0);
}

/* ---- exchanges within a group ---- */

static void start_exchange(struct engine *e, int group) {
  struct group_state *g = &e->groups[group];
  const struct program *p = e->in->groups[group].programs[e->actors[g->first_actor].micro_batch];
  for (int i = 0; i < g->n_actors; i++) {
    struct actor *a = &e->actors[g->first_actor + i];
    if (a->activity != COMPUTING)
      account_wait(e, a, e->now_ns);
  }
  g->arrived = 0;
  g->in_flight = true;
  g->flight_start_ns = e->now_ns;
  int class = classes_exchange(&e->classes, p->loads[g->exchange->load]);
  classes_start(&e->classes, class, e->now_ns, g->exchange->ns, (uint32_t)group);
}

/* ---- actors ---- */

static void finish_group(struct engine *e, int group);

static void finish_actor(struct engine *e, struct actor *a) {
  struct group_state *g = &e->groups[a->group];
  a->activity = FINISHED;
  a->ended_ns = e->now_ns;
  e->unfinished--;
  g->host_ns = int64_max(g->host_ns, a->rank.host_ns);
  if (++g->finished_actors == g->n_actors)
    finish_group(e, a->group);
}

/* Whether an op cannot start yet: an exchange that it waits for is in flight, or the host has not issued it. */
static bool held_up(struct engine *e, struct actor *a, const struct op *op) {
  bool beside = op->kind == OP_COMPUTE && op->skip_last_exchange;
  if (a->launched - beside > e->groups[a->group].completed) {
    a->activity = WAITING_EXCHANGE;
    return true;
  }
  if (a->rank.host_ns > e->now_ns) {
    a->activity = TIMER;
    wake_at(e, a, a->rank.host_ns);
    return true;
  }
  return false;
}

/* Compute op at the cursor: always has to wait, for its end if for nothing before. */
static bool begin_compute(struct engine *e, struct actor *a, const struct op *op) {
  bool run_waits = !e->plain && a->launched == e->groups[a->group].completed; /* for the host, the only hold-up left */
  if (!run_waits && held_up(e, a, op))
    return true;
  if (!e->plain) {
    begin_run(e, a, op);
    return true;
  }
  account_wait(e, a, e->now_ns);
  a->activity = COMPUTING;
  classes_start(&e->classes, CLASS_COMPUTE, e->now_ns, scaled_ns(op->ns, a->rank.factor), (uint32_t)(a - e->actors));
  return true;
}

/* Exchange op at the cursor: true when it has to wait before it arrives. */
static bool arrive_exchange(struct engine *e, struct actor *a, const struct op *op) {
  struct group_state *g = &e->groups[a->group];
  if (held_up(e, a, op))
    return true;
  account_wait(e, a, e->now_ns);
  a->activity = WAITING_EXCHANGE;
  a->launched++;
  g->exchange = op;
  if (++g->arrived == g->n_actors)
    start_exchange(e, a->group);
  return false;
}

/* One op: true when the actor has to wait for an event before going on. */
static bool process_op(struct engine *e, struct actor *a, const struct op *op) {
  struct group_state *g = &e->groups[a->group];
  switch ((enum op_kind)op->kind) {
  case OP_COMPUTE:
    return begin_compute(e, a, op);
  case OP_EXCHANGE:
    return arrive_exchange(e, a, op);
  case OP_HOST:
    if (a->launched > g->completed) {
      a->activity = WAITING_EXCHANGE;
      return true;
    }
    a->rank.host_ns = int64_max(a->rank.host_ns, e->now_ns) + op->ns;
    return false;
  case OP_POST:
    if (posting(e, a) && !(cursor_last_repeat(program_of(e, a), &a->cursor) && op->last_bytes < 0)) {
      a->posted++;
      arrive_collectives(e, a);
      start_collective_if_ready(e);
    }
    return false;
  case OP_WAIT:
    if (posting(e, a) && e->completed < wait_target(e, a, op->lag)) {
      account_wait(e, a, e->now_ns);
      a->activity = WAITING_COLLECTIVE;
      return true;
    }
    return false;
  }
  return false;
}

/* Goes through ops until one has to wait. */
static void advance(struct engine *e, struct actor *a) {
  const struct step_group *g = &e->in->groups[a->group];
  while (a->micro_batch < g->n_micro_batches) {
    const struct program *p = program_of(e, a);
    const struct op *op = cursor_op(p, &a->cursor);
    if (!op) {
      if (a->launched > e->groups[a->group].completed) {
        a->activity = WAITING_EXCHANGE;
        return;
      }
      account_wait(e, a, e->now_ns);
      close_micro_batch(e, a);
      continue;
    }
    if (!a->issued)
      a->rank.host_ns += op->kernels * p->host_op_ns;
    a->issued = true;
    if (process_op(e, a, op))
      return;
    a->issued = false;
    cursor_advance(p, &a->cursor);
  }
  finish_actor(e, a);
}

static void finish_compute(struct engine *e, struct actor *a) {
  if (e->plain) {
    const struct op *op = cursor_op(program_of(e, a), &a->cursor);
    record(e, a, TIMELINE_COMPUTE, op->category, op->name, a->rank.mark_ns, e->now_ns);
    account_compute(e, a, op, e->now_ns);
  } else {
    end_run(e, a);
  }
  a->rank.compute_free_ns = e->now_ns;
  a->activity = TIMER;
  a->issued = false;
  cursor_advance(program_of(e, a), &a->cursor);
  advance(e, a);
}

static void finish_exchange(struct engine *e, int group) {
  struct group_state *g = &e->groups[group];
  for (int i = 0; i < g->n_actors; i++) {
    struct actor *a = &e->actors[g->first_actor + i];
    record(e, a, TIMELINE_EXCHANGE, TIMELINE_CAT_SP_EXCHANGE, g->exchange->name, g->flight_start_ns, e->now_ns);
    if (a->activity != COMPUTING)
      account_wait(e, a, e->now_ns);
  }
  g->in_flight = false;
  g->completed++;
  for (int i = 0; i < g->n_actors; i++) {
    struct actor *a = &e->actors[g->first_actor + i];
    if (a->activity == WAITING_EXCHANGE)
      advance(e, a);
  }
}

static void finish_collective(struct engine *e) {
  const struct step_collective *c = collective_at(e, e->completed);
  record_all_ranks(e, TIMELINE_CAT_GRAD_SYNC, c->name, TIMELINE_SYNC, e->collective_start_ns, e->now_ns);
  bool goes_on = all_arrived(e, e->completed + 1); /* the next one starts at once: rates of compute stay */
  if (!goes_on)
    settle_runs(e);
  e->sync_ns += e->now_ns - e->collective_start_ns;
  e->collective_active = false;
  e->last_collective_end_ns = e->now_ns;
  e->completed++;
  if (goes_on)
    start_collective(e);
  else
    expect_runs(e);
  for (size_t i = 0; e->collectives.every_micro_batch && i < e->n_actors; i++) {
    struct actor *a = &e->actors[i];
    if (a->activity != WAITING_COLLECTIVE)
      continue;
    const struct op *op = cursor_op(program_of(e, a), &a->cursor);
    if (e->completed >= wait_target(e, a, op->lag)) {
      account_wait(e, a, e->now_ns);
      advance(e, a);
    }
  }
}

/* ---- setting a step up ---- */

static void add_actor(struct engine *e, int group, int first_rank, int ranks, double factor) {
  struct actor a = {.group = group,
                    .ranks = ranks,
                    .first_rank = first_rank,
                    .first_work = (int)e->n_work,
                    .activity = WAITING_TO_START,
                    .wake_ns = -1};
  a.rank.factor = factor;
  VEC_PUSH(e->actors, e->n_actors, e->actors_cap, a);
  for (int i = 0; i < e->in->groups[group].n_micro_batches; i++) {
    if (e->n_work == e->work_cap) {
      e->work_cap = e->work_cap ? 2 * e->work_cap : 256;
      e->work = xrealloc(e->work, size_mul(e->work_cap, sizeof *e->work));
    }
    memset(e->work[e->n_work++], 0, sizeof *e->work);
  }
}

/* Ranks of a group form one actor when they run at one speed. */
static void add_actors(struct engine *e, int group) {
  const struct step_group *g = &e->in->groups[group];
  const double *f = e->in->factors;
  bool alike = true;
  for (int r = 1; f && r < g->sp; r++)
    alike = alike && f[g->first_rank + r] == f[g->first_rank];
  e->groups[group].first_actor = (int)e->n_actors;
  if (alike)
    add_actor(e, group, g->first_rank, g->sp, f ? f[g->first_rank] : 1);
  for (int r = 0; !alike && r < g->sp; r++)
    add_actor(e, group, g->first_rank + r, 1, f[g->first_rank + r]);
  e->groups[group].n_actors = (int)e->n_actors - e->groups[group].first_actor;
}

static void add_edge(struct engine *e, int from, int to) {
  struct edge edge = {from, to, NO_EDGE};
  struct group_state *g = &e->groups[from];
  if (g->first_leaving == NO_EDGE)
    g->first_leaving = e->n_edges;
  else
    e->edges[g->last_leaving].next = e->n_edges;
  g->last_leaving = e->n_edges;
  VEC_PUSH(e->edges, e->n_edges, e->edges_cap, edge);
  e->groups[to].n_edges++;
  e->groups[to].waits_for++;
}

/* Edges from the groups that this one's ranks were in before. */
static void add_edges(struct engine *e, int group) {
  const struct step_group *g = &e->in->groups[group];
  int last = -1;
  e->groups[group].first_edge = e->n_edges;
  for (int r = g->first_rank; r < g->first_rank + g->sp; r++) {
    int before = e->rank_group[r];
    if (before >= 0 && before != last) {
      add_edge(e, before, group);
      last = before;
    }
    e->rank_group[r] = group;
  }
}

/* How many arrivals each collective needs. */
static void count_needs(struct engine *e) {
  size_t per = e->collectives.n, rounds = 0;
  size_t base = 0;
  int round = 0, round_max = 0;
  for (size_t i = 0; i < e->n_groups; i++) {
    const struct step_group *g = &e->in->groups[i];
    if (g->round != round) {
      base += (size_t)round_max;
      round_max = 0;
      round = g->round;
    }
    round_max = g->n_micro_batches > round_max ? g->n_micro_batches : round_max;
    e->groups[i].collective_base = e->collectives.every_micro_batch ? base * per : 0;
  }
  rounds = base + (size_t)round_max;
  e->n_need = e->collectives.every_micro_batch ? per * rounds : per;
  if (e->n_need > e->need_cap) {
    e->need_cap = e->n_need;
    e->need = xrealloc(e->need, size_mul(e->need_cap, sizeof *e->need));
  }
  memset(e->need, 0, e->n_need * sizeof *e->need);
  for (size_t i = 0; i < e->n_groups; i++) {
    const struct group_state *g = &e->groups[i];
    size_t n = e->collectives.every_micro_batch ? per * (size_t)e->in->groups[i].n_micro_batches : g->posts ? per : 0;
    for (size_t k = 0; k < n; k++)
      e->need[g->collective_base + k] += g->n_actors;
  }
}

static void set_up(struct engine *e, const struct step_input *in) {
  e->in = in;
  e->plain = in->plain || in->timeline;
  e->now_ns = 0;
  e->n_actors = e->n_groups = e->n_edges = e->n_work = 0;
  e->completed = 0;
  e->collective_active = false;
  e->sync_ns = e->collective_start_ns = e->last_collective_end_ns = 0;
  heap_clear(&e->timers);
  classes_reset(&e->classes);
  e->result = (struct step_result){0};
  for (int r = 0; r < system_world(e->system); r++)
    e->rank_group[r] = -1;
  for (int i = 0; i < in->n_groups; i++) {
    ASSERT(in->groups[i].n_micro_batches > 0);
    VEC_PUSH(e->groups, e->n_groups, e->groups_cap,
             ((struct group_state){.first_leaving = NO_EDGE, .last_leaving = NO_EDGE}));
    add_actors(e, i);
    add_edges(e, i);
  }
  for (int r = 0; r < system_world(e->system); r++)
    if (e->rank_group[r] >= 0)
      e->groups[e->rank_group[r]].posts = true;
  if (!e->have_collectives)
    collectives_init(&e->collectives, e->system, in->groups[0].programs[0], e->unequal_counts);
  e->have_collectives = true;
  count_needs(e);
  e->unfinished = (int)e->n_actors;
}

static void finish_group(struct engine *e, int group) {
  struct group_state *g = &e->groups[group];
  g->done = true;
  g->end_ns = 0;
  for (int i = 0; i < g->n_actors; i++)
    g->end_ns = int64_max(g->end_ns, e->actors[g->first_actor + i].ended_ns);
  for (size_t i = g->first_leaving; i != NO_EDGE; i = e->edges[i].next) {
    struct group_state *to = &e->groups[e->edges[i].to];
    if (--to->waits_for > 0)
      continue;
    int64_t start_ns, host_ns;
    ASSERT(predecessors_done(e, e->edges[i].to, &start_ns, &host_ns));
    start_group(e, e->edges[i].to, e->now_ns, host_ns);
    for (int j = 0; j < to->n_actors; j++)
      wake_at(e, &e->actors[to->first_actor + j], e->now_ns);
  }
}

static void begin_plain(struct engine *e) {
  for (size_t i = 0; i < e->n_groups; i++)
    if (e->groups[i].waits_for == 0) {
      start_group(e, (int)i, 0, 0);
      hand_over(e, (int)i);
    }
}

/* ---- the event loop ---- */

/* An actor's timer has run out. */
static void wake(struct engine *e, struct actor *a) {
  a->wake_ns = -1;
  if (a->activity == COMPUTING)
    finish_compute(e, a);
  else
    advance(e, a);
}

/* -1 with *err set once the step takes too long, as it may where contention slows it. */
static int run_events(struct engine *e, struct err *err) {
  int64_t max_ns = step_max_ns(e->system);
  while (e->unfinished > 0 || e->completed < e->n_need) {
    int class = -1;
    int64_t work_ns = classes_next_ns(&e->classes, &class);
    const struct heap_entry *timer = heap_top(&e->timers);
    ASSERT(timer || work_ns < INT64_MAX || !e->collective_active);
    e->result.events++;
    if (timer && timer->key <= work_ns) {
      e->now_ns = timer->key;
      wake(e, &e->actors[heap_pop(&e->timers).payload]);
    } else if (work_ns < INT64_MAX) {
      e->now_ns = work_ns;
      uint32_t payload = classes_finish(&e->classes, class, work_ns);
      if (class == CLASS_COMPUTE)
        finish_compute(e, &e->actors[payload]);
      else if (class == CLASS_COLLECTIVE)
        finish_collective(e);
      else
        finish_exchange(e, (int)payload);
    } else { /* every arrival was noted by the fast path */
      for (size_t i = 0; i < e->n_actors; i++)
        e->now_ns = int64_max(e->now_ns, e->actors[i].ended_ns);
      start_collective_if_ready(e);
      ASSERT(e->collective_active);
    }
    if (e->now_ns > max_ns)
      return step_overlong(e->system, s_from_ns(e->now_ns), err);
    classes_update(&e->classes, e->now_ns);
  }
  return 0;
}

const struct step_result *engine_step(struct engine *e, const struct step_input *in, struct err *err) {
  if (step_check(e, in, err) < 0)
    return NULL;
  set_up(e, in);
  if (step_check_collectives(e, err) < 0)
    return NULL;
  if (e->plain)
    begin_plain(e);
  else
    step_begin_folded(e);
  if (run_events(e, err) < 0)
    return NULL;
  step_collect(e);
  return &e->result;
}
