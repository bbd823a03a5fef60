#include "calib/run_plan.h"

#include <stdlib.h>
#include <string.h>

#include "calib/measured_op.h"
#include "calib/placement.h"
#include "sim/base/units.h"

#define AXIS_PLACES 40
#define CPU_FLOPS_MAX 1e10 /* of one call: about a second */

static bool is_measurable(enum row_op op) {
  return measured_op_find(op) || (row_op_class(op) == ROW_COLLECTIVE && op <= ROW_OP_BARRIER);
}

static int unknown_op(const char *name, struct err *err) {
  char list[1000] = "";
  for (int op = 0; op < ROW_OPS; op++)
    if (is_measurable((enum row_op)op))
      snprintf(list + strlen(list), sizeof list - strlen(list), ", %s", row_op_name((enum row_op)op));
  return err_usage(err, "--ops: no operation '%.60s'; valid: attention, gemm, memory, collective%s", name, list);
}

/* Sets the operations of one name; false if there are none. */
static bool set_ops(bool ops[ROW_OPS], const char *name, size_t length) {
  bool any = false;
  for (int i = 0; i < ROW_OPS; i++) {
    const enum row_op op = (enum row_op)i;
    const char *names[] = {row_op_name(op), row_class_name(row_op_class(op))};
    for (int k = 0; k < 2; k++)
      if (is_measurable(op) && strlen(names[k]) == length && strncmp(names[k], name, length) == 0)
        any = ops[i] = true;
  }
  return any;
}

int run_plan_ops(bool ops[ROW_OPS], const char *list, int ranks, struct err *err) {
  memset(ops, 0, ROW_OPS * sizeof *ops);
  for (int i = 0; i < ROW_OPS && !list; i++)
    ops[i] = is_measurable((enum row_op)i) && (row_op_class((enum row_op)i) == ROW_COLLECTIVE) == (ranks > 1);
  for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
    const size_t length = strcspn(at, ",");
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)int64_min((int64_t)length, 63), at);
    if (!set_ops(ops, at, length))
      return unknown_op(name, err);
  }
  for (int i = 0; i < ROW_OPS; i++) {
    const bool is_collective = row_op_class((enum row_op)i) == ROW_COLLECTIVE;
    if (ops[i] && is_collective && ranks == 1)
      return err_usage(err, "--ops: %s needs several processes: mpirun -np N dcpsim calibrate run ...",
                       row_op_name((enum row_op)i));
    if (ops[i] && !is_collective && ranks > 1)
      return err_usage(err, "--ops: %s is measured by one process, without mpirun", row_op_name((enum row_op)i));
  }
  return 0;
}

/* ---- Axes ---- */

int axis_level(int i, int n) {
  int low = 0, high = n - 1, level = 1;
  if (i == low || i == high)
    return 0;
  for (;; level++) {
    const int middle = (low + high) / 2;
    if (i == middle)
      return level;
    *(i < middle ? &high : &low) = middle;
  }
}

struct plan_axis {
  int64_t v[AXIS_PLACES];
  int n;
};

/* Rising and without repetition. */
static void axis_add(struct plan_axis *a, int64_t x) {
  int at = 0;
  while (at < a->n && a->v[at] < x)
    at++;
  if (x < 1 || a->n == AXIS_PLACES || (at < a->n && a->v[at] == x))
    return;
  memmove(a->v + at + 1, a->v + at, (size_t)(a->n - at) * sizeof *a->v);
  a->v[at] = x;
  a->n++;
}

/* from, from * factor, ... and `to`. */
static struct plan_axis geometric(int64_t from, int64_t to, int64_t factor) {
  struct plan_axis a = {.n = 0};
  for (int64_t x = from; x < to; x *= factor)
    axis_add(&a, x);
  axis_add(&a, to);
  return a;
}

/* An entry on its way into the plan. */
struct candidate {
  struct plan_entry entry;
  int level, order;
  double share; /* place within its operation, 0..1 */
};

