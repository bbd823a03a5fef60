#include "sim/cli/execute_plan.h"

#include <stdlib.h>
#include <string.h>

#include "models/memory.h"
#include "sim/base/units.h"
#include "sim/engine/collectives.h"
#include "sim/plan/lower.h"
#include "sim/plan/program_time.h"
#include "sim/policy/policy.h"

/* ---- opening ---- */

static void keep_first(void *context, const struct schedule_finding *f) {
  struct schedule_finding *first = context;
  if (!first->rule)
    *first = *f;
}

/* Checked before. */
static void ignore(void *context, const struct schedule_finding *f) {
  (void)context;
  (void)f;
}

static int refuse_findings(const char *path, int64_t *iterations, struct err *err) {
  struct schedule_finding first = {.rule = NULL};
  struct schedule_check summary;
  int64_t n = schedule_check(path, &summary, keep_first, &first, err);
  *iterations = summary.iterations;
  if (n <= 0)
    return (int)n;
  char place[48] = "";
  if (first.iteration >= 0)
    snprintf(place, sizeof place, "iteration %lld: ", (long long)first.iteration);
  return err_set(err,
                 "schedule '%s': only a schedule that check accepts is played; %lld finding%s, the first: %s%s: %s",
                 path, (long long)n, n == 1 ? "" : "s", place, first.rule, first.message);
}

static int load_system(struct execute_plan *p, struct err *err) {
  const struct schedule_header *h = &p->reader.header;
  const struct framework *framework = framework_find(h->framework, err);
  if (!framework || transformer_load(&p->model, h->model, err) || cluster_load(&p->cluster, h->cluster, err) ||
      params_load(&p->params, h->params, err))
    return -1;
  p->system = (struct system){.model = &p->model,
                              .cluster = &p->cluster,
                              .params = p->params,
                              .framework = framework,
                              .parallel = {.zero = h->zero,
                                           .shard_node = h->shard_node,
                                           .sp_kind = h->sp_kind,
                                           .grad_bytes = h->grad_bytes,
                                           .head_chunk = h->head_chunk,
                                           .memory_rule = h->memory_rule,
                                           .offload_optimizer = h->offload_optimizer}};
  const struct policy *policy = policy_find(h->policy, NULL);
  p->unequal_counts = !policy || policy->flags & POLICY_UNEQUAL_COUNTS;
  return 0;
}

/* The tail's ops run after all else: what each takes alone. */
static void time_tail(struct execute_plan *p) {
  lower_step_tail(&p->tail, &p->system);
  p->tail_s = xcalloc(p->tail.n_ops, sizeof *p->tail_s);
  for (size_t i = 0; i < p->tail.n_ops; i++) {
    const struct op *op = &p->tail.ops[i];
    p->tail_s[i] =
        op->kind == OP_POST ? collectives_cost(&p->system, op->collective, op->bytes).time_s : s_from_ns(op->ns);
  }
}

int execute_plan_open(struct execute_plan *p, const char *path, struct err *err) {
  *p = (struct execute_plan){.tokens = 0};
  if (strcmp(path, "-") == 0)
    return err_usage(err, "execute: a schedule is checked before it is played, so it must be a file, not -");
  if (refuse_findings(path, &p->iterations, err))
    return -1;
  if (schedule_reader_open(&p->reader, path, ignore, NULL, err))
    return -1;
  if (load_system(p, err)) {
    execute_plan_close(p);
    return -1;
  }
  p->engine = engine_new(&p->system, p->unequal_counts);
  time_tail(p);
  return 0;
}

int execute_plan_rewind(struct execute_plan *p, const char *path, struct err *err) {
  schedule_reader_close(&p->reader);
  return schedule_reader_open(&p->reader, path, ignore, NULL, err);
}

static void release_line(struct execute_plan *p) {
  for (size_t i = 0; i < p->n_programs; i++) {
    program_release(&p->programs[i]);
    free(p->predicted[i]);
  }
  free(p->micro_batches);
  free(p->groups);
  free(p->collectives);
  free(p->predicted);
  p->n_programs = 0;
  p->micro_batches = NULL;
  p->groups = NULL;
  p->collectives = NULL;
  p->predicted = NULL;
  p->simulated.n = 0;
}

