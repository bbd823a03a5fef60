#include "sim/execute/player.h"

#include "sim/base/units.h"

#define ALIGN_BYTES 256

void *arena_take(struct arena *a, size_t bytes) {
  size_t at = a->used;
  a->used = size_add(at, size_mul((bytes + ALIGN_BYTES - 1) / ALIGN_BYTES, ALIGN_BYTES));
  return a->used <= a->capacity ? (char *)a->memory + at : NULL;
}

int run_operator(struct player *p, struct operator_call call, struct err *err) {
  return device_run(p->device, &call, err);
}

int linear_forward(struct player *p, int64_t rows, int64_t in, int64_t out, const void *x, int weight, void *y,
                   struct err *err) {
  return run_operator(p,
                      (struct operator_call){.kind = OPERATOR_GEMM,
                                             .gemm = {.m = rows,
                                                      .n = out,
                                                      .k = in,
                                                      .b_transposed = true,
                                                      .a = x,
                                                      .b = weights_elements(&p->weights, weight),
                                                      .c = y}},
                      err);
}

int linear_dgrad(struct player *p, int64_t rows, int64_t in, int64_t out, const void *dy, int weight, void *dx,
                 struct err *err) {
  return run_operator(
      p,
      (struct operator_call){
          .kind = OPERATOR_GEMM,
          .gemm = {.m = rows, .n = in, .k = out, .a = dy, .b = weights_elements(&p->weights, weight), .c = dx}},
      err);
}

int linear_wgrad(struct player *p, int64_t rows, int64_t in, int64_t out, const void *x, const void *dy, int weight,
                 struct err *err) {
  return run_operator(p,
                      (struct operator_call){.kind = OPERATOR_GEMM,
                                             .gemm = {.m = out,
                                                      .n = in,
                                                      .k = rows,
                                                      .a_transposed = true,
                                                      .accumulate = true,
                                                      .c_fp32 = true,
                                                      .a = dy,
                                                      .b = x,
                                                      .c = weights_grad(&p->weights, weight)}},
                      err);
}

int run_copy(struct player *p, struct copy_call call, struct err *err) {
  for (int i = 0; i < 3; i++)
    call.extent[i] = call.extent[i] ? call.extent[i] : 1;
  return run_operator(p, (struct operator_call){.kind = OPERATOR_COPY, .copy = call}, err);
}

int run_exchange(struct player *p, const void *send, void *recv, int64_t count, struct err *err) {
  struct communicator_call call = {
      .op = COMMUNICATOR_ALL_TO_ALL, .element = p->device->kind->element, .send = send, .recv = recv, .count = count};
  return communicator_run(p->group, &call, err);
}

int run_residual(struct player *p, int64_t n, const void *a, const void *b, void *y, struct err *err) {
  return run_operator(p, (struct operator_call){.kind = OPERATOR_RESIDUAL, .residual = {n, a, b, y}}, err);
}

void *element_at(const struct player *p, const void *elements, int64_t i) {
  return (char *)elements + (size_t)i * element_bytes(p->device->kind->element);
}

/* SplitMix64 (Steele, Lea and Flood 2014): every place has its own value, whoever asks. */
int32_t data_token(uint64_t seed, uint32_t id, int64_t at, int64_t vocab) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + ((uint64_t)id << 32) + (uint64_t)at;
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return (int32_t)(x % (uint64_t)vocab);
}
