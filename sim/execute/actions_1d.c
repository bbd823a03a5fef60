/* actions_1d.c: what the operations of the text transformer do (sim/plan/lower_1d.c names them); attention_1d.c has
 * attention and its exchanges, layout_1d.c memory and inputs. */
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/execute/state_1d.h"

#define ROPE_BASE 10000.0f

/* ---- tensors ---- */

static void build_layer(struct player *p, struct layer *t, int l) {
  const struct transformer *m = p->model;
  struct weights *w = &p->weights;
  weights_add_range(w, false);
  t->norm_1 = norm_add(w, m->hidden, m->norm_bias, "layer_%d.attn", l);
  t->qkv = linear_add(w, m->hidden, qkv_width(m), m->linear_bias || m->qkv_bias, "layer_%d.qkv", l);
  if (m->qk_norm) {
    t->q_norm = norm_add(w, m->head_dim, false, "layer_%d.q", l);
    t->k_norm = norm_add(w, m->head_dim, false, "layer_%d.k", l);
  }
  t->attn_out = linear_add(w, m->heads * m->head_dim, m->hidden, m->linear_bias, "layer_%d.attn_out", l);
  t->norm_2 = norm_add(w, m->hidden, m->norm_bias, "layer_%d.mlp", l);
  t->mlp_up = linear_add(w, m->hidden, up_width(m), m->linear_bias, "layer_%d.mlp_up", l);
  t->mlp_down = linear_add(w, m->ffn, m->hidden, m->linear_bias, "layer_%d.mlp_down", l);
}

static void build_head(struct player *p) {
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  s->final_norm = norm_add(&p->weights, m->hidden, m->norm_bias, "final");
  s->head = (struct linear){m->hidden, m->vocab, s->embedding, -1};
  if (!m->tied_embeddings)
    s->head = linear_add(&p->weights, m->hidden, m->vocab, false, "head");
}

static int build(struct player *p, struct err *err) {
  (void)err;
  const struct transformer *m = p->model;
  struct weights *w = &p->weights;
  struct state_1d *s = p->state = xcalloc(1, sizeof *s);
  s->layers = xcalloc((size_t)m->layers, sizeof *s->layers);
  s->input = xcalloc((size_t)m->layers + 1, sizeof *s->input);
  s->kept = xcalloc((size_t)m->layers, sizeof *s->kept);
  s->positions_table = -1;
  s->range_rest = s->range_head = weights_add_range(w, m->tied_embeddings);
  s->embedding = weights_add(w, m->vocab * m->hidden, "embedding");
  if (m->learned_positions)
    s->positions_table = weights_add(w, m->learned_positions * m->hidden, "positions");
  if (m->tied_embeddings)
    build_head(p);
  for (int l = 0; l < m->layers; l++)
    build_layer(p, &s->layers[l], l);
  if (!m->tied_embeddings) {
    s->range_head = weights_add_range(w, false);
    build_head(p);
  }
  return 0;
}

static void release(struct player *p) {
  struct state_1d *s = p->state;
  if (!s)
    return;
  attention_1d_release(p);
  free(s->layers);
  free(s->input);
  free(s->kept);
  free(s);
}

/* The last ones recompute: the backward meets them first. */
static bool is_kept(const struct player *p, int layer) { return layer < state_1d(p)->first_recomputed; }

struct activations *activations_1d(const struct player *p) {
  struct state_1d *s = state_1d(p);
  return is_kept(p, p->layer) ? &s->kept[p->layer] : &s->shared;
}

/* ---- forward and backward of a layer ---- */

static const struct layer *layer_of(const struct player *p) { return &state_1d(p)->layers[p->layer]; }

/* Gradient through a norm and around it: dx += dnormed through the norm. */
static int norm_and_around(struct player *p, const struct norm *n, const void *x, const struct norm_rows *left,
                           struct err *err) {
  struct state_1d *s = state_1d(p);
  return norm_backward(p, s->rows, n, x, left, s->dnormed, s->dnormed, err) ||
                 run_residual(p, s->rows * p->model->hidden, s->dnormed, s->dx, s->dx, err)
             ? -1
             : 0;
}

