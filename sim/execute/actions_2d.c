/* actions_2d.c: what the operations of the video transformer do (sim/plan/lower_2d.c names them; framework "fused").
 * STDiT3: pairs of a spatial and a temporal block, each norm, modulate, attention, gate; cross-attention to the
 * caption; norm, modulate, MLP, gate. Its fixed position table adds no operation and is left out.
 *
 * Outside the blocks every rank of a group computes all rows. Of the loss each rank takes its own rows, of the patches'
 * gradient too, so that the sum over ranks counts every row once. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/execute/state_2d.h"

#define ROPE_BASE 10000.0f

static const struct norm plain_norm = {.layer = true, .weight = -1, .bias = -1}; /* norms without parameters */

/* ---- tensors ---- */

static void build_block(struct player *p, struct block *b, enum module module, int l) {
  const struct transformer *m = p->model;
  struct weights *w = &p->weights;
  const char *name = module == SPATIAL ? "spatial" : "temporal";
  const int64_t h = m->hidden;
  weights_add_range(w);
  b->table = weights_add(w, PARTS * h, "%s_%d.modulation", name, l);
  b->qkv = linear_add(w, h, 3 * h, true, "%s_%d.qkv", name, l);
  if (m->qk_norm) {
    b->q_norm = norm_add(w, m->head_dim, false, "%s_%d.q", name, l);
    b->k_norm = norm_add(w, m->head_dim, false, "%s_%d.k", name, l);
  }
  b->attn_out = linear_add(w, h, h, true, "%s_%d.attn_out", name, l);
  b->cross_q = linear_add(w, h, h, true, "%s_%d.cross_q", name, l);
  b->cross_kv = linear_add(w, h, 2 * h, true, "%s_%d.cross_kv", name, l);
  b->cross_out = linear_add(w, h, h, true, "%s_%d.cross_out", name, l);
  b->mlp_up = linear_add(w, h, m->ffn * (m->mlp_matrices - 1), true, "%s_%d.mlp_up", name, l);
  b->mlp_down = linear_add(w, m->ffn, h, true, "%s_%d.mlp_down", name, l);
}

static void build_embedder(struct player *p, struct embedder *e, int64_t in, const char *name) {
  const int64_t h = p->model->hidden;
  e->first = linear_add(&p->weights, in, h, true, "%s_embed", name);
  e->second = linear_add(&p->weights, h, h, true, "%s_project", name);
}

static int build(struct player *p, struct err *err) {
  const struct transformer *m = p->model;
  struct weights *w = &p->weights;
  if (m->heads * m->head_dim != m->hidden)
    return err_set(err, "execute: model '%s' has %lld heads of %lld, which are not its hidden size of %lld: not played",
                   m->name, (long long)m->heads, (long long)m->head_dim, (long long)m->hidden);
  struct state_2d *s = p->state = xcalloc(1, sizeof *s);
  s->blocks = xcalloc((size_t)m->layers, sizeof *s->blocks);
  s->input = xcalloc((size_t)(MODULES * m->layers) + 1, sizeof *s->input);
  for (int module = 0; module < MODULES; module++)
    s->saved[module] = xcalloc((size_t)m->layers, sizeof *s->saved[module]);
  weights_add_range(w);
  s->patch = linear_add(w, m->in_channels, m->hidden, true, "patch_embed");
  build_embedder(p, &s->time, m->frequency_dim, "time");
  build_embedder(p, &s->rate, m->frequency_dim, "rate");
  build_embedder(p, &s->caption, m->text_channels, "caption");
  s->modulation = linear_add(w, m->hidden, PARTS * m->hidden, true, "modulation");
  s->final_table = weights_add(w, 2 * m->hidden, "final_modulation");
  s->final = linear_add(w, m->hidden, m->out_channels, true, "final_layer");
  for (int l = 0; l < m->layers; l++)
    for (int module = 0; module < MODULES; module++)
      build_block(p, &s->blocks[l][module], (enum module)module, l);
  return 0;
}

static void release(struct player *p) {
  struct state_2d *s = state_2d(p);
  if (!s)
    return;
  layout_2d_release(p);
  for (int module = 0; module < MODULES; module++)
    free(s->saved[module]);
  free(s->blocks);
  free(s->input);
  free(s);
}

/* ---- where an operation is ---- */

static enum module module_of(const struct player *p) { return (enum module)p->op->module; }

static const struct block *block_of(const struct player *p) { return &state_2d(p)->blocks[p->layer][module_of(p)]; }

/* The last pairs recompute: the backward meets them first. */
static struct saved *saved_of(const struct player *p) {
  struct state_2d *s = state_2d(p);
  enum module module = module_of(p);
  return p->layer < s->kept[module] ? &s->saved[module][p->layer] : &s->shared;
}

static void **input_of(const struct player *p) { return &state_2d(p)->input[MODULES * p->layer + (int)module_of(p)]; }

