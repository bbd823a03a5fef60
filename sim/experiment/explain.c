#include "sim/experiment/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

void explain_release(struct explain *e) {
  for (int i = 0; i < e->n_groups; i++)
    free(e->groups[i].ops);
  free(e->groups);
  free(e->step_ops);
  *e = (struct explain){0};
}

/* Tells the shapes of a group's micro-batches: of the first, and whether all are like it. */
static void name_shapes(struct explain_group *g, const struct plan_iteration *it, const struct plan_group *from,
                        bool is_2d) {
  const struct plan_micro_batch *first = &it->micro_batches[from->first_micro_batch];
  bool alike = true;
  for (size_t i = 1; i < from->n_micro_batches; i++) {
    const struct plan_micro_batch *m = first + i;
    alike = alike && m->count == first->count && m->packed == first->packed && m->shape.a == first->shape.a &&
            m->shape.b == first->shape.b;
  }
  const char *more = alike ? "" : ", ...";
  if (first->packed)
    snprintf(g->shapes, sizeof g->shapes, "pack of %" PRId64 "%s", first->count, more);
  else if (is_2d)
    snprintf(g->shapes, sizeof g->shapes, "%" PRId64 " x (%" PRIu32 "x%" PRIu32 ")%s", first->count, first->shape.a,
             first->shape.b, more);
  else
    snprintf(g->shapes, sizeof g->shapes, "%" PRId64 " x %" PRIu32 "%s", first->count, first->shape.a, more);
}

static void describe_group(struct explain_group *g, const struct plan_iteration *it, const struct plan_group *from,
                           const struct sample_set *samples) {
  *g = (struct explain_group){
      .first_rank = from->first_rank, .sp = from->sp, .micro_batches = (int64_t)from->n_micro_batches};
  for (size_t i = 0; i < from->n_micro_batches; i++) {
    const struct plan_micro_batch *m = &it->micro_batches[from->first_micro_batch + i];
    g->samples += m->count;
    for (int64_t k = 0; k < m->count; k++) {
      int64_t tokens = sample_tokens(samples->samples[m->samples[k]]);
      g->tokens += tokens;
      g->longest_tokens = int64_max(g->longest_tokens, tokens);
    }
  }
  name_shapes(g, it, from, samples->is_2d);
}

static void add_op(struct explain_op **ops, size_t *n, size_t *cap, const struct timeline_span *span) {
  for (size_t i = 0; i < *n; i++) {
    struct explain_op *op = &(*ops)[i];
    if (op->stream == span->stream && op->category == span->category && strcmp(op->name, span->name) == 0) {
      op->count++;
      op->ns += span->end_ns - span->start_ns;
      return;
    }
  }
  VEC_PUSH(*ops, *n, *cap,
           ((struct explain_op){span->name, span->stream, span->category, 1, span->end_ns - span->start_ns}));
}

/* The group that the span's first rank works in; where later rounds re-form groups, the first such. */
static struct explain_group *group_of(struct explain *e, const struct timeline_span *span) {
  for (int i = 0; i < e->n_groups; i++) {
    struct explain_group *g = &e->groups[i];
    if (span->first_rank >= g->first_rank && span->first_rank < g->first_rank + g->sp)
      return g;
  }
  return NULL;
}

/* A group's spans are of its first rank alone where ranks were recorded one by one (faults). */
static void add_span(struct explain *e, const struct timeline_span *span) {
  if (span->micro_batch < 0) {
    add_op(&e->step_ops, &e->n_step_ops, &e->step_ops_cap, span);
    return;
  }
  struct explain_group *g = group_of(e, span);
  if (!g)
    return;
  g->end_ns = int64_max(g->end_ns, span->end_ns);
  if (span->first_rank == g->first_rank)
    add_op(&g->ops, &g->n_ops, &g->ops_cap, span);
}

static int by_time(const void *a, const void *b) {
  const struct explain_op *x = a, *y = b;
  return x->ns != y->ns ? (x->ns < y->ns) - (x->ns > y->ns) : strcmp(x->name, y->name);
}

static int slowest_first(const void *a, const void *b) {
  const struct explain_group *x = a, *y = b;
  return x->end_ns != y->end_ns ? (x->end_ns < y->end_ns) - (x->end_ns > y->end_ns) : x->first_rank - y->first_rank;
}

void explain_fill(struct explain *e, const struct timeline *t, const struct plan_iteration *it,
                  const struct sample_set *samples, int64_t step, int64_t step_ns) {
  *e = (struct explain){.step = step, .step_ns = step_ns, .n_groups = (int)it->n_groups};
  e->groups = xcalloc(it->n_groups + 1, sizeof *e->groups);
  for (int i = 0; i < e->n_groups; i++)
    describe_group(&e->groups[i], it, &it->groups[i], samples);
  for (size_t i = 0; i < t->n; i++)
    add_span(e, &t->spans[i]);
  for (int i = 0; i < e->n_groups; i++)
    if (e->groups[i].n_ops > 0)
      qsort(e->groups[i].ops, e->groups[i].n_ops, sizeof *e->groups[i].ops, by_time);
  if (e->n_step_ops > 0)
    qsort(e->step_ops, e->n_step_ops, sizeof *e->step_ops, by_time);
  qsort(e->groups, (size_t)e->n_groups, sizeof *e->groups, slowest_first);
  e->sync_after_ns = e->n_groups > 0 ? step_ns - e->groups[0].end_ns : 0;
}