void execute_plan_close(struct execute_plan *p) {
  release_line(p);
  free(p->programs);
  free(p->tail_s);
  program_release(&p->tail);
  timeline_release(&p->simulated);
  if (p->engine)
    engine_free(p->engine);
  params_free(p->params);
  schedule_step_release(&p->line);
  schedule_reader_close(&p->reader);
}

/* ---- lowering ---- */

static struct microbatch shape_of(const struct execute_micro_batch *m, bool is_2d) {
  struct microbatch w = {.batch = m->batch, .recompute_blocks = {m->recompute_blocks[0], m->recompute_blocks[1]}};
  if (m->packed) {
    w.packed = m->samples;
  } else if (is_2d) {
    w.frames = m->shape.a;
    w.positions = m->shape.b;
  } else {
    w.seqlen = m->shape.a;
  }
  return w;
}

static void make_micro_batch(struct execute_plan *p, size_t i, int sp) {
  const struct plan_micro_batch *from = &p->line.plan.micro_batches[i];
  uint32_t first = from->samples[0]; /* a micro-batch's samples stand side by side */
  struct execute_micro_batch *m = &p->micro_batches[i];
  *m = (struct execute_micro_batch){.batch = from->count,
                                    .samples = &p->line.samples.samples[first],
                                    .ids = &p->line.samples.ids[first],
                                    .offsets = &p->line.samples.offsets[first],
                                    .packed = from->packed,
                                    .shape = from->shape,
                                    .recompute_blocks = {from->recompute_blocks[0], from->recompute_blocks[1]},
                                    .weight = p->line.weights[i]};
  int shared;
  system_sp_split(&p->system, sp, &shared, &m->ring);
}

static void lower_group(struct execute_plan *p, const struct plan_group *group) {
  for (size_t i = group->first_micro_batch; i < group->first_micro_batch + group->n_micro_batches; i++) {
    struct microbatch shape = shape_of(&p->micro_batches[i], p->model.is_2d);
    lower_micro_batch(&p->programs[i], &p->system, group->sp, &shape);
    p->micro_batches[i].program = &p->programs[i];
  }
}

static void make_groups(struct execute_plan *p) {
  const struct plan_iteration *it = &p->line.plan;
  size_t n = it->n_micro_batches;
  if (n > p->programs_cap) {
    p->programs_cap = 2 * n;
    p->programs = xrealloc(p->programs, size_mul(p->programs_cap, sizeof *p->programs));
  }
  memset(p->programs, 0, size_mul(n, sizeof *p->programs));
  p->n_programs = n;
  p->micro_batches = xcalloc(n, sizeof *p->micro_batches);
  p->predicted = xcalloc(n, sizeof *p->predicted);
  p->groups = xcalloc(it->n_groups, sizeof *p->groups);
  for (size_t g = 0; g < it->n_groups; g++) {
    const struct plan_group *group = &it->groups[g];
    for (size_t i = 0; i < group->n_micro_batches; i++)
      make_micro_batch(p, group->first_micro_batch + i, group->sp);
    p->groups[g] = (struct execute_group){.first_rank = group->first_rank,
                                          .sp = group->sp,
                                          .round = group->round,
                                          .micro_batches = &p->micro_batches[group->first_micro_batch],
                                          .n_micro_batches = (int)group->n_micro_batches};
  }
}

/* ---- simulation ---- */

static int simulate(struct execute_plan *p, struct err *err) {
  size_t n = p->line.plan.n_groups;
  struct step_group *groups = xcalloc(n, sizeof *groups);
  const struct program **programs = xcalloc(p->n_programs, sizeof *programs);
  for (size_t i = 0; i < p->n_programs; i++)
    programs[i] = &p->programs[i];
  for (size_t g = 0; g < n; g++)
    groups[g] = (struct step_group){.first_rank = p->groups[g].first_rank,
                                    .sp = p->groups[g].sp,
                                    .round = p->groups[g].round,
                                    .programs = &programs[p->line.plan.groups[g].first_micro_batch],
                                    .n_micro_batches = p->groups[g].n_micro_batches};
  struct step_input in = {.groups = groups,
                          .n_groups = (int)n,
                          .plain = true,
                          .timeline = &p->simulated,
                          .iteration = (int32_t)p->line.iteration};
  const struct step_result *result = engine_step(p->engine, &in, err);
  if (result)
    p->predicted_step_s = s_from_ns(result->step_ns);
  free(groups);
  free(programs);
  return result ? 0 : -1;
}