static int norm(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct activations *a = activations_1d(p);
  const struct norm *n = &layer_of(p)->norm_1;
  const void *x = s->input[p->layer];
  return p->backward ? norm_and_around(p, n, x, &a->norm_1, err)
                     : norm_forward(p, s->rows, n, x, a->normed_1, &a->norm_1, err);
}

/* (rows, q k v) to or from q, k, v apart. */
static int split_qkv(struct player *p, bool join, struct err *err) {
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  const struct activations *a = activations_1d(p);
  bool raw = m->qk_norm && !join;
  void *const parts[3] = {raw ? a->raw_q : s->local_q, raw ? a->raw_k : s->local_k, s->local_v};
  const int64_t n[3] = {m->heads, m->kv_heads, m->kv_heads};
  int64_t at = 0, all = qkv_width(m);
  for (int i = 0; i < 3; i++) {
    int64_t width = n[i] * m->head_dim;
    void *whole = element_at(p, s->qkv, at);
    struct copy_call c = {
        .extent = {s->rows, 1, 1}, .width = width, .src = join ? parts[i] : whole, .dst = join ? whole : parts[i]};
    c.src_stride[0] = join ? width : all;
    c.dst_stride[0] = join ? all : width;
    if (run_copy(p, c, err))
      return -1;
    at += width;
  }
  return 0;
}

static int qkv(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_forward(p, s->rows, &layer_of(p)->qkv, activations_1d(p)->normed_1, s->qkv, err) ||
                 split_qkv(p, false, err)
             ? -1
             : 0;
}

static int qkv_dgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return split_qkv(p, true, err) || linear_dgrad(p, s->rows, &layer_of(p)->qkv, s->qkv, s->dnormed, err) ? -1 : 0;
}

static int qkv_wgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_wgrad(p, s->rows, &layer_of(p)->qkv, activations_1d(p)->normed_1, s->qkv, err);
}

static int turn(struct player *p, struct err *err) {
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  struct operator_call c = {.kind = OPERATOR_ROPE,
                            .rope = {.rows = s->rows,
                                     .heads = m->heads,
                                     .head_dim = m->head_dim,
                                     .base = ROPE_BASE,
                                     .inverse = p->backward,
                                     .max_position = s->longest,
                                     .positions = s->position,
                                     .x = s->local_q}};
  if (m->learned_positions || run_operator(p, c, err))
    return m->learned_positions ? 0 : -1;
  c.rope.heads = m->kv_heads;
  c.rope.x = s->local_k;
  return run_operator(p, c, err);
}

/* Norms of q and k, where the model has them, then the turn by position. */
static int rope(struct player *p, struct err *err) {
  const struct transformer *m = p->model;
  struct state_1d *s = state_1d(p);
  const struct layer *t = layer_of(p);
  struct activations *a = activations_1d(p);
  int64_t q = s->rows * m->heads, k = s->rows * m->kv_heads;
  if (!m->qk_norm)
    return turn(p, err);
  if (p->backward)
    return turn(p, err) || norm_backward(p, q, &t->q_norm, a->raw_q, &a->q_norm, s->local_q, s->local_q, err) ||
                   norm_backward(p, k, &t->k_norm, a->raw_k, &a->k_norm, s->local_k, s->local_k, err)
               ? -1
               : 0;
  return norm_forward(p, q, &t->q_norm, a->raw_q, s->local_q, &a->q_norm, err) ||
                 norm_forward(p, k, &t->k_norm, a->raw_k, s->local_k, &a->k_norm, err) || turn(p, err)
             ? -1
             : 0;
}

static int attn_out(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_forward(p, s->rows, &layer_of(p)->attn_out, activations_1d(p)->attn, s->projected, err);
}

static int attn_out_dgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_dgrad(p, s->rows, &layer_of(p)->attn_out, s->dx, s->dattn, err);
}

