/* The end of a step: the tail after the last gradient collective, and where every rank's nanoseconds went. */
#include <stdlib.h>

#include "sim/base/err.h"
#include "sim/base/units.h"
#include "sim/engine/step_state.h"
#include "sim/plan/program_time.h"

/* The step's tail on ranks that differ at most in speed: all meet at each collective. Adds to *sync and *end; optimizer
 * time is returned per unit factor through `optimizer_ns`. */
struct tail_time {
  int64_t sync_ns, optimizer_ns, end_ns;
};

static struct tail_time play_tail(struct engine *e, int64_t start_ns, double slowest) {
  struct tail_time t = {.end_ns = start_ns};
  for (size_t i = 0; i < e->tail.n_ops; i++) {
    const struct op *op = &e->tail.ops[i];
    if (op->kind == OP_POST) {
      int64_t ns = collectives_ns(collectives_cost(e->system, op->collective, op->bytes).time_s);
      record_all_ranks(e, TIMELINE_CAT_GRAD_SYNC, op->name, TIMELINE_SYNC, t.end_ns, t.end_ns + ns);
      t.sync_ns += ns;
      t.end_ns += ns;
    } else if (op->kind == OP_COMPUTE) {
      int64_t ns = scaled_ns(op->ns, slowest);
      record_all_ranks(e, TIMELINE_CAT_OPTIMIZER, op->name, TIMELINE_COMPUTE, t.end_ns, t.end_ns + ns);
      t.optimizer_ns += op->ns;
      t.end_ns += ns;
    }
  }
  return t;
}

/* The rest of the step of a rank that is free from `from_ns`, with `from_sync_ns` of collectives behind it. */
static void account_end(const struct engine *e, struct account *a, int64_t from_ns, int64_t from_sync_ns,
                        const struct tail_time *tail, double factor) {
  int64_t sync = e->sync_ns - from_sync_ns, rest = e->result.sync_end_ns - from_ns;
  int64_t optimizer = scaled_ns(tail->optimizer_ns, factor);
  a->sync_ns += sync + tail->sync_ns;
  a->idle_ns += rest - sync;
  a->optimizer_ns += optimizer;
  a->idle_ns += tail->end_ns - e->result.sync_end_ns - tail->sync_ns - optimizer;
}

static const struct actor *actor_of_rank(const struct engine *e, int group, int rank) {
  const struct group_state *g = &e->groups[group];
  return &e->actors[g->first_actor + (g->n_actors > 1 ? rank - e->in->groups[group].first_rank : 0)];
}

/* Waiting of ranks between their groups of successive rounds, summed over ranks. */
static void account_between(struct engine *e) {
  for (int r = 0; r < system_world(e->system); r++)
    e->rank_group[r] = -1;
  struct account *b = &e->result.between;
  for (size_t i = 0; i < e->n_groups; i++) {
    const struct step_group *g = &e->in->groups[i];
    for (int r = g->first_rank; r < g->first_rank + g->sp; r++) {
      const struct actor *to = actor_of_rank(e, (int)i, r);
      const struct actor *from = e->rank_group[r] < 0 ? NULL : actor_of_rank(e, e->rank_group[r], r);
      int64_t sync = to->began_sync_ns - (from ? from->mark_sync_ns : 0);
      b->sync_ns += sync;
      b->idle_ns += to->began_ns - (from ? from->ended_ns : 0) - sync;
      e->rank_group[r] = (int)i;
    }
  }
}

/* From start to end without waiting for other ranks: T_r of policies.md. */
static int64_t busy_ns(const struct actor *a) {
  return a->ended_ns - a->began_ns - a->rank.account.idle_ns - a->rank.account.sync_ns;
}