/* Whether attention rows are in another order than local rows. */
static bool exchanges(const struct player *p) { return module_of(p) == SPATIAL && p->group->ranks > 1; }

static int64_t attention_rows(const struct player *p) {
  return module_of(p) == SPATIAL ? state_2d(p)->frame_rows : state_2d(p)->rows;
}

/* One-frame samples attend to nothing over time: what attention gives is v. */
static bool has_attention(const struct player *p) { return module_of(p) == SPATIAL || state_2d(p)->has_temporal; }

/* ---- norm, modulation, gate ---- */

static void *part_of(const struct player *p, void *modulation, enum part part) {
  return element_at(p, modulation, part * p->model->hidden);
}
static void *grad_part_of(const struct player *p, enum part part) {
  return (float *)state_2d(p)->dmodulation + part * p->model->hidden;
}

/* By sample: rows modulated by two parts that begin at `shift`. */
static struct operator_call modulate_call(struct player *p, int64_t stride, void *shift, void *scale, const void *x) {
  struct state_2d *s = state_2d(p);
  return (struct operator_call){.kind = OPERATOR_MODULATE_FORWARD,
                                .modulate = {.batch = p->mb->batch,
                                             .rows = s->rows,
                                             .width = p->model->hidden,
                                             .sample_stride = stride,
                                             .cu_rows = s->cu_rows,
                                             .x = x,
                                             .scale = scale,
                                             .shift = shift}};
}

static int norm_modulated(struct player *p, const void *x, struct norm_rows *left, void *normed, enum part shift,
                          void *y, struct err *err) {
  struct norm n = plain_norm;
  void *modulation = saved_of(p)->modulation;
  n.width = p->model->hidden;
  struct operator_call c =
      modulate_call(p, PARTS * n.width, part_of(p, modulation, shift), part_of(p, modulation, shift + 1), normed);
  c.modulate.y = y;
  return norm_forward(p, state_2d(p)->rows, &n, x, normed, left, err) || run_operator(p, c, err) ? -1 : 0;
}

/* From dnormed: through modulation and norm, and around both: dx += . */
static int norm_modulated_backward(struct player *p, const void *x, struct norm_rows *left, void *normed,
                                   enum part shift, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct norm n = plain_norm;
  void *modulation = saved_of(p)->modulation;
  n.width = p->model->hidden;
  struct operator_call c =
      modulate_call(p, PARTS * n.width, part_of(p, modulation, shift), part_of(p, modulation, shift + 1), normed);
  c.kind = OPERATOR_MODULATE_BACKWARD;
  c.modulate.dy = s->dnormed;
  c.modulate.dx = s->dnormed;
  c.modulate.dshift = grad_part_of(p, shift);
  c.modulate.dscale = grad_part_of(p, shift + 1);
  return run_operator(p, c, err) || norm_backward(p, s->rows, &n, x, left, s->dnormed, s->dnormed, err) ||
                 run_residual(p, s->rows * n.width, s->dx, s->dnormed, s->dx, err)
             ? -1
             : 0;
}

static struct operator_call gate_call(struct player *p, enum part gate, const void *x) {
  struct state_2d *s = state_2d(p);
  return (struct operator_call){.kind = OPERATOR_GATE_FORWARD,
                                .gate = {.batch = p->mb->batch,
                                         .rows = s->rows,
                                         .width = p->model->hidden,
                                         .sample_stride = PARTS * p->model->hidden,
                                         .cu_rows = s->cu_rows,
                                         .x = x,
                                         .gate = part_of(p, saved_of(p)->modulation, gate)}};
}

static int gated(struct player *p, enum part gate, const void *x, const void *residual, void *y, struct err *err) {
  struct operator_call c = gate_call(p, gate, x);
  c.gate.residual = residual;
  c.gate.y = y;
  return run_operator(p, c, err);
}

/* dlocal = the gate's share of dx. */
static int gated_backward(struct player *p, enum part gate, const void *x, struct err *err) {
  struct operator_call c = gate_call(p, gate, x);
  c.kind = OPERATOR_GATE_BACKWARD;
  c.gate.dy = state_2d(p)->dx;
  c.gate.dx = state_2d(p)->dlocal;
  c.gate.dgate = grad_part_of(p, gate);
  return run_operator(p, c, err);
}

/* y (rows, width) = x + a vector. */
static int add_vector(struct player *p, int64_t rows, int64_t width, const void *x, int tensor, void *y,
                      struct err *err) {
  struct operator_call c = {
      .kind = OPERATOR_BIAS_FORWARD,
      .bias = {.rows = rows, .width = width, .x = x, .bias = weights_elements(&p->weights, tensor), .y = y}};
  return run_operator(p, c, err);
}

/* into fp32 (width) += the sum of rows of dy. */
static int add_rows(struct player *p, int64_t rows, int64_t width, const void *dy, void *into, struct err *err) {
  struct operator_call c = {.kind = OPERATOR_BIAS_BACKWARD,
                            .bias = {.rows = rows, .width = width, .dy = dy, .dbias = into}};
  return run_operator(p, c, err);
}

