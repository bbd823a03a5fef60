/* attention_1d.c: attention of the text transformer over a group: by heads (all-to-all), by blocks of rows (ring), or
 * by both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/execute/state_1d.h"

/* ---- who attends to whom ---- */

static int64_t piece_rows(const struct state_1d *s, int64_t length) { return ceil_div(length, 2 * s->ring); }

int64_t attention_1d_rows(const struct player *p, int64_t length) {
  const struct state_1d *s = state_1d(p);
  return s->ring == 1 ? length : 2 * piece_rows(s, length);
}

int64_t attention_1d_row(const struct player *p, int64_t length, int64_t begin, int64_t at) {
  const struct state_1d *s = state_1d(p);
  if (s->ring == 1)
    return begin + at;
  int64_t rows = piece_rows(s, length), piece = at / rows;
  bool late = piece >= s->ring;
  int64_t block = late ? 2 * s->ring - 1 - piece : piece;
  return block * s->all_rows + begin + (late ? rows : 0) + at % rows;
}

static int64_t between(int64_t low, int64_t x, int64_t high) { return int64_max(low, int64_min(x, high)); }

/* Real rows of a block's part of a sequence: they come first. */
static int64_t real_rows(const struct state_1d *s, int64_t length, int64_t real, int block) {
  int64_t rows = piece_rows(s, length);
  if (s->ring == 1)
    return real;
  return between(0, real - block * rows, rows) + between(0, real - (2 * s->ring - 1 - block) * rows, rows);
}

/* A causal mask between blocks: of an earlier block all queries see the first piece, of a later one the second piece's
 * queries see all. Within a block it is the kernel's. Padding follows what is real, where no real query sees it. */
static void add_sequence(struct player *p, int step, int64_t length, int64_t real) {
  const struct state_1d *s = state_1d(p);
  struct sequences *who = &s->who[step];
  int64_t rows = attention_1d_rows(p, length);
  int met = (s->block - step + s->ring) % s->ring;
  if (!p->model->causal) {
    sequences_add(who, rows, rows, real_rows(s, length, real, met));
  } else if (step == 0) {
    sequences_add(who, rows, rows, rows);
  } else if (met < s->block) {
    sequences_add(who, rows, rows, rows / 2);
  } else {
    sequences_add(who, rows / 2, 0, 0);
    sequences_add(who, rows / 2, rows, rows);
  }
}

static void make_sequences(struct player *p, int64_t used_rows) {
  struct state_1d *s = state_1d(p);
  const struct execute_micro_batch *mb = p->mb;
  int64_t unused = s->all_rows - used_rows;
  for (int step = s->ring; step < s->n_who; step++)
    sequences_release(&s->who[step]);
  s->who = xrealloc(s->who, size_mul((size_t)s->ring, sizeof *s->who));
  for (; s->n_who < s->ring; s->n_who++)
    s->who[s->n_who] = (struct sequences){0};
  s->n_who = s->ring;
  for (int step = 0; step < s->ring; step++) {
    sequences_clear(&s->who[step]);
    for (int64_t i = 0; i < mb->batch; i++)
      add_sequence(p, step, mb->packed ? mb->samples[i].a : mb->shape.a, mb->samples[i].a);
    if (unused > 0) /* dummy rows attend to each other only */
      sequences_add(&s->who[step], unused, unused, step == 0 ? unused : 0);
  }
}

void attention_1d_measure(struct player *p) {
  const struct execute_micro_batch *mb = p->mb;
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  int64_t rows = 0;
  s->ring = mb->ring;
  s->u = p->group->ranks / s->ring;
  s->block = p->group->rank / s->u;
  s->step = 0;
  s->heads = m->heads / s->u;
  s->kv_heads = int64_max(1, m->kv_heads / s->u);
  s->real_tokens = s->longest = 0;
  for (int64_t i = 0; i < mb->batch; i++) {
    int64_t n = mb->packed ? mb->samples[i].a : mb->shape.a;
    s->real_tokens += mb->samples[i].a;
    s->longest = int64_max(s->longest, n);
    rows += attention_1d_rows(p, n);
  }
  s->rows = ceil_div(rows, s->u);
  s->all_rows = s->rows * s->u;
  make_sequences(p, rows);
}