static int attn_out_wgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_wgrad(p, s->rows, &layer_of(p)->attn_out, activations_1d(p)->attn, s->dx, err);
}

static int residual_norm(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct activations *a = activations_1d(p);
  const struct norm *n = &layer_of(p)->norm_2;
  if (p->backward)
    return norm_and_around(p, n, a->middle, &a->norm_2, err);
  return run_residual(p, s->rows * p->model->hidden, s->input[p->layer], s->projected, a->middle, err) ||
                 norm_forward(p, s->rows, n, a->middle, a->normed_2, &a->norm_2, err)
             ? -1
             : 0;
}

static int mlp_up(struct player *p, struct err *err) {
  struct activations *a = activations_1d(p);
  return linear_forward(p, state_1d(p)->rows, &layer_of(p)->mlp_up, a->normed_2, a->up, err);
}

static int mlp_up_dgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_dgrad(p, s->rows, &layer_of(p)->mlp_up, s->dup, s->dnormed, err);
}

static int mlp_up_wgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_wgrad(p, s->rows, &layer_of(p)->mlp_up, activations_1d(p)->normed_2, s->dup, err);
}

static int activation(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct activations *a = activations_1d(p);
  return p->backward ? activation_backward(p, s->rows, a->up, s->dact, s->dup, err)
                     : activation_forward(p, s->rows, a->up, a->act, err);
}

static int mlp_down(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_forward(p, s->rows, &layer_of(p)->mlp_down, activations_1d(p)->act, s->projected, err);
}

static int mlp_down_dgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_dgrad(p, s->rows, &layer_of(p)->mlp_down, s->dx, s->dact, err);
}

static int mlp_down_wgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_wgrad(p, s->rows, &layer_of(p)->mlp_down, activations_1d(p)->act, s->dx, err);
}

/* The gradient runs on through both branches: nothing to compute backward. */
static int residual(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  if (p->backward)
    return 0;
  return run_residual(p, s->rows * p->model->hidden, activations_1d(p)->middle, s->projected, s->input[p->layer + 1],
                      err);
}

/* ---- before and after the layers ---- */

static struct operator_call embedding_call(struct player *p, enum operator_kind kind) {
  struct state_1d *s = state_1d(p);
  return (struct operator_call){.kind = kind,
                                .embedding = {.rows = s->rows,
                                              .width = p->model->hidden,
                                              .tokens = s->token,
                                              .positions = s->positions_table >= 0 ? s->position : NULL}};
}

static int embedding(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct operator_call c = embedding_call(p, OPERATOR_EMBEDDING_FORWARD);
  c.embedding.out = s->input[0];
  c.embedding.table = weights_elements(&p->weights, s->embedding);
  if (s->positions_table >= 0)
    c.embedding.position_table = weights_elements(&p->weights, s->positions_table);
  return run_operator(p, c, err);
}

static int embedding_backward(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  struct operator_call c = embedding_call(p, OPERATOR_EMBEDDING_BACKWARD);
  c.embedding.dout = s->dx;
  c.embedding.dtable = weights_grad(&p->weights, s->embedding);
  if (s->positions_table >= 0)
    c.embedding.dposition_table = weights_grad(&p->weights, s->positions_table);
  return run_operator(p, c, err);
}

static int final_norm(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return norm_forward(p, s->rows, &s->final_norm, s->input[p->model->layers], s->normed, &s->final_rows, err);
}

static int final_norm_backward(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return norm_backward(p, s->rows, &s->final_norm, s->input[p->model->layers], &s->final_rows, s->dnormed, s->dx, err);
}

static int head(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_forward(p, s->rows, &s->head, s->normed, s->logits, err);
}