static int to_elements(struct player *p, int64_t n, const void *fp32, void *elements, struct err *err) {
  struct operator_call c = {.kind = OPERATOR_CAST, .cast = {.n = n, .scale = 1, .src = fp32, .dst = elements}};
  return run_operator(p, c, err);
}

/* The block's gradient of its modulation goes to its table, and to what all blocks share. */
static int end_modulation(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  int64_t batch = p->mb->batch, width = PARTS * p->model->hidden;
  return to_elements(p, batch * width, s->dmodulation, s->dmodulation_e, err) ||
                 add_rows(p, batch, width, s->dmodulation_e, weights_grad(&p->weights, block_of(p)->table), err) ||
                 add_rows(p, 1, batch * width, s->dmodulation_e, s->dtime_6, err)
             ? -1
             : 0;
}

/* ---- a block's attention ---- */

static int norm_modulate(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  int64_t batch = p->mb->batch, width = PARTS * p->model->hidden;
  void *x = *input_of(p), *y = exchanges(p) ? s->local : a->modulated_1;
  if (p->backward)
    return norm_modulated_backward(p, x, &a->norm_1, a->normed_1, SHIFT_1, err) || end_modulation(p, err) ? -1 : 0;
  return add_vector(p, batch, width, s->time_6, block_of(p)->table, a->modulation, err) ||
                 norm_modulated(p, x, &a->norm_1, a->normed_1, SHIFT_1, y, err)
             ? -1
             : 0;
}

/* Local rows (rows, width) of a sample lie by frame and position; temporal attention takes them by position and frame.
 * `there` has rows of `there_width`, of which `width` are copied. */
static int turn_rows(struct player *p, void *local, int64_t local_width, void *there, int64_t there_width,
                     int64_t width, bool back, struct err *err) {
  const struct state_2d *s = state_2d(p);
  for (const struct run *r = s->runs; r < s->runs + s->n_runs; r++) {
    void *here = element_at(p, local, r->local_at * local_width);
    void *turned = element_at(p, there, r->local_at * there_width);
    const int64_t each = r->frames * r->local;
    const int64_t local_stride[3] = {each * local_width, r->local * local_width, local_width};
    const int64_t there_stride[3] = {each * there_width, there_width, r->frames * there_width};
    struct copy_call c = {.extent = {r->count, r->frames, r->local}, .width = width};
    c.src = back ? turned : here;
    c.dst = back ? here : turned;
    memcpy(c.src_stride, back ? there_stride : local_stride, sizeof local_stride);
    memcpy(c.dst_stride, back ? local_stride : there_stride, sizeof local_stride);
    if (run_copy(p, c, err))
      return -1;
  }
  return 0;
}

/* Rows of qkv to or from q, k and v apart, in the order of attention. */
static int split_qkv(struct player *p, void *const parts[3], bool join, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t h = p->model->hidden, n = attention_rows(p);
  for (int i = 0; i < 3; i++) {
    void *whole = element_at(p, s->qkv, i * h);
    struct copy_call c = {
        .extent = {n, 1, 1}, .width = h, .src = join ? parts[i] : whole, .dst = join ? whole : parts[i]};
    c.src_stride[0] = join ? h : 3 * h;
    c.dst_stride[0] = join ? 3 * h : h;
    if (module_of(p) == TEMPORAL ? turn_rows(p, whole, 3 * h, parts[i], h, h, join, err) : run_copy(p, c, err))
      return -1;
  }
  return 0;
}

static int qkv(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  bool raw = p->model->qk_norm;
  return linear_forward(p, attention_rows(p), &block_of(p)->qkv, a->modulated_1, s->qkv, err) ||
                 split_qkv(p, (void *[]){raw ? a->raw_q : a->q, raw ? a->raw_k : a->k, a->v}, false, err) ||
                 (!has_attention(p) && copy_whole(p, a->v, a->attn, attention_rows(p) * p->model->hidden, err))
             ? -1
             : 0;
}

static int qkv_dgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  int64_t n = attention_rows(p) * p->model->hidden;
  void *dv = has_attention(p) ? s->dv : s->dattn;
  if (!has_attention(p) && (clear_elements(p, s->dq, n, err) || clear_elements(p, s->dk, n, err)))
    return -1;
  return split_qkv(p, (void *[]){s->dq, s->dk, dv}, true, err) ||
                 linear_dgrad(p, attention_rows(p), &block_of(p)->qkv, s->qkv, exchanges(p) ? s->dframes : s->dnormed,
                              err)
             ? -1
             : 0;
}

static int qkv_wgrad(struct player *p, struct err *err) {
  return linear_wgrad(p, attention_rows(p), &block_of(p)->qkv, saved_of(p)->modulated_1, state_2d(p)->qkv, err);
}