void attention_1d_release(struct player *p) {
  struct state_1d *s = state_1d(p);
  for (int step = 0; step < s->n_who; step++)
    sequences_release(&s->who[step]);
  free(s->who);
}

int attention_1d_upload(struct player *p, struct err *err) {
  const struct state_1d *s = state_1d(p);
  for (int step = 0; step < s->ring; step++)
    if (sequences_upload(p, &s->who[step], err))
      return -1;
  return 0;
}

/* ---- memory ---- */

static void lay_out_ring(struct player *p) {
  const struct state_1d *s = state_1d(p);
  struct ring_buffers *r = &state_1d(p)->ring_of;
  int64_t d = p->model->head_dim, q = s->heads * d, kv = s->kv_heads * d;
  void **const of_keys[] = {&r->k[0], &r->k[1],     &r->v[0],     &r->v[1],     &r->dk,
                            &r->dv,   &r->sum_k[0], &r->sum_k[1], &r->sum_v[0], &r->sum_v[1]};
  for (size_t i = 0; i < sizeof of_keys / sizeof *of_keys; i++)
    *of_keys[i] = take(p, s->all_rows, kv);
  r->out = take(p, s->all_rows, q);
  r->dq = take(p, s->all_rows, q);
  r->lse = take_fp32(p, s->all_rows * s->heads);
}

void attention_1d_lay_out(struct player *p) {
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  int64_t parts = s->all_rows * (s->heads + 2 * s->kv_heads) * m->head_dim;
  for (int step = 0; step < s->ring; step++)
    sequences_take(p, &s->who[step]);
  s->send = take(p, parts, 1);
  s->recv = take(p, parts, 1);
  s->dq = take(p, s->all_rows, s->heads * m->head_dim);
  s->dk = take(p, s->all_rows, s->kv_heads * m->head_dim);
  s->dv = take(p, s->all_rows, s->kv_heads * m->head_dim);
  s->delta = take_fp32(p, s->all_rows * s->heads);
  if (s->ring > 1)
    lay_out_ring(p);
}

/* ---- exchanges ---- */

/* Local (rows, n, head_dim) to or from its place in the exchange buffer: u parts of `part` elements, each holding this
 * rank's rows of the part's heads, at `at` within the part. Fewer key heads than ranks: each goes to u / n ranks, and
 * their gradients add up on the way back. */
static int pack_heads(struct player *p, void *local, int64_t n, void *buffer, int64_t at, int64_t part, bool unpack,
                      struct err *err) {
  int64_t u = state_1d(p)->u, d = p->model->head_dim, rows = state_1d(p)->rows;
  int64_t own = int64_max(1, n / u), owners = n < u ? u / n : 1, parts = u / owners;
  for (int64_t i = 0; i < owners; i++) {
    void *there = element_at(p, buffer, at + i * part);
    struct copy_call c = {.extent = {parts, rows, 1}, .width = own * d, .accumulate = unpack && i > 0};
    const int64_t local_stride[2] = {own * d, n * d}, there_stride[2] = {owners * part, own * d};
    memcpy(c.src_stride, unpack ? there_stride : local_stride, sizeof local_stride);
    memcpy(c.dst_stride, unpack ? local_stride : there_stride, sizeof local_stride);
    c.src = unpack ? there : local;
    c.dst = unpack ? local : there;
    if (run_copy(p, c, err))
      return -1;
  }
  return 0;
}

/* All rows' heads (all rows, n, head_dim) to or from the exchange buffer: part i holds rank i's rows. */
static int pack_rows(struct player *p, void *all, int64_t n, void *buffer, int64_t at, int64_t part, bool unpack,
                     struct err *err) {
  int64_t u = state_1d(p)->u, width = state_1d(p)->rows * n * p->model->head_dim;
  void *there = element_at(p, buffer, at);
  struct copy_call c = {.extent = {u, 1, 1}, .width = width, .src = unpack ? there : all, .dst = unpack ? all : there};
  c.src_stride[0] = unpack ? part : width;
  c.dst_stride[0] = unpack ? width : part;
  return run_copy(p, c, err);
}