/* The spans of one rank's stream, in order. */
struct span_cursor {
  const struct timeline *t;
  size_t at;
  int rank;
  enum timeline_stream stream;
};

static const struct timeline_span *next_span(struct span_cursor *c) {
  for (; c->at < c->t->n; c->at++) {
    const struct timeline_span *s = &c->t->spans[c->at];
    if (s->micro_batch >= 0 && s->stream == c->stream && s->first_rank <= c->rank && c->rank < s->first_rank + s->sp)
      return &c->t->spans[c->at++];
  }
  return NULL;
}

/* The seconds of an op: its span, and before a computation what the host kept it waiting. */
static double seconds_of(const struct op *op, struct span_cursor cursors[2], int64_t *before_ns) {
  if (op->kind == OP_HOST || op->ns == 0)
    return s_from_ns(op->ns);
  const struct timeline_span *s = next_span(&cursors[op->kind == OP_EXCHANGE]);
  ASSERT(s && strcmp(s->name, op->name) == 0);
  int64_t from = op->kind == OP_COMPUTE && *before_ns >= 0 && *before_ns < s->start_ns ? *before_ns : s->start_ns;
  *before_ns = s->end_ns;
  return s_from_ns(s->end_ns - from);
}

static void predict_micro_batch(struct execute_plan *p, size_t i, struct span_cursor cursors[2]) {
  const struct program *program = &p->programs[i];
  int64_t before_ns = -1, n = 0;
  double *s = xcalloc((size_t)program_op_count(program), sizeof *s);
  for (struct cursor c = {0}; cursor_op(program, &c); cursor_advance(program, &c)) {
    const struct op *op = cursor_op(program, &c);
    if (op->kind == OP_WAIT)
      before_ns = -1; /* a gap after it is waiting, not work */
    else if (op->kind != OP_POST)
      s[n++] = seconds_of(op, cursors, &before_ns);
  }
  p->predicted[i] = s;
  p->micro_batches[i].predicted_s = s;
}

static void predict_rank(struct execute_plan *p, int rank) {
  struct span_cursor cursors[2] = {{&p->simulated, 0, rank, TIMELINE_COMPUTE},
                                   {&p->simulated, 0, rank, TIMELINE_EXCHANGE}};
  for (size_t g = 0; g < p->line.plan.n_groups; g++) {
    const struct plan_group *group = &p->line.plan.groups[g];
    if (rank < group->first_rank || rank >= group->first_rank + group->sp)
      continue;
    for (size_t i = 0; i < group->n_micro_batches; i++) {
      predict_micro_batch(p, group->first_micro_batch + i, cursors);
      struct microbatch shape = shape_of(&p->micro_batches[group->first_micro_batch + i], p->model.is_2d);
      p->predicted_peak_bytes =
          int64_max(p->predicted_peak_bytes, memory_peak_bytes(&p->system, group->sp, &shape, p->unequal_counts));
    }
  }
}

/* How often every rank plays or joins a micro-batch: rounds follow each other, each as long as its longest group. */
static int64_t micro_batches_together(const struct execute_plan *p) {
  int64_t sum = 0;
  for (size_t g = 0, end; g < p->line.plan.n_groups; g = end) {
    int64_t most = 0;
    for (end = g; end < p->line.plan.n_groups && p->groups[end].round == p->groups[g].round; end++)
      most = int64_max(most, p->groups[end].n_micro_batches);
    sum += most;
  }
  return sum;
}

/* The next span of a collective; NULL behind the last. */
static const struct timeline_span *next_collective(const struct timeline *t, size_t *at) {
  while (*at < t->n && t->spans[*at].stream != TIMELINE_SYNC)
    ++*at;
  return *at < t->n ? &t->spans[(*at)++] : NULL;
}