/* Temporal blocks turn q and k by frame. */
static int rope(struct player *p, void *x, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct operator_call c = {.kind = OPERATOR_ROPE,
                            .rope = {.rows = s->rows,
                                     .heads = p->model->heads,
                                     .head_dim = p->model->head_dim,
                                     .base = ROPE_BASE,
                                     .inverse = p->backward,
                                     .max_position = s->self[TEMPORAL].longest_q,
                                     .positions = s->frame,
                                     .x = x}};
  return module_of(p) == TEMPORAL ? run_operator(p, c, err) : 0;
}

static int qk_norm(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  const struct block *b = block_of(p);
  int64_t n = attention_rows(p) * p->model->heads;
  bool norms = p->model->qk_norm;
  if (p->backward)
    return rope(p, s->dq, err) || rope(p, s->dk, err) ||
                   (norms && (norm_backward(p, n, &b->q_norm, a->raw_q, &a->q_norm, s->dq, s->dq, err) ||
                              norm_backward(p, n, &b->k_norm, a->raw_k, &a->k_norm, s->dk, s->dk, err)))
               ? -1
               : 0;
  return (norms && (norm_forward(p, n, &b->q_norm, a->raw_q, a->q, &a->q_norm, err) ||
                    norm_forward(p, n, &b->k_norm, a->raw_k, a->k, &a->k_norm, err))) ||
                 rope(p, a->q, err) || rope(p, a->k, err)
             ? -1
             : 0;
}

static struct operator_call attention_call(struct player *p, const struct sequences *who) {
  const struct transformer *m = p->model;
  struct operator_call c = {
      .kind = OPERATOR_ATTENTION_FORWARD,
      .attention = {
          .heads = m->heads, .kv_heads = m->kv_heads, .head_dim = m->head_dim, .scale = 1 / sqrtf((float)m->head_dim)}};
  sequences_use(who, &c.attention);
  return c;
}

static struct operator_call self_attention(struct player *p) {
  struct saved *a = saved_of(p);
  struct operator_call c = attention_call(p, &state_2d(p)->self[module_of(p)]);
  c.attention.q = a->q;
  c.attention.k = a->k;
  c.attention.v = a->v;
  c.attention.out = module_of(p) == SPATIAL ? a->attn : a->out;
  c.attention.lse = a->lse;
  return c;
}

static int attention(struct player *p, struct err *err) {
  const int64_t h = p->model->hidden;
  struct saved *a = saved_of(p);
  return run_operator(p, self_attention(p), err) ||
                 (module_of(p) == TEMPORAL && turn_rows(p, a->attn, h, a->out, h, h, true, err))
             ? -1
             : 0;
}

static int attention_backward(struct player *p, struct err *err) {
  const int64_t h = p->model->hidden;
  struct state_2d *s = state_2d(p);
  bool turned = module_of(p) == TEMPORAL;
  struct operator_call c = self_attention(p);
  c.kind = OPERATOR_ATTENTION_BACKWARD;
  c.attention.dout = turned ? s->dout : s->dattn;
  c.attention.dq = s->dq;
  c.attention.dk = s->dk;
  c.attention.dv = s->dv;
  c.attention.delta = s->delta;
  return (turned && turn_rows(p, s->dattn, h, s->dout, h, h, false, err)) || run_operator(p, c, err) ? -1 : 0;
}

static int attn_out(struct player *p, struct err *err) {
  struct saved *a = saved_of(p);
  void *y = exchanges(p) ? state_2d(p)->frames : a->projected;
  return linear_forward(p, attention_rows(p), &block_of(p)->attn_out, a->attn, y, err);
}

static const void *dprojected(const struct player *p) {
  return exchanges(p) ? state_2d(p)->dframes : state_2d(p)->dlocal;
}

static int attn_out_dgrad(struct player *p, struct err *err) {
  return linear_dgrad(p, attention_rows(p), &block_of(p)->attn_out, dprojected(p), state_2d(p)->dattn, err);
}

static int attn_out_wgrad(struct player *p, struct err *err) {
  return linear_wgrad(p, attention_rows(p), &block_of(p)->attn_out, saved_of(p)->attn, dprojected(p), err);
}

static int attention_gate(struct player *p, struct err *err) {
  struct saved *a = saved_of(p);
  return p->backward ? gated_backward(p, GATE_1, a->projected, err)
                     : gated(p, GATE_1, a->projected, *input_of(p), a->middle, err);
}

/* ---- exchanges: which one is told by the name of the operation between packing and unpacking ---- */

struct exchange {
  bool to_frames;
  void *from, *into;
};

static struct exchange exchange_of(const struct player *p, const char *name) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  if (strcmp(name, "sp_to_frames") == 0)
    return (struct exchange){true, s->local, a->modulated_1};
  if (strcmp(name, "sp_to_space") == 0)
    return (struct exchange){false, s->frames, a->projected};
  if (strcmp(name, "sp_to_frames_grad") == 0)
    return (struct exchange){true, s->dlocal, s->dframes};
  return (struct exchange){false, s->dframes, s->dnormed};
}

