#include "sim/execute/player.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#include "sim/base/units.h"

#define ALIGN_BYTES 256
#define NORM_EPS 1e-5f

void *arena_take(struct arena *a, size_t bytes) {
  size_t at = a->used;
  a->used = size_add(at, size_mul((bytes + ALIGN_BYTES - 1) / ALIGN_BYTES, ALIGN_BYTES));
  return a->used <= a->capacity ? (char *)a->memory + at : NULL;
}

size_t arena_needs(struct player *p, void (*lay_out)(struct player *p)) {
  p->arena.used = 0;
  lay_out(p);
  return p->arena.used;
}

int arena_fit(struct player *p, void (*lay_out)(struct player *p), struct err *err) {
  struct arena *a = &p->arena;
  size_t needed = arena_needs(p, lay_out);
  if (needed <= a->capacity)
    return 0;
  a->capacity = 0;
  if (device_resize(p->device, &a->memory, needed, err))
    return err_prefix(err,
                      "activations of %lld sample%s take %zu bytes beside %lld of weights, gradients and optimizer",
                      (long long)p->mb->batch, p->mb->batch == 1 ? "" : "s", needed, (long long)p->weights.bytes);
  a->capacity = needed;
  a->used = 0;
  lay_out(p);
  return 0;
}

void *take(struct player *p, int64_t rows, int64_t width) {
  return arena_take(&p->arena, size_mul((size_t)rows, (size_t)width * element_bytes(p->device->kind->element)));
}

void *take_fp32(struct player *p, int64_t n) { return arena_take(&p->arena, size_mul((size_t)n, sizeof(float))); }

int run_operator(struct player *p, struct operator_call call, struct err *err) {
  return device_run(p->device, &call, err);
}

/* ---- linear layers ---- */

static int add_tensor(struct weights *w, int64_t n, const char *name, const char *end) {
  return weights_add(w, n, "%s%s", name, end);
}

struct linear linear_add(struct weights *w, int64_t in, int64_t out, bool bias, const char *fmt, ...) {
  char name[32];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(name, sizeof name, fmt, ap);
  va_end(ap);
  struct linear l = {.in = in, .out = out, .bias = -1};
  l.weight = add_tensor(w, in * out, name, "");
  if (bias)
    l.bias = add_tensor(w, out, name, "_bias");
  return l;
}

/* Elements of a tensor, NULL of none. */
static void *elements_of(struct player *p, int tensor) {
  return tensor < 0 ? NULL : weights_elements(&p->weights, tensor);
}

static void *grad_of(struct player *p, int tensor) { return tensor < 0 ? NULL : weights_grad(&p->weights, tensor); }

int linear_forward(struct player *p, int64_t rows, const struct linear *l, const void *x, void *y, struct err *err) {
  return run_operator(p,
                      (struct operator_call){.kind = OPERATOR_GEMM,
                                             .gemm = {.m = rows,
                                                      .n = l->out,
                                                      .k = l->in,
                                                      .b_transposed = true,
                                                      .a = x,
                                                      .b = elements_of(p, l->weight),
                                                      .bias = elements_of(p, l->bias),
                                                      .c = y}},
                      err);
}

int linear_dgrad(struct player *p, int64_t rows, const struct linear *l, const void *dy, void *dx, struct err *err) {
  return run_operator(
      p,
      (struct operator_call){
          .kind = OPERATOR_GEMM,
          .gemm = {.m = rows, .n = l->in, .k = l->out, .a = dy, .b = elements_of(p, l->weight), .c = dx}},
      err);
}

int linear_wgrad(struct player *p, int64_t rows, const struct linear *l, const void *x, const void *dy,
                 struct err *err) {
  struct operator_call weight = {.kind = OPERATOR_GEMM,
                                 .gemm = {.m = l->out,
                                          .n = l->in,
                                          .k = rows,
                                          .a_transposed = true,
                                          .accumulate = true,
                                          .c_fp32 = true,
                                          .a = dy,
                                          .b = x,
                                          .c = grad_of(p, l->weight)}};
  struct operator_call bias = {.kind = OPERATOR_BIAS_BACKWARD,
                               .bias = {.rows = rows, .width = l->out, .dy = dy, .dbias = grad_of(p, l->bias)}};
  return run_operator(p, weight, err) || (l->bias >= 0 && run_operator(p, bias, err)) ? -1 : 0;
}