struct candidates {
  struct candidate *v;
  size_t n, cap;
  const struct plan_options *options;
};

static bool fits(const struct plan_options *o, const struct plan_entry *e) {
  const struct measured_op *op = measured_op_find(e->op);
  return !op || o->memory_bytes == 0 || measured_op_bytes(op, e->shape, o->element_bytes) <= o->memory_bytes;
}

static void add(struct candidates *c, enum row_op op, int level, const int64_t shape[ROW_SHAPE_MAX]) {
  struct candidate one = {.entry = {.op = op}, .level = level, .order = (int)c->n};
  memcpy(one.entry.shape, shape, sizeof one.entry.shape);
  if (c->options->ops[op] && fits(c->options, &one.entry))
    VEC_PUSH(c->v, c->n, c->cap, one);
}

/* ---- Grids ---- */

struct grid {
  struct plan_axis tokens, dims, memory_dims, seqlens, batches, head_dims;
  struct {
    int64_t n, k;
  } pairs[16]; /* GEMMs of a model; 0: all pairs of dims */
  int n_pairs;
  struct {
    int64_t heads, kv_heads;
  } heads[8];
  int n_heads;
  double flops_max;
};

static void add_pair(struct grid *g, int64_t n, int64_t k) {
  for (int i = 0; i < g->n_pairs; i++)
    if (g->pairs[i].n == n && g->pairs[i].k == k)
      return;
  if (g->n_pairs < 16) {
    g->pairs[g->n_pairs].n = n;
    g->pairs[g->n_pairs++].k = k;
  }
}

/* A linear layer's forward and data gradient. */
static void add_layer(struct grid *g, int64_t out, int64_t in) {
  add_pair(g, out, in);
  add_pair(g, in, out);
  axis_add(&g->dims, out);
  axis_add(&g->dims, in);
}

static void add_heads(struct grid *g, int64_t heads, int64_t kv_heads) {
  g->heads[g->n_heads].heads = heads;
  g->heads[g->n_heads++].kv_heads = kv_heads;
}

static void grid_of_model(struct grid *g, const struct transformer *m) {
  add_layer(g, (m->heads + 2 * m->kv_heads) * m->head_dim, m->hidden);
  add_layer(g, m->hidden, m->heads * m->head_dim);
  add_layer(g, m->ffn * (m->mlp_matrices - 1), m->hidden);
  add_layer(g, m->hidden, m->ffn);
  if (m->is_2d) {
    add_layer(g, 2 * m->hidden, m->hidden);
    add_layer(g, 6 * m->hidden, m->hidden);
  } else {
    add_layer(g, m->vocab, m->hidden);
  }
  axis_add(&g->memory_dims, m->hidden);
  axis_add(&g->memory_dims, m->ffn);
  axis_add(&g->head_dims, m->head_dim);
  for (int64_t u = 1; u <= 8 && m->heads % u == 0; u *= 2) /* as sequence parallelism splits them */
    add_heads(g, m->heads / u, m->kv_heads % u == 0 ? m->kv_heads / u : 1);
}

static void usual_grid(struct grid *g, bool is_gpu) {
  static const int64_t gpu[] = {1152, 2048, 4096, 8192, 14336, 28672}, cpu[] = {64, 128, 256, 512, 1024};
  const int64_t *dims = is_gpu ? gpu : cpu;
  for (int i = 0; i < (is_gpu ? 6 : 5); i++)
    axis_add(&g->dims, dims[i]);
  axis_add(&g->memory_dims, is_gpu ? 1152 : 128);
  axis_add(&g->memory_dims, is_gpu ? 4096 : 512);
  axis_add(&g->memory_dims, is_gpu ? 14336 : 1024);
  if (is_gpu)
    axis_add(&g->head_dims, 128);
  axis_add(&g->head_dims, 64);
  axis_add(&g->head_dims, is_gpu ? 72 : 16);
  add_heads(g, is_gpu ? 32 : 8, is_gpu ? 32 : 8);
  add_heads(g, is_gpu ? 32 : 8, is_gpu ? 8 : 2);
  add_heads(g, is_gpu ? 4 : 2, is_gpu ? 4 : 2);
}