static int exchange_pack(struct player *p, struct err *err) {
  struct exchange e = exchange_of(p, p->op[1].name);
  return exchange_2d_pack(p, e.to_frames, e.from, err);
}

static int exchange_unpack(struct player *p, struct err *err) {
  struct exchange e = exchange_of(p, p->op[-1].name);
  return exchange_2d_unpack(p, e.to_frames, e.into, err);
}

/* ---- cross-attention ---- */

static int cross_q(struct player *p, struct err *err) {
  struct saved *a = saved_of(p);
  return linear_forward(p, state_2d(p)->rows, &block_of(p)->cross_q, a->middle, a->cross_q, err);
}

static int split_kv(struct player *p, void *k, void *v, bool join, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t h = p->model->hidden;
  void *const parts[2] = {k, v};
  for (int i = 0; i < 2; i++) {
    void *whole = element_at(p, s->kv, i * h);
    struct copy_call c = {.extent = {s->text_rows, 1, 1}, .width = h};
    c.src = join ? parts[i] : whole;
    c.dst = join ? whole : parts[i];
    c.src_stride[0] = join ? h : 2 * h;
    c.dst_stride[0] = join ? 2 * h : h;
    if (run_copy(p, c, err))
      return -1;
  }
  return 0;
}

static int cross_kv(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  return linear_forward(p, s->text_rows, &block_of(p)->cross_kv, s->caption.out, s->kv, err) ||
                 split_kv(p, a->cross_k, a->cross_v, false, err)
             ? -1
             : 0;
}

static struct operator_call cross_call(struct player *p) {
  struct saved *a = saved_of(p);
  struct operator_call c = attention_call(p, &state_2d(p)->cross);
  c.attention.q = a->cross_q;
  c.attention.k = a->cross_k;
  c.attention.v = a->cross_v;
  c.attention.out = a->cross_attn;
  c.attention.lse = a->cross_lse;
  return c;
}

static int cross_attention(struct player *p, struct err *err) { return run_operator(p, cross_call(p), err); }

static int cross_attention_backward(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct operator_call c = cross_call(p);
  c.kind = OPERATOR_ATTENTION_BACKWARD;
  c.attention.dout = s->dcross;
  c.attention.dq = s->dcross_q;
  c.attention.dk = s->dcross_k;
  c.attention.dv = s->dcross_v;
  c.attention.delta = s->delta;
  return run_operator(p, c, err);
}

static int cross_out(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_forward(p, s->rows, &block_of(p)->cross_out, saved_of(p)->cross_attn, s->local, err);
}

static int cross_out_dgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_dgrad(p, s->rows, &block_of(p)->cross_out, s->dx, s->dcross, err);
}

static int cross_out_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_wgrad(p, s->rows, &block_of(p)->cross_out, saved_of(p)->cross_attn, s->dx, err);
}

static int cross_kv_dgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return split_kv(p, s->dcross_k, s->dcross_v, true, err) ||
                 linear_dgrad(p, s->text_rows, &block_of(p)->cross_kv, s->kv, s->dtext, err)
             ? -1
             : 0;
}

static int cross_kv_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_wgrad(p, s->text_rows, &block_of(p)->cross_kv, s->caption.out, s->kv, err);
}

/* Captions meet every block: their gradients add up. */
static int text(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return run_residual(p, s->text_rows * p->model->hidden, s->dcaption, s->dtext, s->dcaption, err);
}

static int cross_q_dgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_dgrad(p, s->rows, &block_of(p)->cross_q, s->dcross_q, s->dnormed, err);
}

static int cross_q_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_wgrad(p, s->rows, &block_of(p)->cross_q, saved_of(p)->middle, s->dcross_q, err);
}

/* Backward only: the gradient through cross-attention and around it. */
static int residual(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return run_residual(p, s->rows * p->model->hidden, s->dx, s->dnormed, s->dx, err);
}

/* ---- a block's MLP ---- */

static int residual_norm(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  if (p->backward)
    return norm_modulated_backward(p, a->middle_2, &a->norm_2, a->normed_2, SHIFT_2, err);
  return run_residual(p, s->rows * p->model->hidden, a->middle, s->local, a->middle_2, err) ||
                 norm_modulated(p, a->middle_2, &a->norm_2, a->normed_2, SHIFT_2, a->modulated_2, err)
             ? -1
             : 0;
}

static int mlp_up(struct player *p, struct err *err) {
  struct saved *a = saved_of(p);
  return linear_forward(p, state_2d(p)->rows, &block_of(p)->mlp_up, a->modulated_2, a->up, err);
}

static int mlp_up_dgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_dgrad(p, s->rows, &block_of(p)->mlp_up, s->dup, s->dnormed, err);
}

