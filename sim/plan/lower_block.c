#include "sim/plan/lower_block.h"

#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

static struct op *add(struct lowering *l, enum op_kind kind, const char *name) {
  struct op *op = program_add(l->program, kind, name);
  op->module = l->module;
  return op;
}

void emit_compute(struct lowering *l, const char *name, double seconds, enum work_class work, int kernels) {
  struct op *op = add(l, OP_COMPUTE, name);
  program_set_time(l->program, op, seconds * l->derate);
  op->category = l->category;
  op->work = (uint8_t)work;
  op->kernels = (uint16_t)kernels;
}

/* A GEMM of these dimensions that takes `seconds`. */
static void emit_one_gemm(struct lowering *l, const char *name, double seconds, int64_t m, int64_t n, int64_t k,
                          enum work_class work) {
  struct program *p = l->program;
  emit_compute(l, name, seconds, work, 1);
  if (!gemm_is_measured(l->system->params, m, n, k))
    p->unmeasured_ns += p->ops[p->n_ops - 1].ns * p->sections[p->n_sections - 1].repeat;
}

void emit_gemm(struct lowering *l, const char *name, int64_t m, int64_t n, int64_t k, enum work_class work) {
  emit_one_gemm(l, name, gemm_time_s(l->system->params, m, n, k), m, n, k, work);
}

void emit_gemm_backward(struct lowering *l, const char *data_name, const char *weight_name, int64_t m, int64_t n,
                        int64_t k, enum work_class work) {
  const struct params *p = l->system->params;
  emit_one_gemm(l, data_name, gemm_time_s(p, m, k, n), m, k, n, work);
  emit_one_gemm(l, weight_name, gemm_wgrad_time_s(p, k, n, m), k, n, m, work);
}

double pass_time_s(const struct lowering *l, const struct memory_pass *pass) {
  const struct transformer *m = l->system->model;
  double per_row = pass->hidden_u * (double)m->hidden + pass->ffn_u * (double)m->ffn +
                   pass->qkv_u * (double)((m->heads + 2 * m->kv_heads) * m->head_dim);
  double bytes = 2.0 * ((double)l->rows * per_row + (double)l->text_rows * pass->text_u * (double)m->hidden);
  return bytes > 0 ? memory_time_s(l->system->params, pass->class, bytes) : 0;
}

void emit_one_pass(struct lowering *l, const struct memory_pass *pass) {
  double seconds = pass_time_s(l, pass);
  if (seconds > 0)
    emit_compute(l, pass->name, seconds, WORK_TOKENS, pass->kernels);
}

void emit_pass(struct lowering *l, const struct memory_pass *passes, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (strcmp(passes[i].name, name) == 0)
      emit_one_pass(l, &passes[i]);
}

void emit_other_passes(struct lowering *l, const struct memory_pass *passes, int n, const char *const *emitted) {
  for (int i = 0; i < n; i++) {
    bool seen = false;
    for (int j = 0; emitted[j]; j++)
      seen = seen || strcmp(passes[i].name, emitted[j]) == 0;
    if (!seen)
      emit_one_pass(l, &passes[i]);
  }
}

/* Index of this load vector in the program's table: few distinct ones, so that transfers of one kind share a class. */
static uint8_t load_index(struct program *p, const double load[PORT_KINDS]) {
  for (int i = 0; i < p->n_loads; i++)
    if (memcmp(p->loads[i], load, sizeof p->loads[i]) == 0)
      return (uint8_t)i;
  ASSERT(p->n_loads < PROGRAM_MAX_LOADS);
  memcpy(p->loads[p->n_loads], load, sizeof p->loads[0]);
  return (uint8_t)p->n_loads++;
}

void emit_exchange(struct lowering *l, const char *name, enum collective kind, int ranks, int nodes, double bytes) {
  struct collective_cost cost = collective_cost(l->system->params, l->system->cluster, kind, ranks, nodes, bytes);
  /* Loads fade with the latency share of a small transfer; a few steps of 1/8 keep the number of classes small. */
  double load[PORT_KINDS];
  for (int k = 0; k < PORT_KINDS; k++)
    load[k] = (double)(int64_t)(cost.load[k] * 8 + 0.999) / 8;
  struct op *op = add(l, OP_EXCHANGE, name);
  program_set_time(l->program, op, cost.time_s);
  op->category = TIMELINE_CAT_SP_EXCHANGE;
  op->bytes = bytes;
  op->collective = (uint8_t)kind;
  op->load = load_index(l->program, load);
}

void emit_host(struct lowering *l, const char *name, double seconds) {
  struct op *op = add(l, OP_HOST, name);
  program_set_time(l->program, op, seconds);
  op->category = TIMELINE_CAT_HOST;
  op->kernels = 0;
}

void emit_post(struct lowering *l, const char *name, enum collective kind, double bytes) {
  struct op *op = add(l, OP_POST, name);
  op->category = TIMELINE_CAT_GRAD_SYNC;
  op->bytes = op->last_bytes = bytes;
  op->kernels = 0; /* issued by the collective library's own thread */
  op->collective = (uint8_t)kind;
}

void emit_wait(struct lowering *l, int lag) {
  struct op *op = program_add(l->program, OP_WAIT, "wait");
  op->lag = (uint8_t)lag;
  op->kernels = 0;
}