static void collect_actor(struct engine *e, size_t i, const struct tail_time *tail) {
  struct actor *a = &e->actors[i];
  int last_ranks = 0; /* ranks of it that have no later group: only they see the end of the step from here */
  for (int r = a->first_rank; r < a->first_rank + a->ranks; r++)
    last_ranks += e->rank_group[r] == a->group;
  struct step_actor out = {.group = a->group,
                           .ranks = a->ranks,
                           .busy_ns = busy_ns(a),
                           .account = a->rank.account,
                           .first_micro_batch = a->first_work};
  int64_t sync_at_end = a->mark_sync_ns;
  if (last_ranks == a->ranks) {
    account_end(e, &out.account, a->ended_ns, sync_at_end, tail, a->rank.factor);
  } else if (last_ranks > 0) { /* ranks of one actor part ways: their ends are kept apart, in `between` */
    struct account end = {0};
    account_end(e, &end, a->ended_ns, sync_at_end, tail, a->rank.factor);
    account_add(&e->result.between, &end, last_ranks);
  }
  VEC_PUSH(e->out_actors, e->n_out, e->out_cap, out);
}

/* T_r of each rank: its groups' busy time; their largest, and the sum over all ranks of what is missing to it. */
static void collect_imbalance(struct engine *e) {
  int world = system_world(e->system);
  int64_t *busy = xcalloc((size_t)world, sizeof *busy), total = 0, max = 0;
  for (size_t i = 0; i < e->n_actors; i++) {
    const struct actor *a = &e->actors[i];
    for (int r = a->first_rank; r < a->first_rank + a->ranks; r++)
      busy[r] += busy_ns(a);
  }
  for (int r = 0; r < world; r++) {
    total += busy[r];
    max = int64_max(max, busy[r]);
  }
  free(busy);
  e->result.max_busy_ns = max;
  e->result.imbalance_ns = max * world - total;
}

/* Every rank's nanoseconds add up to the step. */
static void check_partition(const struct engine *e) {
  const struct step_result *r = &e->result;
  int64_t total = account_total_ns(&r->between) + account_total_ns(&r->idle) * r->idle_ranks;
  for (int i = 0; i < r->n_actors; i++) {
    const struct step_actor *a = &r->actors[i];
    int64_t own = account_total_ns(&a->account);
    for (int m = 0; m < e->in->groups[a->group].n_micro_batches; m++)
      for (int w = 0; w < WORK_CLASSES; w++)
        own += r->work_ns[a->first_micro_batch + m][w];
    total += own * a->ranks;
  }
  ASSERT(total == r->step_ns * system_world(e->system));
}

void step_collect(struct engine *e) {
  struct step_result *r = &e->result;
  r->sync_end_ns = e->last_collective_end_ns;
  for (size_t i = 0; i < e->n_actors; i++)
    r->sync_end_ns = int64_max(r->sync_end_ns, e->actors[i].ended_ns);
  struct tail_time tail = play_tail(e, r->sync_end_ns, step_slowest_factor(e->system, e->in));
  r->step_ns = tail.end_ns;
  account_between(e);
  e->n_out = 0;
  for (size_t i = 0; i < e->n_actors; i++)
    collect_actor(e, i, &tail);
  int world = system_world(e->system);
  for (int rank = 0; rank < world; rank++)
    r->idle_ranks += e->rank_group[rank] < 0;
  account_end(e, &r->idle, 0, 0, &tail, step_slowest_factor(e->system, e->in));
  r->actors = e->out_actors;
  r->n_actors = (int)e->n_out;
  r->work_ns = e->work;
  r->n_work = (int)e->n_work;
  collect_imbalance(e);
  check_partition(e);
}

int64_t engine_least_ns(struct engine *e, const struct step_input *in, struct err *err) {
  int64_t longest_ns = 0;
  ASSERT(!in->factors && !in->timeline);
  if (step_check(e, in, err) < 0)
    return -1;
  for (int i = 0; i < in->n_groups; i++) {
    struct rank_state r = rank_state_at(0, 1);
    for (int m = 0; m < in->groups[i].n_micro_batches; m++)
      program_play_whole(in->groups[i].programs[m], &r);
    longest_ns = int64_max(longest_ns, int64_max(r.compute_free_ns, r.exchange_free_ns));
  }
  e->in = in;
  return play_tail(e, longest_ns, 1).end_ns;
}

int64_t engine_sync_ns(struct engine *e, const struct program *micro_batch) {
  struct collectives c;
  collectives_init(&c, e->system, micro_batch, e->unequal_counts);
  int64_t ns = 0;
  for (size_t i = 0; i < c.n; i++)
    ns += c.v[i].ns;
  collectives_release(&c);
  return ns + play_tail(e, 0, 1).sync_ns;
}