static int mlp_up_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_wgrad(p, s->rows, &block_of(p)->mlp_up, saved_of(p)->modulated_2, s->dup, err);
}

static int activation(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  return p->backward ? activation_backward(p, s->rows, a->up, s->dact, s->dup, err)
                     : activation_forward(p, s->rows, a->up, a->act, err);
}

static int mlp_down(struct player *p, struct err *err) {
  struct saved *a = saved_of(p);
  return linear_forward(p, state_2d(p)->rows, &block_of(p)->mlp_down, a->act, a->projected_2, err);
}

static int mlp_down_dgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_dgrad(p, s->rows, &block_of(p)->mlp_down, s->dlocal, s->dact, err);
}

static int mlp_down_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_wgrad(p, s->rows, &block_of(p)->mlp_down, saved_of(p)->act, s->dlocal, err);
}

/* The last of a block's forward, the first of its backward. */
static int mlp_gate(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  if (p->backward)
    return clear_fp32(p, s->dmodulation, p->mb->batch * PARTS * p->model->hidden, err) ||
                   gated_backward(p, GATE_2, a->projected_2, err)
               ? -1
               : 0;
  return gated(p, GATE_2, a->projected_2, a->middle_2, input_of(p)[1], err);
}

/* ---- before the blocks ---- */

static int embed(struct player *p, struct embedder *e, int64_t rows, struct err *err) {
  struct operator_call silu = {.kind = OPERATOR_SILU_FORWARD,
                               .silu = {.n = rows * e->first.out, .x = e->hidden, .y = e->act}};
  return linear_forward(p, rows, &e->first, e->in, e->hidden, err) || run_operator(p, silu, err) ||
                 linear_forward(p, rows, &e->second, e->act, e->out, err)
             ? -1
             : 0;
}

static int time_embed(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t batch = p->mb->batch;
  return embed(p, &s->time, batch, err) || embed(p, &s->rate, batch, err) ||
                 run_residual(p, batch * p->model->hidden, s->time.out, s->rate.out, s->time.out, err)
             ? -1
             : 0;
}

static int modulation(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t batch = p->mb->batch;
  struct operator_call silu = {.kind = OPERATOR_SILU_FORWARD,
                               .silu = {.n = batch * p->model->hidden, .x = s->time.out, .y = s->silu_time}};
  return run_operator(p, silu, err) || linear_forward(p, batch, &s->modulation, s->silu_time, s->time_6, err) ? -1 : 0;
}

static int caption_embed(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct embedder *e = &s->caption;
  struct operator_call gelu = {.kind = OPERATOR_GELU_FORWARD,
                               .gelu = {.n = s->text_rows * p->model->hidden, .x = e->hidden, .y = e->act}};
  return linear_forward(p, s->text_rows, &e->first, e->in, e->hidden, err) || run_operator(p, gelu, err) ? -1 : 0;
}

static int caption_project(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_forward(p, s->text_rows, &s->caption.second, s->caption.act, s->caption.out, err);
}

/* This rank's rows among all. */
static void *own(const struct player *p, void *all, int64_t width) {
  return element_at(p, all, p->group->rank * state_2d(p)->rows * width);
}

static int patch_embed(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t h = p->model->hidden;
  return linear_forward(p, s->all_rows, &s->patch, s->patches, s->whole, err) ||
                 copy_whole(p, own(p, s->whole, h), s->input[0], s->rows * h, err)
             ? -1
             : 0;
}

/* ---- after the blocks ---- */

static void *last_output(const struct player *p) { return state_2d(p)->input[MODULES * p->model->layers]; }

static int sp_gather(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct communicator_call all = {.op = COMMUNICATOR_ALL_GATHER,
                                  .element = p->device->kind->element,
                                  .send = last_output(p),
                                  .recv = s->whole,
                                  .count = s->rows * p->model->hidden};
  return communicator_run(p->group, &all, err);
}

/* The rows of each rank in turn, which have the same samples. */
static int final_modulate(struct player *p, bool backward, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t h = p->model->hidden;
  for (int64_t rank = 0; rank < p->group->ranks; rank++) {
    int64_t at = rank * s->rows * h;
    struct operator_call c = modulate_call(p, 2 * h, s->final_modulation, element_at(p, s->final_modulation, h),
                                           element_at(p, s->normed, at));
    c.kind = backward ? OPERATOR_MODULATE_BACKWARD : OPERATOR_MODULATE_FORWARD;
    c.modulate.y = element_at(p, s->modulated, at);
    c.modulate.dy = c.modulate.dx = element_at(p, s->dwhole, at);
    c.modulate.dshift = s->dfinal;
    c.modulate.dscale = (float *)s->dfinal + h;
    if (run_operator(p, c, err))
      return -1;
  }
  return 0;
}