/* The collectives over all ranks, with the posts that they follow and the time they took in the simulation. */
static void predict_collectives(struct execute_plan *p) {
  struct collectives c;
  int64_t posts = 0, n = 0;
  size_t at = 0;
  collectives_init(&c, &p->system, &p->programs[0], p->unequal_counts);
  for (size_t i = 0; i < c.n; i++)
    posts = int64_max(posts, c.v[i].after_post);
  int64_t times = c.every_micro_batch ? micro_batches_together(p) : 1;
  p->collectives = xcalloc(size_mul(c.n, (size_t)times), sizeof *p->collectives);
  for (int64_t k = 0; k < times; k++)
    for (size_t i = 0; i < c.n; i++, n++) {
      const struct timeline_span *s = c.v[i].ns > 0 ? next_collective(&p->simulated, &at) : NULL;
      p->collectives[n] =
          (struct execute_collective){c.v[i].after_post + k * posts, s ? s_from_ns(s->end_ns - s->start_ns) : 0};
    }
  p->step.n_collectives = n;
  p->step.posts_every_micro_batch = c.every_micro_batch;
  collectives_release(&c);
}

int execute_plan_next_shapes(struct execute_plan *p, struct err *err) {
  release_line(p);
  int rc = schedule_reader_next(&p->reader, &p->line, err);
  if (rc <= 0)
    return rc;
  make_groups(p);
  p->step = (struct execute_step){.iteration = p->line.iteration,
                                  .groups = p->groups,
                                  .n_groups = (int)p->line.plan.n_groups,
                                  .tail = &p->tail,
                                  .tail_s = p->tail_s};
  return 1;
}

int execute_plan_next(struct execute_plan *p, int rank, struct err *err) {
  int rc = execute_plan_next_shapes(p, err);
  if (rc <= 0)
    return rc;
  for (size_t g = 0; g < p->line.plan.n_groups; g++)
    lower_group(p, &p->line.plan.groups[g]);
  if (simulate(p, err) < 0)
    return -1;
  predict_rank(p, rank);
  predict_collectives(p);
  p->step.collectives = p->collectives;
  p->tokens = 0;
  for (int64_t i = 0; i < p->line.samples.n; i++)
    p->tokens += sample_tokens(p->line.samples.samples[i]);
  return 1;
}

/* ---- the same without parallelism ---- */

void execute_single_make(struct execute_single *out, const struct execute_plan *p) {
  struct system whole = p->system;
  whole.parallel.zero = 0;
  *out = (struct execute_single){.n = (size_t)p->line.samples.n};
  out->programs = xcalloc(out->n, sizeof *out->programs);
  out->micro_batches = xcalloc(out->n, sizeof *out->micro_batches);
  size_t at = 0;
  for (size_t i = 0; i < p->n_programs; i++) {
    const struct execute_micro_batch *m = &p->micro_batches[i];
    double tokens = 0;
    for (int64_t j = 0; j < m->batch; j++)
      tokens += (double)sample_tokens(m->samples[j]);
    for (int64_t j = 0; j < m->batch; j++, at++) {
      struct execute_micro_batch *one = &out->micro_batches[at];
      *one = (struct execute_micro_batch){.program = &out->programs[at],
                                          .batch = 1,
                                          .samples = &m->samples[j],
                                          .ids = &m->ids[j],
                                          .offsets = &m->offsets[j],
                                          .packed = true,
                                          .ring = 1,
                                          .weight = m->weight * (double)sample_tokens(m->samples[j]) / tokens};
      struct microbatch shape = shape_of(one, p->model.is_2d);
      lower_micro_batch(&out->programs[at], &whole, 1, &shape);
    }
  }
  ASSERT(at == out->n);
  out->group = (struct execute_group){.sp = 1, .micro_batches = out->micro_batches, .n_micro_batches = (int)out->n};
  out->step = p->step;
  out->step.groups = &out->group;
  out->step.n_groups = 1;
  out->step.posts_every_micro_batch = false;
}

void execute_single_release(struct execute_single *s) {
  for (size_t i = 0; i < s->n; i++)
    program_release(&s->programs[i]);
  free(s->programs);
  free(s->micro_batches);
  *s = (struct execute_single){0};
}
