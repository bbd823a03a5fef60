/* attention_2d.c: the attention half of a block: over its own rows, with the exchanges around it, and to the caption.
 */
#include <math.h>
#include <string.h>

#include "sim/execute/state_2d.h"

#define ROPE_BASE 10000.0f

/* Whether attention rows are in another order than local rows. */
static bool exchanges(const struct player *p) { return module_of(p) == SPATIAL && p->group->ranks > 1; }

static int64_t attention_rows(const struct player *p) {
  return module_of(p) == SPATIAL ? state_2d(p)->frame_rows : state_2d(p)->rows;
}

/* One-frame samples attend to nothing over time: what attention gives is v. */
static bool has_attention(const struct player *p) { return module_of(p) == SPATIAL || state_2d(p)->has_temporal; }

/* ---- a block's attention ---- */

static int norm_modulate(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  int64_t batch = p->mb->batch, width = PARTS * p->model->hidden;
  void *x = *input_of(p), *y = exchanges(p) ? s->local : a->modulated_1;
  if (p->backward)
    return modulation_2d_norm_backward(p, x, &a->norm_1, a->normed_1, SHIFT_1, err) || modulation_2d_end(p, err) ? -1
                                                                                                                 : 0;
  return add_vector(p, batch, width, s->time_6, block_of(p)->table, a->modulation, err) ||
                 modulation_2d_norm(p, x, &a->norm_1, a->normed_1, SHIFT_1, y, err)
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
  return p->backward ? modulation_2d_gate_backward(p, GATE_1, a->projected, err)
                     : modulation_2d_gate(p, GATE_1, a->projected, *input_of(p), a->middle, err);
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

const struct action attention_2d_actions[] = {
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
    {NULL, NULL},
};