static struct grid make_grid(const struct plan_options *o) {
  struct grid g = {.flops_max = o->is_gpu ? 1e18 : CPU_FLOPS_MAX};
  const int64_t tokens = o->max_tokens ? o->max_tokens : o->is_gpu ? 32768 : 2048;
  const int64_t factor = o->is_gpu ? 2 : 4;
  g.tokens = geometric(o->is_gpu ? 64 : 16, tokens, factor);
  g.seqlens = geometric(o->is_gpu ? 64 : 16, tokens, factor);
  g.batches = geometric(1, o->is_gpu ? 64 : 16, 4);
  if (o->model)
    grid_of_model(&g, o->model);
  else
    usual_grid(&g, o->is_gpu);
  return g;
}

static void add_gemm(struct candidates *c, const struct grid *g, int level, int64_t n, int64_t k) {
  for (int i = 0; i < g->tokens.n; i++) {
    const int64_t m = g->tokens.v[i];
    const int at = level + axis_level(i, g->tokens.n);
    if (2.0 * (double)m * (double)n * (double)k > g->flops_max)
      continue;
    add(c, ROW_OP_GEMM, at, (const int64_t[ROW_SHAPE_MAX]){m, n, k});
    if (axis_level(i, g->tokens.n) <= 1)
      add(c, ROW_OP_GEMM_WGRAD, at, (const int64_t[ROW_SHAPE_MAX]){n, k, m});
  }
}

static void add_gemms(struct candidates *c, const struct grid *g) {
  for (int i = 0; i < g->n_pairs; i++)
    add_gemm(c, g, 0, g->pairs[i].n, g->pairs[i].k);
  for (int i = 0; i < g->dims.n && g->n_pairs == 0; i++)
    for (int j = 0; j < g->dims.n; j++)
      add_gemm(c, g, axis_level(i, g->dims.n) + axis_level(j, g->dims.n), g->dims.v[i], g->dims.v[j]);
}

static void add_attention_shape(struct candidates *c, const struct grid *g, int level,
                                const int64_t shape[ROW_SHAPE_MAX]) {
  const double tokens = (double)(shape[SHAPE_BATCH] * shape[SHAPE_SEQLEN]);
  const double flops = 4 * tokens * (double)(shape[SHAPE_SEQLEN] * shape[SHAPE_HEADS] * shape[SHAPE_HEAD_DIM]);
  if (tokens > (double)g->tokens.v[g->tokens.n - 1] || flops > g->flops_max)
    return;
  add(c, ROW_OP_ATTENTION_FORWARD, level, shape);
  add(c, ROW_OP_ATTENTION_BACKWARD, level, shape);
  if (shape[SHAPE_BATCH] < 4 || shape[SHAPE_HEADS] != g->heads[0].heads)
    return;
  add(c, ROW_OP_ATTENTION_VARLEN_FORWARD, level, shape);
  add(c, ROW_OP_ATTENTION_VARLEN_BACKWARD, level, shape);
}

static void add_attention(struct candidates *c, const struct grid *g) {
  for (int causal = 1; causal >= 0; causal--)
    for (int d = 0; d < g->head_dims.n; d++)
      for (int h = 0; h < g->n_heads; h++)
        for (int s = 0; s < g->seqlens.n; s++)
          for (int b = 0; b < g->batches.n; b++)
            add_attention_shape(c, g, axis_level(s, g->seqlens.n) + axis_level(b, g->batches.n) + h,
                                (const int64_t[ROW_SHAPE_MAX]){causal, g->batches.v[b], g->seqlens.v[s],
                                                               g->heads[h].heads, g->heads[h].kv_heads,
                                                               g->head_dims.v[d]});
}

