#include "sim/experiment/chakra_step.h"

#include <stdlib.h>

#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/engine/collectives.h"
#include "sim/plan/chakra.h"
#include "sim/plan/lower.h"
#include "sim/plan/program_time.h"

/* Ranks first, first + stride, ...: a process group; its name is its place here, from 1. */
struct ranks {
  int first, count, stride;
};

struct traced_step {
  const struct system *system;
  const struct step_input *in;
  struct collectives collectives; /* of one micro-batch */
  struct program tail;
  int *bases;      /* per step group: index of its first micro-batch's first collective */
  size_t n_issued; /* collectives that every rank issues before the tail */
  struct ranks *process_groups;
  size_t n_process_groups, process_groups_cap;
};

/* One rank on its way through the step. */
struct tracer {
  struct traced_step *step;
  struct chakra_writer writer;
  int rank;
  double factor;
  uint64_t compute, exchange, exchange_before; /* last nodes */
  uint64_t wait;                               /* collective that the next op waits for; 0: none */
  uint64_t *issued;                            /* nodes of the collectives so far */
  size_t n_issued;
  int hops; /* of the present group's rings */
};

/* ---- Process groups ---- */

static int process_group(struct traced_step *s, struct ranks r) {
  for (size_t i = 0; i < s->n_process_groups; i++) {
    const struct ranks *g = &s->process_groups[i];
    if (g->first == r.first && g->count == r.count && g->stride == r.stride)
      return (int)i + 1;
  }
  VEC_PUSH(s->process_groups, s->n_process_groups, s->process_groups_cap, r);
  return (int)s->n_process_groups;
}

static int write_process_groups(const struct traced_step *s, struct output_folder *folder, struct err *err) {
  FILE *file = output_folder_begin_file(folder, "groups.json", err);
  if (!file)
    return -1;
  struct json_writer w = {.file = file};
  json_begin_object(&w);
  for (size_t i = 0; i < s->n_process_groups; i++) {
    char name[24];
    snprintf(name, sizeof name, "%zu", i + 1);
    json_key(&w, name);
    json_begin_array(&w);
    for (int k = 0; k < s->process_groups[i].count; k++)
      json_int(&w, s->process_groups[i].first + k * s->process_groups[i].stride);
    json_end_array(&w);
  }
  json_end_object(&w);
  fputc('\n', file);
  return output_folder_end_file(folder, file, err);
}

/* ---- Collectives over all ranks ---- */

static uint64_t last_issued(const struct tracer *t) { return t->n_issued > 0 ? t->issued[t->n_issued - 1] : 0; }

static uint64_t collective_node(struct tracer *t, const char *name, enum collective kind, double bytes, int64_t ns,
                                struct ranks ranks, struct chakra_deps deps) {
  struct chakra_collective c = {.name = name,
                                .kind = kind,
                                .bytes = bytes,
                                .ranks = ranks.count,
                                .group = process_group(t->step, ranks),
                                .ns = ns};
  return chakra_collective(&t->writer, &c, deps);
}

/* With sharding in the node the two levels of engine/collectives.c, of which the first has the time of both. */
static void issue(struct tracer *t, const char *name, enum collective kind, double bytes, int64_t ns, bool ready) {
  const struct system *s = t->step->system;
  int world = system_world(s), node = s->cluster->gpus_per_node;
  struct chakra_deps deps = {{ready ? t->compute : 0, last_issued(t)}};
  uint64_t id;
  if (s->parallel.shard_node && s->parallel.zero > 0) {
    id = collective_node(t, name, kind, bytes, ns, (struct ranks){t->rank / node * node, node, 1}, deps);
    if (kind == COLLECTIVE_REDUCE_SCATTER && s->cluster->nodes > 1)
      id = collective_node(t, name, COLLECTIVE_ALL_REDUCE, bytes / node, 0,
                           (struct ranks){t->rank % node, s->cluster->nodes, node}, (struct chakra_deps){{id}});
  } else {
    id = collective_node(t, name, kind, bytes, ns, (struct ranks){0, world, 1}, deps);
  }
  t->issued[t->n_issued++] = id;
}

