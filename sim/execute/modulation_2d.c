/* modulation_2d.c: norms whose rows are modulated, and gates, both by what the timestep gives each sample. */
#include "sim/execute/state_2d.h"

static void *part_of(const struct player *p, void *modulation, enum part part) {
  return element_at(p, modulation, part * p->model->hidden);
}
static void *grad_part_of(const struct player *p, enum part part) {
  return (float *)state_2d(p)->dmodulation + part * p->model->hidden;
}

struct operator_call modulation_2d_call(struct player *p, int64_t stride, void *shift, void *scale, const void *x) {
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

int modulation_2d_norm(struct player *p, const void *x, struct norm_rows *left, void *normed, enum part shift, void *y,
                       struct err *err) {
  struct norm n = plain_norm(p);
  void *modulation = saved_of(p)->modulation;
  struct operator_call c =
      modulation_2d_call(p, PARTS * n.width, part_of(p, modulation, shift), part_of(p, modulation, shift + 1), normed);
  c.modulate.y = y;
  return norm_forward(p, state_2d(p)->rows, &n, x, normed, left, err) || run_operator(p, c, err) ? -1 : 0;
}

int modulation_2d_norm_backward(struct player *p, const void *x, struct norm_rows *left, void *normed, enum part shift,
                                struct err *err) {
  struct state_2d *s = state_2d(p);
  struct norm n = plain_norm(p);
  void *modulation = saved_of(p)->modulation;
  struct operator_call c =
      modulation_2d_call(p, PARTS * n.width, part_of(p, modulation, shift), part_of(p, modulation, shift + 1), normed);
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

int modulation_2d_gate(struct player *p, enum part gate, const void *x, const void *residual, void *y,
                       struct err *err) {
  struct operator_call c = gate_call(p, gate, x);
  c.gate.residual = residual;
  c.gate.y = y;
  return run_operator(p, c, err);
}

int modulation_2d_gate_backward(struct player *p, enum part gate, const void *x, struct err *err) {
  struct operator_call c = gate_call(p, gate, x);
  c.kind = OPERATOR_GATE_BACKWARD;
  c.gate.dy = state_2d(p)->dx;
  c.gate.dx = state_2d(p)->dlocal;
  c.gate.dgate = grad_part_of(p, gate);
  return run_operator(p, c, err);
}

int modulation_2d_end(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  int64_t batch = p->mb->batch, width = PARTS * p->model->hidden;
  return to_elements(p, batch * width, s->dmodulation, s->dmodulation_e, err) ||
                 add_rows(p, batch, width, s->dmodulation_e, weights_grad(&p->weights, block_of(p)->table), err) ||
                 add_rows(p, 1, batch * width, s->dmodulation_e, s->dtime_6, err)
             ? -1
             : 0;
}
