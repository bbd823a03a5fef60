/* actions_2d.c: what the operations of the video transformer do (sim/plan/lower_2d.c names them; framework "fused").
 * STDiT3: pairs of a spatial and a temporal block, each norm, modulate, attention, gate; cross-attention to the
 * caption; norm, modulate, MLP, gate. Its fixed position table adds no operation and is left out.
 * Here are the tensors and a block's MLP; attention_2d.c has its attention, outside_2d.c what is no block. */
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/execute/state_2d.h"

/* ---- tensors ---- */

static void build_block(struct player *p, struct block *b, enum module module, int l) {
  const struct transformer *m = p->model;
  struct weights *w = &p->weights;
  const char *name = module == SPATIAL ? "spatial" : "temporal";
  const int64_t h = m->hidden;
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

/* Zero 3 gathers and reduces pairs of blocks, otherwise each block is reduced alone. */
static bool by_pairs(const struct player *p) { return p->options->zero == 3; }

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
  weights_add_range(w, true);
  s->patch = linear_add(w, m->in_channels, m->hidden, true, "patch_embed");
  build_embedder(p, &s->time, m->frequency_dim, "time");
  build_embedder(p, &s->rate, m->frequency_dim, "rate");
  build_embedder(p, &s->caption, m->text_channels, "caption");
  s->modulation = linear_add(w, m->hidden, PARTS * m->hidden, true, "modulation");
  s->final_table = weights_add(w, 2 * m->hidden, "final_modulation");
  s->final = linear_add(w, m->hidden, m->out_channels, true, "final_layer");
  for (int l = 0; l < m->layers; l++)
    for (int module = 0; module < MODULES; module++) {
      if (module == 0 || !by_pairs(p))
        weights_add_range(w, false);
      build_block(p, &s->blocks[l][module], (enum module)module, l);
    }
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

/* ---- a block's MLP ---- */

static int residual_norm(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  struct saved *a = saved_of(p);
  if (p->backward)
    return modulation_2d_norm_backward(p, a->middle_2, &a->norm_2, a->normed_2, SHIFT_2, err);
  return run_residual(p, s->rows * p->model->hidden, a->middle, s->local, a->middle_2, err) ||
                 modulation_2d_norm(p, a->middle_2, &a->norm_2, a->normed_2, SHIFT_2, a->modulated_2, err)
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
                   modulation_2d_gate_backward(p, GATE_2, a->projected_2, err)
               ? -1
               : 0;
  return modulation_2d_gate(p, GATE_2, a->projected_2, a->middle_2, input_of(p)[1], err);
}

static const struct action mlp[] = {
    {"residual_norm", residual_norm},
    {"mlp_up", mlp_up},
    {"activation", activation},
    {"mlp_down", mlp_down},
    {"mlp_gate", mlp_gate},
    {"mlp_down_dgrad", mlp_down_dgrad},
    {"mlp_down_wgrad", mlp_down_wgrad},
    {"mlp_up_dgrad", mlp_up_dgrad},
    {"mlp_up_wgrad", mlp_up_wgrad},
    {NULL, NULL},
};

/* Inside a backward loop of the block or pair, else of the rest. */
static int range(const struct player *p) {
  if (p->place != SECTION_BACKWARD)
    return 0;
  return 1 + (by_pairs(p) ? p->layer : MODULES * p->layer + (int)module_of(p));
}

/* The rest, then one pair ahead, and back; the last pair is gathered for both ways. */
static int gather_range(const struct player *p) {
  const int pairs = (int)p->model->layers;
  if (p->place == SECTION_BEFORE)
    return p->gathered == 0 ? 0 : 1;
  return p->place == SECTION_FORWARD ? 1 + (p->layer + 1 < pairs ? p->layer + 1 : p->layer) : p->layer;
}

static const struct action *const actions[] = {attention_2d_actions, mlp, outside_2d_actions, NULL};

const struct model_actions model_2d = {.build = build,
                                       .measure = layout_2d_measure,
                                       .lay_out = layout_2d,
                                       .fill = layout_2d_fill,
                                       .release = release,
                                       .range = range,
                                       .gather_range = gather_range,
                                       .actions = actions};