/* Loss and its gradient. Inside a micro-batch every real token weighs the same. */
static int cross_entropy(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  double per_token = p->mb->weight / (double)s->real_tokens;
  struct operator_call c = {.kind = OPERATOR_CROSS_ENTROPY_FORWARD,
                            .cross_entropy = {.rows = s->rows,
                                              .vocab = p->model->vocab,
                                              .x = s->logits,
                                              .targets = s->target,
                                              .loss = s->loss,
                                              .lse = s->lse,
                                              .scale = (float)per_token,
                                              .dx = s->logits}};
  double sum;
  if (run_operator(p, c, err) || sum_losses(p, s->loss, s->rows, &sum, err))
    return -1;
  p->loss += per_token * sum;
  c.kind = OPERATOR_CROSS_ENTROPY_BACKWARD;
  return run_operator(p, c, err);
}

static int head_dgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_dgrad(p, s->rows, &s->head, s->logits, s->dnormed, err);
}

static int head_wgrad(struct player *p, struct err *err) {
  struct state_1d *s = state_1d(p);
  return linear_wgrad(p, s->rows, &s->head, s->normed, s->logits, err);
}

/* Of what the program counts: weight gradients are accumulated in fp32 by their GEMMs, and gathered weights lie as
 * they are used. */
static int nothing(struct player *p, struct err *err) {
  (void)p;
  (void)err;
  return 0;
}

static const struct action layers[] = {
    {"embedding", embedding},
    {"norm", norm},
    {"qkv", qkv},
    {"rope", rope},
    {"ring_kv", attention_1d_ring_kv},
    {"sp_qkv", attention_1d_sp_qkv},
    {"attention", attention_1d_forward},
    {"sp_out", attention_1d_sp_out},
    {"attn_out", attn_out},
    {"residual_norm", residual_norm},
    {"mlp_up", mlp_up},
    {"activation", activation},
    {"mlp_down", mlp_down},
    {"residual", residual},
    {"final_norm", final_norm},
    {"head", head},
    {"cross_entropy", cross_entropy},
    {"head_dgrad", head_dgrad},
    {"head_wgrad", head_wgrad},
    {"final_norm_backward", final_norm_backward},
    {"mlp_down_dgrad", mlp_down_dgrad},
    {"mlp_down_wgrad", mlp_down_wgrad},
    {"mlp_up_dgrad", mlp_up_dgrad},
    {"mlp_up_wgrad", mlp_up_wgrad},
    {"attn_out_dgrad", attn_out_dgrad},
    {"attn_out_wgrad", attn_out_wgrad},
    {"sp_out_grad", attention_1d_sp_out_grad},
    {"attention_backward", attention_1d_backward},
    {"sp_qkv_grad", attention_1d_sp_qkv_grad},
    {"qkv_dgrad", qkv_dgrad},
    {"qkv_wgrad", qkv_wgrad},
    {"embedding_backward", embedding_backward},
    {"gradient_copy", nothing},
    {"weight_copy", nothing},
    {NULL, NULL},
};

/* Of the head at the turn, of a layer inside a backward loop, of the rest at the end. */
static int range(const struct player *p) {
  const struct state_1d *s = state_1d(p);
  if (p->place == SECTION_BACKWARD)
    return 1 + p->layer;
  return p->place == SECTION_TURN ? s->range_head : s->range_rest;
}

/* The rest, then one layer ahead: the head behind the last one, and back. */
static int gather_range(const struct player *p) {
  const struct state_1d *s = state_1d(p);
  const int last = (int)p->model->layers;
  switch (p->place) {
  case SECTION_BEFORE:
    return p->gathered == 0 ? s->range_rest : 1;
  case SECTION_FORWARD:
    return p->layer + 1 < last ? 1 + p->layer + 1 : s->range_head;
  case SECTION_TURN:
    return last;
  default:
    return p->layer;
  }
}

static const struct action *const actions[] = {layers, NULL};

const struct model_actions model_1d = {.build = build,
                                       .measure = layout_1d_measure,
                                       .lay_out = layout_1d,
                                       .fill = layout_1d_fill,
                                       .release = release,
                                       .range = range,
                                       .gather_range = gather_range,
                                       .actions = actions};