static void add_memory(struct candidates *c, const struct grid *g) {
  for (int op = 0; op < ROW_OPS; op++)
    for (int d = 0; d < g->memory_dims.n && row_op_class((enum row_op)op) == ROW_MEMORY; d++)
      for (int i = 0; i < g->tokens.n; i++)
        if (op != ROW_OP_ROPE || g->memory_dims.v[d] % 2 == 0) /* it turns pairs */
          add(c, (enum row_op)op, axis_level(i, g->tokens.n) + axis_level(d, g->memory_dims.n),
              (const int64_t[ROW_SHAPE_MAX]){g->tokens.v[i], g->memory_dims.v[d]});
}

/* Sizes of which every rank has a whole number of elements, an odd one of an uneven exchange of their halves. */
static void add_collective(struct candidates *c, enum row_op op, const struct placement *p,
                           const struct plan_axis *sizes) {
  const int64_t part = p->ranks * c->options->element_bytes * (op == ROW_OP_ALL_TO_ALL_UNEVEN ? 2 : 1);
  const int finer = p->groups > 1; /* the models take rows of a group alone: these first */
  if (op == ROW_OP_BARRIER) {
    add(c, op, finer, (const int64_t[ROW_SHAPE_MAX]){p->ranks, p->nodes, 0, p->groups});
    return;
  }
  for (int i = 0; i < sizes->n; i++)
    if (sizes->v[i] % part == 0)
      add(c, op, axis_level(i, sizes->n) + finer,
          (const int64_t[ROW_SHAPE_MAX]){p->ranks, p->nodes, sizes->v[i], p->groups});
}

static void add_collectives(struct candidates *c) {
  const struct plan_options *o = c->options;
  const int64_t most = o->max_bytes ? o->max_bytes : INT64_C(1) << (o->is_gpu ? 30 : 24);
  const struct plan_axis sizes = geometric(8, most, 2);
  struct placements placements;
  placements_make(&placements, o->nodes, o->ranks_per_node);
  for (int op = ROW_OP_ALL_REDUCE; op <= ROW_OP_BARRIER; op++)
    for (size_t i = 0; i < placements.n; i++)
      add_collective(c, (enum row_op)op, &placements.v[i], &sizes);
  placements_release(&placements);
}

/* ---- Order ---- */

static int compare_within(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->entry.op != y->entry.op)
    return x->entry.op < y->entry.op ? -1 : 1;
  return x->level != y->level ? x->level - y->level : x->order - y->order;
}

static int compare_across(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  if (x->share != y->share)
    return x->share < y->share ? -1 : 1;
  return x->order - y->order;
}

/* Within an operation coarse to fine; the first of every operation, then all advance by the same share. */
static void order(struct candidates *c) {
  if (c->n > 0)
    qsort(c->v, c->n, sizeof *c->v, compare_within);
  for (size_t first = 0, next; first < c->n; first = next) {
    for (next = first; next < c->n && c->v[next].entry.op == c->v[first].entry.op;)
      next++;
    for (size_t i = first; i < next; i++)
      c->v[i].share = (double)(i - first) / (double)(next - first);
  }
  if (c->n > 0)
    qsort(c->v, c->n, sizeof *c->v, compare_across);
}

void run_plan_make(struct run_plan *plan, const struct plan_options *options) {
  const struct grid grid = make_grid(options);
  struct candidates c = {.options = options};
  *plan = (struct run_plan){.v = NULL};
  add_gemms(&c, &grid);
  add_attention(&c, &grid);
  add_memory(&c, &grid);
  add_collectives(&c);
  order(&c);
  for (size_t i = 0; i < c.n; i++)
    VEC_PUSH(plan->v, plan->n, plan->cap, c.v[i].entry);
  free(c.v);
}

void run_plan_release(struct run_plan *plan) {
  free(plan->v);
  *plan = (struct run_plan){.v = NULL};
}