static int final_norm(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t h = p->model->hidden, batch = p->mb->batch;
  struct norm n = plain_norm;
  n.width = h;
  struct copy_call twice = {.extent = {batch, 2, 1},
                            .width = h,
                            .src_stride = {h, 0, 0},
                            .dst_stride = {2 * h, h, 0},
                            .src = s->time.out,
                            .dst = s->final_modulation};
  return (p->group->ranks == 1 && copy_whole(p, last_output(p), s->whole, s->rows * h, err)) ||
                 run_copy(p, twice, err) ||
                 add_vector(p, batch, 2 * h, s->final_modulation, s->final_table, s->final_modulation, err) ||
                 norm_forward(p, s->all_rows, &n, s->whole, s->normed, &s->final_rows, err) ||
                 final_modulate(p, false, err)
             ? -1
             : 0;
}

/* Loss of this rank's real rows, and its gradient in place of the prediction: zero elsewhere. Inside a micro-batch
 * every real token weighs the same; a token's loss is the mean over its channels. */
static int squared_error(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t width = p->model->out_channels;
  double scale = p->mb->weight / (double)(s->tokens * width), sum;
  if (copy_whole(p, own(p, s->logits, width), s->predicted, s->rows * width, err) ||
      clear_elements(p, s->logits, s->all_rows * width, err) || clear_fp32(p, s->loss, s->rows, err))
    return -1;
  for (const struct stretch *t = s->targets; t < s->targets + s->n_targets; t++) {
    struct operator_call c = {.kind = OPERATOR_SQUARED_ERROR,
                              .squared_error = {.rows = t->n,
                                                .width = width,
                                                .x = element_at(p, s->predicted, t->first * width),
                                                .target = element_at(p, s->target, t->first * width),
                                                .scale = (float)scale,
                                                .loss = (float *)s->loss + t->first,
                                                .dx = element_at(p, own(p, s->logits, width), t->first * width)}};
    if (run_operator(p, c, err))
      return -1;
  }
  if (sum_losses(p, s->loss, s->rows, &sum, err))
    return -1;
  p->loss += scale * sum;
  return 0;
}

static int final_layer(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_forward(p, s->all_rows, &s->final, s->modulated, s->logits, err) || squared_error(p, err) ? -1 : 0;
}

static int final_layer_dgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_dgrad(p, s->all_rows, &s->final, s->logits, s->dwhole, err);
}

static int final_layer_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_wgrad(p, s->all_rows, &s->final, s->modulated, s->logits, err);
}

/* What the blocks add to begins at zero here. */
static int clear_sums(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t h = p->model->hidden, batch = p->mb->batch;
  return clear_fp32(p, s->dfinal, batch * 2 * h, err) || clear_fp32(p, s->dtime, batch * h, err) ||
                 clear_fp32(p, s->dtime_6, batch * PARTS * h, err) ||
                 clear_elements(p, s->dcaption, s->text_rows * h, err)
             ? -1
             : 0;
}

static int final_norm_backward(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t h = p->model->hidden, batch = p->mb->batch;
  struct norm n = plain_norm;
  n.width = h;
  if (clear_sums(p, err) || final_modulate(p, true, err) ||
      norm_backward(p, s->all_rows, &n, s->whole, &s->final_rows, s->dwhole, s->dwhole, err) ||
      copy_whole(p, own(p, s->dwhole, h), s->dx, s->rows * h, err) ||
      to_elements(p, batch * 2 * h, s->dfinal, s->dmodulation_e, err) ||
      add_rows(p, batch, 2 * h, s->dmodulation_e, weights_grad(&p->weights, s->final_table), err))
    return -1;
  for (int64_t b = 0; b < batch; b++)
    if (add_rows(p, 2, h, element_at(p, s->dmodulation_e, b * 2 * h), (float *)s->dtime + b * h, err))
      return -1;
  return 0;
}

/* ---- the inputs' gradients ---- */

static int caption_project_dgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_dgrad(p, s->text_rows, &s->caption.second, s->dcaption, s->dtext, err);
}

static int caption_project_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return linear_wgrad(p, s->text_rows, &s->caption.second, s->caption.act, s->dcaption, err);
}

static int caption_embed_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct operator_call gelu = {
      .kind = OPERATOR_GELU_BACKWARD,
      .gelu = {.n = s->text_rows * p->model->hidden, .x = s->caption.hidden, .dy = s->dtext, .dx = s->dtext}};
  return run_operator(p, gelu, err) || linear_wgrad(p, s->text_rows, &s->caption.first, s->caption.in, s->dtext, err)
             ? -1
             : 0;
}

static int silu_backward(struct player *p, int64_t n, const void *x, void *dy, struct err *err) {
  struct operator_call c = {.kind = OPERATOR_SILU_BACKWARD, .silu = {.n = n, .x = x, .dy = dy, .dx = dy}};
  return run_operator(p, c, err);
}