/* q, k, v between local rows of all heads and all rows of local heads. */
static int exchange_qkv(struct player *p, void *const local[3], void *const all[3], bool back, struct err *err) {
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  const int64_t n[3] = {m->heads, m->kv_heads, m->kv_heads}, own[3] = {s->heads, s->kv_heads, s->kv_heads};
  int64_t unit = s->rows * m->head_dim, part = unit * (s->heads + 2 * s->kv_heads), at = 0;
  for (int i = 0; i < 3; at += unit * own[i++])
    if (back ? pack_rows(p, all[i], own[i], s->send, at, part, false, err)
             : pack_heads(p, local[i], n[i], s->send, at, part, false, err))
      return -1;
  if (run_exchange(p, s->heads_group, s->send, s->recv, part, err))
    return -1;
  at = 0;
  for (int i = 0; i < 3; at += unit * own[i++])
    if (back ? pack_heads(p, local[i], n[i], s->recv, at, part, true, err)
             : pack_rows(p, all[i], own[i], s->recv, at, part, true, err))
      return -1;
  return 0;
}

int attention_1d_sp_qkv(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct activations *a = activations_1d(p);
  return exchange_qkv(p, (void *[]){s->local_q, s->local_k, s->local_v}, (void *[]){a->q, a->k, a->v}, false, err);
}

int attention_1d_sp_qkv_grad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return exchange_qkv(p, (void *[]){s->local_q, s->local_k, s->local_v}, (void *[]){s->dq, s->dk, s->dv}, true, err);
}

int attention_1d_sp_out(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct activations *a = activations_1d(p);
  int64_t part = s->rows * s->heads * p->model->head_dim;
  return run_exchange(p, s->heads_group, a->out, s->recv, part, err) ||
                 pack_heads(p, a->attn, p->model->heads, s->recv, 0, part, true, err)
             ? -1
             : 0;
}

/* The gradient of the attention's output, all rows, stays in `recv`. */
int attention_1d_sp_out_grad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  int64_t part = s->rows * s->heads * p->model->head_dim;
  return pack_heads(p, s->dattn, p->model->heads, s->send, 0, part, false, err) ||
                 run_exchange(p, s->heads_group, s->send, s->recv, part, err)
             ? -1
             : 0;
}

/* ---- the ring: at step t this block meets the keys of the block t before it ---- */

static int64_t q_numbers(const struct state_1d *s, const struct player *p) {
  return s->all_rows * s->heads * p->model->head_dim;
}
static int64_t kv_numbers(const struct state_1d *s, const struct player *p) {
  return s->all_rows * s->kv_heads * p->model->head_dim;
}

static int hop(struct player *p, const void *send, void *recv, struct err *err) {
  const struct state_1d *s = state_1d(p);
  struct communicator_call call = {.op = COMMUNICATOR_SEND_RECV,
                                   .element = p->device->kind->element,
                                   .send = send,
                                   .recv = recv,
                                   .count = kv_numbers(s, p),
                                   .shift = s->u};
  return communicator_run(p->group, &call, err);
}

/* The gradients of a block of keys move on with it. */
static int hop_sums(struct player *p, void *into_k, void *into_v, struct err *err) {
  struct ring_buffers *r = &state_1d(p)->ring_of;
  return hop(p, r->sum_k[r->sum], into_k, err) || hop(p, r->sum_v[r->sum], into_v, err) ? -1 : 0;
}

static int next_sums(struct player *p, struct err *err) {
  struct ring_buffers *r = &state_1d(p)->ring_of;
  int next = 1 - r->sum;
  if (hop_sums(p, r->sum_k[next], r->sum_v[next], err))
    return -1;
  r->sum = next;
  return 0;
}

static void *keys_met(const struct player *p) {
  const struct state_1d *s = state_1d(p);
  return s->step == 0 ? activations_1d(p)->k : s->ring_of.k[s->step % 2];
}
static void *values_met(const struct player *p) {
  const struct state_1d *s = state_1d(p);
  return s->step == 0 ? activations_1d(p)->v : s->ring_of.v[s->step % 2];
}

/* Without other heads' ranks, local rows and heads are all there are: the exchange is a copy,
 * before anything else is done with them. */
static int copy_local(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct activations *a = activations_1d(p);
  return copy_whole(p, s->local_q, a->q, q_numbers(s, p), err) ||
                 copy_whole(p, s->local_k, a->k, kv_numbers(s, p), err) ||
                 copy_whole(p, s->local_v, a->v, kv_numbers(s, p), err)
             ? -1
             : 0;
}