static void issue_next(struct tracer *t, bool ready) {
  const struct step_collective *c = &t->step->collectives.v[t->n_issued % t->step->collectives.n];
  issue(t, c->name, c->kind, c->bytes, c->ns, ready);
}

/* Those that this rank has nothing to do with but to take part in. */
static void issue_up_to(struct tracer *t, size_t n) {
  while (t->n_issued < n)
    issue_next(t, false);
}

/* ---- Operations ---- */

static void trace_exchange(struct tracer *t, const struct step_group *g, const struct program *p, const struct op *op) {
  const struct system *s = t->step->system;
  struct chakra_deps deps = {{t->compute, t->exchange, t->wait}};
  uint64_t id;
  int u, ring, at = t->rank - g->first_rank;
  system_sp_split(s, g->sp, &u, &ring);
  if (op->collective == COLLECTIVE_SEND_RECV) {
    int to = g->first_rank + (at + u) % g->sp, from = g->first_rank + (at + g->sp - u) % g->sp;
    struct chakra_message m = {op->name, op->bytes, t->rank, to, t->hops, op->ns};
    id = chakra_send(&t->writer, &m, deps);
    m.from = from;
    m.to = t->rank;
    id = chakra_receive(&t->writer, &m, (struct chakra_deps){{id}});
    t->hops++;
  } else {
    int members = s->parallel.sp_kind == SP_DSP ? g->sp : u;
    id = collective_node(t, op->name, op->collective, op->bytes, op->ns,
                         (struct ranks){t->rank / members * members, members, 1}, deps);
  }
  ASSERT(p->sp == g->sp);
  t->exchange_before = t->exchange;
  t->exchange = id;
}

static void trace_op(struct tracer *t, const struct step_group *g, const struct program *p, const struct op *op) {
  uint64_t exchange = op->skip_last_exchange ? t->exchange_before : t->exchange;
  switch ((enum op_kind)op->kind) {
  case OP_COMPUTE:
  case OP_HOST: {
    bool host = op->kind == OP_HOST;
    struct chakra_deps deps = {{t->compute, exchange, t->wait}};
    t->compute = chakra_compute(&t->writer, op->name, host ? op->ns : scaled_ns(op->ns, t->factor), host, deps);
    t->wait = 0;
    return;
  }
  case OP_EXCHANGE:
    trace_exchange(t, g, p, op);
    return;
  case OP_POST:
  case OP_WAIT:
    return; /* the caller's */
  }
}

/* `synchronises`: the rank takes part in the collectives of this micro-batch, the first of which is number `base`. */
static void trace_micro_batch(struct tracer *t, const struct step_group *g, const struct program *p, bool synchronises,
                              size_t base) {
  const struct collectives *all = &t->step->collectives;
  int posted = 0;
  if (synchronises)
    issue_up_to(t, base);
  for (struct cursor at = {0}; cursor_op(p, &at); cursor_advance(p, &at)) {
    const struct op *op = cursor_op(p, &at);
    trace_op(t, g, p, op);
    if (!synchronises)
      continue;
    if (op->kind == OP_POST && !(cursor_last_repeat(p, &at) && op->last_bytes < 0)) {
      posted++;
      while (t->n_issued - base < all->n && all->v[t->n_issued - base].after_post <= posted)
        issue_next(t, true);
    } else if (op->kind == OP_WAIT) {
      size_t target = t->n_issued > base + op->lag ? t->n_issued - op->lag : base;
      t->wait = target > 0 ? t->issued[target - 1] : 0;
    }
  }
}

static bool holds(const struct step_group *g, int rank) {
  return rank >= g->first_rank && rank < g->first_rank + g->sp;
}