/* ---- norms ---- */

struct norm norm_add(struct weights *w, int64_t width, bool layer, const char *fmt, ...) {
  char name[32];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(name, sizeof name, fmt, ap);
  va_end(ap);
  struct norm n = {.layer = layer, .width = width, .bias = -1};
  n.weight = add_tensor(w, width, name, "_norm");
  if (layer)
    n.bias = add_tensor(w, width, name, "_norm_bias");
  return n;
}

static struct operator_call norm_call(struct player *p, int64_t rows, const struct norm *n, const void *x,
                                      const struct norm_rows *left) {
  if (n->layer)
    return (struct operator_call){.kind = OPERATOR_LAYERNORM_FORWARD,
                                  .layernorm = {.rows = rows,
                                                .width = n->width,
                                                .eps = NORM_EPS,
                                                .x = x,
                                                .weight = elements_of(p, n->weight),
                                                .bias = elements_of(p, n->bias),
                                                .mean = left->mean,
                                                .rstd = left->rstd}};
  return (struct operator_call){.kind = OPERATOR_RMSNORM_FORWARD,
                                .rmsnorm = {.rows = rows,
                                            .width = n->width,
                                            .eps = NORM_EPS,
                                            .x = x,
                                            .weight = elements_of(p, n->weight),
                                            .rstd = left->rstd}};
}

int norm_forward(struct player *p, int64_t rows, const struct norm *n, const void *x, void *y,
                 const struct norm_rows *left, struct err *err) {
  struct operator_call c = norm_call(p, rows, n, x, left);
  *(n->layer ? &c.layernorm.y : &c.rmsnorm.y) = y;
  return run_operator(p, c, err);
}

int norm_backward(struct player *p, int64_t rows, const struct norm *n, const void *x, const struct norm_rows *left,
                  const void *dy, void *dx, struct err *err) {
  struct operator_call c = norm_call(p, rows, n, x, left);
  if (n->layer) {
    c.kind = OPERATOR_LAYERNORM_BACKWARD;
    c.layernorm.dy = dy;
    c.layernorm.dx = dx;
    c.layernorm.dweight = grad_of(p, n->weight);
    c.layernorm.dbias = grad_of(p, n->bias);
  } else {
    c.kind = OPERATOR_RMSNORM_BACKWARD;
    c.rmsnorm.dy = dy;
    c.rmsnorm.dx = dx;
    c.rmsnorm.dweight = grad_of(p, n->weight);
  }
  return run_operator(p, c, err);
}

/* ---- the activation of an MLP ---- */

static int run_activation(struct player *p, bool backward, int64_t rows, const void *x, void *y, const void *dy,
                          void *dx, struct err *err) {
  const struct transformer *m = p->model;
  struct operator_call c = {.kind = backward ? OPERATOR_GELU_BACKWARD : OPERATOR_GELU_FORWARD};
  if (m->mlp_matrices == 3) {
    c.kind = backward ? OPERATOR_SWIGLU_BACKWARD : OPERATOR_SWIGLU_FORWARD;
    c.swiglu = (struct swiglu_call){rows, m->ffn, x, y, dy, dx};
  } else {
    c.gelu = (struct gelu_call){rows * m->ffn, x, y, dy, dx};
  }
  return run_operator(p, c, err);
}

int activation_forward(struct player *p, int64_t rows, const void *x, void *y, struct err *err) {
  return run_activation(p, false, rows, x, y, NULL, NULL, err);
}

int activation_backward(struct player *p, int64_t rows, const void *x, const void *dy, void *dx, struct err *err) {
  return run_activation(p, true, rows, x, NULL, dy, dx, err);
}

