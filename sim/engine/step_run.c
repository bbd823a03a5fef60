/* Runs: successive compute ops of an actor, played as one event. Nothing can interrupt them but a collective that
 * begins or ends beside them, which changes their rate: all runs are then settled up to that moment, in the same
 * fixed-point units as classes.h, and their ends found anew. */
#include "sim/base/err.h"
#include "sim/base/units.h"
#include "sim/engine/step_state.h"
#include "sim/plan/program_time.h"

static int64_t rate_of(const struct engine *e) {
  return e->collective_active ? e->classes.overlapped_rate : UNITS_PER_NS;
}

static int64_t end_at(const struct run *r, int64_t rate) {
  return rate == UNITS_PER_NS ? r->from_ns + ((r->left_units + UNITS_PER_NS - 1) >> 20)
                              : r->from_ns + ceil_div(r->left_units, rate);
}

/* The op after the one that ended at `end_ns`, issued behind it. */
static void go_on(struct run *r, int64_t end_ns, int64_t host_op_ns, double factor) {
  r->op++;
  r->host_ns += r->op->kernels * host_op_ns;
  r->from_ns = int64_max(end_ns, r->host_ns);
  r->left_units = work_units(scaled_ns(r->op->ns, factor));
  r->begun = false;
}

/* When the run will end if no collective begins or ends meanwhile. */
static void expect_end(struct engine *e, struct actor *a) {
  struct run r = a->run;
  int64_t rate = rate_of(e), host_op_ns = program_of(e, a)->host_op_ns;
  int64_t end_ns = end_at(&r, rate);
  while (r.op < r.last) {
    go_on(&r, end_ns, host_op_ns, a->rank.factor);
    end_ns = end_at(&r, rate);
  }
  wake_at(e, a, end_ns);
}

static void begin_op(struct engine *e, struct actor *a) {
  if (!a->run.begun && a->run.from_ns > a->rank.mark_ns)
    account_wait(e, a, a->run.from_ns);
  a->run.begun = true;
}

/* Accounts what the run has done up to now, its end excepted, at the rate since it was last settled. */
static void settle(struct engine *e, struct actor *a) {
  struct run *r = &a->run;
  int64_t rate = rate_of(e), host_op_ns = program_of(e, a)->host_op_ns;
  for (;;) {
    if (r->from_ns > e->now_ns)
      return; /* the host has not issued it */
    begin_op(e, a);
    int64_t end_ns = end_at(r, rate);
    if (r->op == r->last || end_ns > e->now_ns)
      break;
    account_compute(e, a, r->op, end_ns);
    go_on(r, end_ns, host_op_ns, a->rank.factor);
  }
  r->left_units = int64_max(0, r->left_units - (e->now_ns - r->from_ns) * rate);
  r->from_ns = e->now_ns;
}

/* Compute ops from this one on without anything between them, in the same repeat of their section. */
static const struct op *last_of_run(const struct program *p, const struct cursor *c, const struct op *op) {
  const struct op *end = op + (p->sections[c->section].n_ops - c->op);
  while (op + 1 < end && op[1].kind == OP_COMPUTE)
    op++;
  return op;
}

void begin_run(struct engine *e, struct actor *a, const struct op *op) {
  bool alone = a->launched == e->groups[a->group].completed; /* else ops may have to wait for the exchange */
  a->run = (struct run){.op = op,
                        .last = alone ? last_of_run(program_of(e, a), &a->cursor, op) : op,
                        .host_ns = a->rank.host_ns,
                        .from_ns = int64_max(e->now_ns, a->rank.host_ns),
                        .left_units = work_units(scaled_ns(op->ns, a->rank.factor))};
  a->activity = COMPUTING;
  if (a->run.from_ns == e->now_ns)
    begin_op(e, a);
  expect_end(e, a);
}

void end_run(struct engine *e, struct actor *a) {
  settle(e, a);
  ASSERT(a->run.op == a->run.last && a->run.left_units == 0);
  account_compute(e, a, a->run.op, e->now_ns);
  a->rank.host_ns = a->run.host_ns;
  a->cursor.op += (int)(a->run.op - cursor_op(program_of(e, a), &a->cursor));
}

void settle_runs(struct engine *e) {
  for (size_t i = 0; !e->plain && i < e->n_actors; i++)
    if (e->actors[i].activity == COMPUTING)
      settle(e, &e->actors[i]);
}

void expect_runs(struct engine *e) {
  if (e->plain)
    return;
  heap_clear(&e->timers);
  for (size_t i = 0; i < e->n_actors; i++) {
    struct actor *a = &e->actors[i];
    if (a->activity == COMPUTING)
      expect_end(e, a);
    else if (a->wake_ns >= 0)
      wake_at(e, a, a->wake_ns);
  }
}