static int embed_backward(struct player *p, struct embedder *e, const void *dy, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t batch = p->mb->batch;
  return linear_wgrad(p, batch, &e->second, e->act, dy, err) ||
                 linear_dgrad(p, batch, &e->second, dy, s->dbatch_2, err) ||
                 silu_backward(p, batch * p->model->hidden, e->hidden, s->dbatch_2, err) ||
                 linear_wgrad(p, batch, &e->first, e->in, s->dbatch_2, err)
             ? -1
             : 0;
}

/* A few rows, which the program does not count: from the blocks' modulation and the final layer's. */
static int time_backward(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t batch = p->mb->batch, n = batch * p->model->hidden;
  return to_elements(p, PARTS * n, s->dtime_6, s->dmodulation_e, err) ||
                 linear_wgrad(p, batch, &s->modulation, s->silu_time, s->dmodulation_e, err) ||
                 linear_dgrad(p, batch, &s->modulation, s->dmodulation_e, s->dbatch, err) ||
                 silu_backward(p, n, s->time.out, s->dbatch, err) || to_elements(p, n, s->dtime, s->dbatch_2, err) ||
                 run_residual(p, n, s->dbatch, s->dbatch_2, s->dbatch, err) ||
                 embed_backward(p, &s->time, s->dbatch, err) || embed_backward(p, &s->rate, s->dbatch, err)
             ? -1
             : 0;
}

static int patch_embed_wgrad(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  const int64_t h = p->model->hidden;
  return clear_elements(p, s->dwhole, s->all_rows * h, err) ||
                 copy_whole(p, s->dx, own(p, s->dwhole, h), s->rows * h, err) ||
                 linear_wgrad(p, s->all_rows, &s->patch, s->patches, s->dwhole, err) || time_backward(p, err)
             ? -1
             : 0;
}

static const struct action actions[] = {
    {"host_copy", layout_2d_captions},
    {"patch_embed", patch_embed},
    {"time_embed", time_embed},
    {"modulation", modulation},
    {"caption_embed", caption_embed},
    {"caption_project", caption_project},
    {"norm_modulate", norm_modulate},
    {"exchange_pack", exchange_pack},
    {"sp_to_frames", exchange_2d_run},
    {"sp_to_space", exchange_2d_run},
    {"sp_to_frames_grad", exchange_2d_run},
    {"sp_to_space_grad", exchange_2d_run},
    {"exchange_unpack", exchange_unpack},
    {"qkv", qkv},
    {"qk_norm", qk_norm},
    {"spatial_attention", attention},
    {"temporal_attention", attention},
    {"attn_out", attn_out},
    {"attention_gate", attention_gate},
    {"cross_q", cross_q},
    {"cross_kv", cross_kv},
    {"cross_attention", cross_attention},
    {"cross_out", cross_out},
    {"residual_norm", residual_norm},
    {"mlp_up", mlp_up},
    {"activation", activation},
    {"mlp_down", mlp_down},
    {"mlp_gate", mlp_gate},
    {"sp_gather", sp_gather},
    {"final_norm", final_norm},
    {"final_layer", final_layer},
    {"final_layer_dgrad", final_layer_dgrad},
    {"final_layer_wgrad", final_layer_wgrad},
    {"final_norm_backward", final_norm_backward},
    {"mlp_down_dgrad", mlp_down_dgrad},
    {"mlp_down_wgrad", mlp_down_wgrad},
    {"mlp_up_dgrad", mlp_up_dgrad},
    {"mlp_up_wgrad", mlp_up_wgrad},
    {"cross_out_dgrad", cross_out_dgrad},
    {"cross_out_wgrad", cross_out_wgrad},
    {"cross_attention_backward", cross_attention_backward},
    {"cross_kv_dgrad", cross_kv_dgrad},
    {"cross_kv_wgrad", cross_kv_wgrad},
    {"text", text},
    {"cross_q_dgrad", cross_q_dgrad},
    {"cross_q_wgrad", cross_q_wgrad},
    {"residual", residual},
    {"attn_out_dgrad", attn_out_dgrad},
    {"attn_out_wgrad", attn_out_wgrad},
    {"spatial_attention_backward", attention_backward},
    {"temporal_attention_backward", attention_backward},
    {"qkv_dgrad", qkv_dgrad},
    {"qkv_wgrad", qkv_wgrad},
    {"caption_project_dgrad", caption_project_dgrad},
    {"caption_project_wgrad", caption_project_wgrad},
    {"caption_embed_wgrad", caption_embed_wgrad},
    {"patch_embed_wgrad", patch_embed_wgrad},
    {NULL, NULL},
};

/* Inside a backward loop the block's gradients are complete, at the end the rest. */
static int range(const struct player *p) {
  if (p->place == SECTION_BACKWARD)
    return 1 + MODULES * p->layer + (int)module_of(p);
  return p->place == SECTION_AFTER ? 0 : -1;
}

const struct model_actions model_2d = {.build = build,
                                       .measure = layout_2d_measure,
                                       .lay_out = layout_2d,
                                       .fill = layout_2d_fill,
                                       .release = release,
                                       .range = range,
                                       .actions = actions};