/* Before a step's attention: the keys of the next step; backward, the gradients of the keys that this step meets. */
int attention_1d_ring_kv(struct player *p, struct err *err) {
  const struct state_1d *s = state_1d(p);
  const struct ring_buffers *r = &s->ring_of;
  int next = (s->step + 1) % 2;
  if (!p->backward && s->step == 0 && s->u == 1 && copy_local(p, err))
    return -1;
  return hop(p, keys_met(p), r->k[next], err) || hop(p, values_met(p), r->v[next], err) ||
                 (p->backward && s->step > 0 && next_sums(p, err))
             ? -1
             : 0;
}

static void step_on(struct player *p) {
  struct state_1d *s = state_1d(p);
  s->step = (s->step + 1) % s->ring;
}

/* ---- attention ---- */

static struct operator_call attention_call(struct player *p) {
  struct state_1d *s = state_1d(p);
  const struct activations *a = activations_1d(p);
  struct operator_call c = {.kind = OPERATOR_ATTENTION_FORWARD,
                            .attention = {.heads = s->heads,
                                          .kv_heads = s->kv_heads,
                                          .head_dim = p->model->head_dim,
                                          .causal = p->model->causal && s->step == 0,
                                          .scale = 1 / sqrtf((float)p->model->head_dim),
                                          .q = a->q,
                                          .k = keys_met(p),
                                          .v = values_met(p),
                                          .out = a->out,
                                          .lse = a->lse}};
  sequences_use(&s->who[s->step], &c.attention);
  return c;
}

static int merge(struct player *p, struct err *err) {
  const struct state_1d *s = state_1d(p);
  const struct activations *a = activations_1d(p);
  struct operator_call c = {.kind = OPERATOR_ATTENTION_MERGE,
                            .attention_merge = {.rows = s->all_rows,
                                                .heads = s->heads,
                                                .head_dim = p->model->head_dim,
                                                .out_a = a->out,
                                                .lse_a = a->lse,
                                                .out_b = s->ring_of.out,
                                                .lse_b = s->ring_of.lse}};
  return run_operator(p, c, err);
}

int attention_1d_forward(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct activations *a = activations_1d(p);
  bool first = s->step == 0, last = s->step + 1 == s->ring;
  if (s->ring == 1 && s->u == 1 && copy_local(p, err))
    return -1;
  struct operator_call c = attention_call(p);
  if (!first) {
    c.attention.out = s->ring_of.out;
    c.attention.lse = s->ring_of.lse;
  }
  if (run_operator(p, c, err) || (!first && merge(p, err)))
    return -1;
  step_on(p);
  return last && s->u == 1 ? copy_whole(p, a->out, a->attn, q_numbers(s, p), err) : 0;
}

/* What a later step gives: dq here, dk and dv to the sums of the block met; after the last step those are at home. */
static int add_step(struct player *p, void *const d[3], bool last, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct ring_buffers *r = &s->ring_of;
  if (last && next_sums(p, err))
    return -1;
  return run_residual(p, q_numbers(s, p), d[0], r->dq, d[0], err) ||
                 run_residual(p, kv_numbers(s, p), r->sum_k[r->sum], r->dk, r->sum_k[r->sum], err) ||
                 run_residual(p, kv_numbers(s, p), r->sum_v[r->sum], r->dv, r->sum_v[r->sum], err) ||
                 (last && hop_sums(p, d[1], d[2], err))
             ? -1
             : 0;
}

int attention_1d_backward(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct ring_buffers *r = &s->ring_of;
  bool alone = s->u == 1, first = s->step == 0, last = s->step + 1 == s->ring;
  void *const d[3] = {alone ? s->local_q : s->dq, alone ? s->local_k : s->dk, alone ? s->local_v : s->dv};
  struct operator_call c = attention_call(p);
  c.kind = OPERATOR_ATTENTION_BACKWARD;
  c.attention.dout = alone ? s->dattn : s->recv;
  c.attention.delta = s->delta;
  r->sum = first ? 0 : r->sum;
  c.attention.dq = first ? d[0] : r->dq;
  c.attention.dk = s->ring == 1 ? d[1] : first ? r->sum_k[0] : r->dk;
  c.attention.dv = s->ring == 1 ? d[2] : first ? r->sum_v[0] : r->dv;
  if (run_operator(p, c, err) || (!first && add_step(p, d, last, err)))
    return -1;
  step_on(p);
  return 0;
}