static void trace_groups(struct tracer *t) {
  const struct step_input *in = t->step->in;
  const struct collectives *all = &t->step->collectives;
  int last = -1;
  for (int i = 0; i < in->n_groups; i++)
    if (holds(&in->groups[i], t->rank))
      last = i;
  for (int i = 0; i <= last; i++) {
    const struct step_group *g = &in->groups[i];
    t->hops = 0;
    for (int j = 0; holds(g, t->rank) && j < g->n_micro_batches; j++) {
      bool synchronises = all->every_micro_batch || (i == last && j + 1 == g->n_micro_batches);
      size_t base = (size_t)t->step->bases[i] + (all->every_micro_batch ? all->n * (size_t)j : 0);
      trace_micro_batch(t, g, g->programs[j], synchronises, base);
    }
  }
}

static void trace_tail(struct tracer *t) {
  const struct program *tail = &t->step->tail;
  for (size_t i = 0; i < tail->n_ops; i++) {
    const struct op *op = &tail->ops[i];
    struct collective_cost cost;
    if (op->kind == OP_WAIT) {
      t->wait = last_issued(t);
    } else if (op->kind == OP_POST) {
      cost = collectives_cost(t->step->system, op->collective, op->bytes);
      issue(t, op->name, op->collective, op->bytes, collectives_ns(cost.time_s), true);
    } else {
      trace_op(t, NULL, tail, op);
    }
  }
}

static int trace_rank(struct traced_step *s, int rank, struct output_folder *folder, struct chakra_summary *summary,
                      struct err *err) {
  char name[32];
  snprintf(name, sizeof name, "step.%d.et", rank);
  FILE *file = output_folder_begin_file(folder, name, err);
  if (!file)
    return -1;
  struct tracer t = {.step = s, .rank = rank, .factor = s->in->factors ? s->in->factors[rank] : 1};
  t.issued = xcalloc(s->n_issued + s->tail.n_ops, sizeof *t.issued);
  chakra_begin(&t.writer, file);
  trace_groups(&t);
  issue_up_to(&t, s->n_issued);
  trace_tail(&t);
  free(t.issued);
  summary->ranks++;
  summary->nodes += (int64_t)t.writer.nodes;
  summary->compute_s += s_from_ns(t.writer.compute_ns);
  int64_t off_ns = llabs(t.writer.compute_us * 1000 - t.writer.compute_ns);
  if (s_from_ns(off_ns) > summary->rounding_s)
    summary->rounding_s = s_from_ns(off_ns);
  return output_folder_end_file(folder, file, err);
}

/* ---- The step ---- */

/* As the engine counts them: where every micro-batch synchronises, all ranks do so in the j-th ones of a round. */
static void number_collectives(struct traced_step *s) {
  const struct step_input *in = s->in;
  int per = (int)s->collectives.n, base = 0, most = 0;
  s->bases = xcalloc((size_t)in->n_groups + 1, sizeof *s->bases);
  for (int i = 0; i < in->n_groups; i++) {
    if (i > 0 && in->groups[i].round != in->groups[i - 1].round) {
      base += most;
      most = 0;
    }
    most = in->groups[i].n_micro_batches > most ? in->groups[i].n_micro_batches : most;
    s->bases[i] = s->collectives.every_micro_batch ? base * per : 0;
  }
  s->n_issued = (size_t)per * (size_t)(s->collectives.every_micro_batch ? base + most : 1);
}

int chakra_step_files(const struct system *system) { return system_world(system) + 1; }

int chakra_step_write(struct output_folder *folder, const struct system *system, bool unequal_counts,
                      const struct step_input *step, struct chakra_summary *summary, struct err *err) {
  struct traced_step s = {.system = system, .in = step};
  int rc = 0;
  *summary = (struct chakra_summary){0};
  collectives_init(&s.collectives, system, step->groups[0].programs[0], unequal_counts);
  lower_step_tail(&s.tail, system);
  number_collectives(&s);
  for (int rank = 0; rc == 0 && rank < system_world(system); rank++)
    rc = trace_rank(&s, rank, folder, summary, err);
  if (rc == 0)
    rc = write_process_groups(&s, folder, err);
  collectives_release(&s.collectives);
  program_release(&s.tail);
  free(s.bases);
  free(s.process_groups);
  return rc;
}
