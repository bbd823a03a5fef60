/* outside_2d.c: what lies before and after the blocks: embedders of patches, timestep and caption; final layer and
 * loss; the gradients of both.
 *
 * Outside the blocks every rank of a group computes all rows. Of the loss each rank takes its own rows, of the patches'
 * gradient too, so that the sum over ranks counts every row once. */
#include "sim/execute/state_2d.h"

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
    struct operator_call c = modulation_2d_call(p, 2 * h, s->final_modulation, element_at(p, s->final_modulation, h),
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
  struct norm n = plain_norm(p);
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
  struct norm n = plain_norm(p);
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

const struct action outside_2d_actions[] = {
    {"host_copy", layout_2d_captions},
    {"patch_embed", patch_embed},
    {"time_embed", time_embed},
    {"modulation", modulation},
    {"caption_embed", caption_embed},
    {"caption_project", caption_project},
    {"sp_gather", sp_gather},
    {"final_norm", final_norm},
    {"final_layer", final_layer},
    {"final_layer_dgrad", final_layer_dgrad},
    {"final_layer_wgrad", final_layer_wgrad},
    {"final_norm_backward", final_norm_backward},
    {"caption_project_dgrad", caption_project_dgrad},
    {"caption_project_wgrad", caption_project_wgrad},
    {"caption_embed_wgrad", caption_embed_wgrad},
    {"patch_embed_wgrad", patch_embed_wgrad},
    {NULL, NULL},
};