/* ---- copies, sums, exchanges ---- */

int run_copy(struct player *p, struct copy_call call, struct err *err) {
  for (int i = 0; i < 3; i++)
    call.extent[i] = call.extent[i] ? call.extent[i] : 1;
  return run_operator(p, (struct operator_call){.kind = OPERATOR_COPY, .copy = call}, err);
}

int copy_whole(struct player *p, const void *src, void *dst, int64_t n, struct err *err) {
  return run_copy(p, (struct copy_call){.width = n, .src = src, .dst = dst}, err);
}

int clear_fp32(struct player *p, void *x, int64_t n, struct err *err) {
  return run_operator(p, (struct operator_call){.kind = OPERATOR_CLEAR, .clear = {n, x}}, err);
}

/* Places are whole numbers of fp32, so that half of one more zero does no harm. */
int clear_elements(struct player *p, void *x, int64_t n, struct err *err) {
  return clear_fp32(p, x, ceil_div(n * (int64_t)element_bytes(p->device->kind->element), sizeof(float)), err);
}

int run_exchange(struct player *p, struct communicator *among, const void *send, void *recv, int64_t count,
                 struct err *err) {
  struct communicator_call call = {
      .op = COMMUNICATOR_ALL_TO_ALL, .element = p->device->kind->element, .send = send, .recv = recv, .count = count};
  return communicator_run(among, &call, err);
}

int run_residual(struct player *p, int64_t n, const void *a, const void *b, void *y, struct err *err) {
  return run_operator(p, (struct operator_call){.kind = OPERATOR_RESIDUAL, .residual = {n, a, b, y}}, err);
}

int add_vector(struct player *p, int64_t rows, int64_t width, const void *x, int tensor, void *y, struct err *err) {
  struct operator_call c = {
      .kind = OPERATOR_BIAS_FORWARD,
      .bias = {.rows = rows, .width = width, .x = x, .bias = weights_elements(&p->weights, tensor), .y = y}};
  return run_operator(p, c, err);
}

int add_rows(struct player *p, int64_t rows, int64_t width, const void *dy, void *into, struct err *err) {
  struct operator_call c = {.kind = OPERATOR_BIAS_BACKWARD,
                            .bias = {.rows = rows, .width = width, .dy = dy, .dbias = into}};
  return run_operator(p, c, err);
}

int to_elements(struct player *p, int64_t n, const void *fp32, void *elements, struct err *err) {
  struct operator_call c = {.kind = OPERATOR_CAST, .cast = {.n = n, .scale = 1, .src = fp32, .dst = elements}};
  return run_operator(p, c, err);
}

void *element_at(const struct player *p, const void *elements, int64_t i) {
  return (char *)elements + (size_t)i * element_bytes(p->device->kind->element);
}

int sum_losses(struct player *p, const void *loss, int64_t n, double *sum, struct err *err) {
  float *host = xmalloc(size_mul((size_t)n, sizeof *host));
  int rc = device_copy(p->device, host, loss, (size_t)n * sizeof *host, err);
  *sum = 0;
  for (int64_t i = 0; rc == 0 && i < n; i++)
    *sum += host[i];
  free(host);
  return rc == 0 && !isfinite(*sum) ? err_set(err, "the loss is not a number") : rc;
}

/* SplitMix64 (Steele, Lea and Flood 2014): every place has its own value, whoever asks. */
static uint64_t mix(uint64_t seed, uint32_t id, int64_t at) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + ((uint64_t)id << 32) + (uint64_t)at;
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

int32_t data_token(uint64_t seed, uint32_t id, int64_t at, int64_t vocab) {
  return (int32_t)(mix(seed, id, at) % (uint64_t)vocab);
}

float data_number(uint64_t seed, uint32_t id, int what, int64_t at) {
  return (float)((double)(mix(mix(seed, id, what), id, at) >> 11) * 0x1p-52 - 1);
}
