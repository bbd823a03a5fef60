#include "calib/measure_collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"

enum { GATHER_MAX = 4, CHECK_ELEMENTS = 96, CALLS_MAX = 100 };
#define REPETITION_S 2e-3 /* calls follow each other up to this, as nccl-tests does */

void collective_buffers_release(struct collective_buffers *b, struct device *device) {
  device_resize(device, &b->send, 0, NULL);
  device_resize(device, &b->recv, 0, NULL);
  device_resize(device, &b->small, 0, NULL);
}

int collective_gather(struct communicator *c, struct collective_buffers *b, const float *v, int n, float *all,
                      struct err *err) {
  ASSERT(n <= GATHER_MAX);
  if (!b->small && device_resize(c->device, &b->small, (size_t)(c->ranks + 1) * GATHER_MAX * sizeof *v, err))
    return -1;
  float *to = (float *)b->small + GATHER_MAX;
  const struct communicator_call call = {
      .op = COMMUNICATOR_ALL_GATHER, .element = ELEMENT_FP32, .send = b->small, .recv = to, .count = n};
  return device_copy(c->device, b->small, v, (size_t)n * sizeof *v, err) || communicator_run(c, &call, err) ||
                 device_copy(c->device, all, to, (size_t)(n * c->ranks) * sizeof *v, err)
             ? -1
             : 0;
}

static struct communicator_call call_of(const struct communicator *c, const struct collective_buffers *b,
                                        enum row_op op, int64_t bytes) {
  static const enum communicator_op ops[ROW_OPS] = {
      [ROW_OP_ALL_REDUCE] = COMMUNICATOR_ALL_REDUCE,         [ROW_OP_ALL_GATHER] = COMMUNICATOR_ALL_GATHER,
      [ROW_OP_REDUCE_SCATTER] = COMMUNICATOR_REDUCE_SCATTER, [ROW_OP_ALL_TO_ALL] = COMMUNICATOR_ALL_TO_ALL,
      [ROW_OP_SEND_RECV] = COMMUNICATOR_SEND_RECV,
  };
  const enum element_type element = c->device->kind->element;
  int64_t count = bytes / (int64_t)element_bytes(element);
  if (op == ROW_OP_ALL_GATHER || op == ROW_OP_REDUCE_SCATTER || op == ROW_OP_ALL_TO_ALL)
    count /= c->ranks;
  return (struct communicator_call){
      .op = ops[op], .element = element, .send = b->send, .recv = b->recv, .count = count, .shift = 1 % c->ranks};
}

static int resize(struct communicator *c, struct collective_buffers *b, enum row_op op, int64_t bytes,
                  struct err *err) {
  if (device_resize(c->device, &b->send, (size_t)bytes, err) || device_resize(c->device, &b->recv, (size_t)bytes, err))
    return err_prefix(err, "rank %d of %d: %s of %lld bytes", c->rank, c->ranks, row_op_name(op), (long long)bytes);
  return 0;
}

/* ---- Check ---- */

/* What rank r sends at place i: whole numbers whose sums bf16 still holds. */
static float sent(int ranks, int r, int64_t i) {
  const int64_t most = int64_max(2, int64_min(13, 255 / ranks));
  return (float)((3 * r + i) % most);
}

static float expected(const struct communicator *c, enum row_op op, int64_t count, int64_t j) {
  float sum = 0;
  const int64_t at = op == ROW_OP_REDUCE_SCATTER ? c->rank * count + j : j;
  switch (op) {
  case ROW_OP_ALL_GATHER:
    return sent(c->ranks, (int)(j / count), j % count);
  case ROW_OP_ALL_TO_ALL:
    return sent(c->ranks, (int)(j / count), c->rank * count + j % count);
  case ROW_OP_SEND_RECV:
    return sent(c->ranks, (c->rank + c->ranks - 1) % c->ranks, j);
  default: /* sums */
    for (int r = 0; r < c->ranks; r++)
      sum += sent(c->ranks, r, at);
    return sum;
  }
}

int collective_check(struct communicator *c, struct collective_buffers *b, enum row_op op,
                     int (*run)(struct communicator *, const struct communicator_call *, struct err *), bool *exact,
                     struct err *err) {
  const int64_t n = (int64_t)CHECK_ELEMENTS * c->ranks;
  const int64_t element = (int64_t)element_bytes(c->device->kind->element);
  float *host = xcalloc((size_t)n, sizeof *host), *all = xcalloc((size_t)c->ranks, sizeof *all), wrong = 0;
  int rc = resize(c, b, op, n * element, err);
  if (rc)
    goto out;
  const struct communicator_call call = call_of(c, b, op, n * element);
  for (int64_t i = 0; i < n; i++)
    host[i] = sent(c->ranks, c->rank, i);
  rc = device_upload(c->device, b->send, host, (size_t)n, err);
  for (int64_t i = 0; i < n; i++)
    host[i] = NAN;
  if (rc || (rc = device_upload(c->device, b->recv, host, (size_t)n, err)) || (rc = run(c, &call, err)) ||
      (rc = device_download(c->device, host, b->recv, (size_t)n, err)))
    goto out;
  const int64_t received = op == ROW_OP_REDUCE_SCATTER ? call.count : n;
  for (int64_t j = 0; j < received; j++)
    wrong += !(host[j] == expected(c, op, call.count, j));
  rc = collective_gather(c, b, &wrong, 1, all, err);
  *exact = true;
  for (int r = 0; r < c->ranks && rc == 0; r++)
    *exact = *exact && all[r] == 0;
out:
  free(host);
  free(all);
  return rc ? -1 : 0;
}

/* ---- Time ---- */

static int time_calls(struct communicator *c, const struct communicator_call *call, int calls, double *time_s,
                      struct err *err) {
  const struct communicator_call barrier = {.op = COMMUNICATOR_BARRIER};
  if (communicator_run(c, &barrier, err) || device_wait(c->device, NULL, err))
    return -1;
  for (int i = 0; i < calls; i++)
    if (communicator_run(c, call, err))
      return -1;
  if (device_wait(c->device, time_s, err))
    return -1;
  *time_s /= calls;
  return 0;
}

struct timing {
  double time_s, spent_s;
  bool interrupted, stop;
};

/* The slowest member's time, and whether any was interrupted; what the first member spent, and whether it is to stop,
 * decide for all. */
static int agree(struct communicator *c, struct collective_buffers *b, struct timing *t, struct err *err) {
  const float v[4] = {(float)t->time_s, (float)t->spent_s, t->interrupted, t->stop};
  float *all = xcalloc((size_t)c->ranks, sizeof v);
  int rc = collective_gather(c, b, v, 4, all, err);
  *t = (struct timing){0, (double)all[1], false, all[3] != 0};
  for (int r = 0; r < c->ranks && rc == 0; r++) {
    t->time_s = fmax(t->time_s, (double)all[4 * r]);
    t->interrupted = t->interrupted || all[4 * r + 2] != 0;
  }
  free(all);
  return rc;
}

int collective_time(struct communicator *c, struct collective_buffers *b, const struct collective_shape *shape,
                    const struct measure_options *options, struct repeats *out, struct err *err) {
  struct timing t = {0, 0, false, false};
  out->n = 0;
  out->spent_s = 0;
  if (resize(c, b, shape->op, shape->bytes, err))
    return -1;
  const struct communicator_call call = call_of(c, b, shape->op, shape->bytes);
  const struct operator_call clear = {.kind = OPERATOR_CLEAR, .clear = {shape->bytes / 4, b->send}};
  if (device_run(c->device, &clear, err))
    return -1;
  for (int warm = 0; warm < 3; warm++)
    if (time_calls(c, &call, 1, &t.time_s, err))
      return -1;
  if (agree(c, b, &t, err))
    return -1;
  const int calls = (int)fmin(CALLS_MAX, fmax(1, ceil(REPETITION_S / fmax(t.time_s, 1e-9))));
  while (!repeats_enough(out, options->confidence_frac, options->shape_limit_s) && (!t.stop || out->n == 0)) {
    const int64_t begin_ns = wall_clock_ns();
    const long before = repeats_interruptions();
    if (time_calls(c, &call, calls, &t.time_s, err))
      return -1;
    t.interrupted = repeats_interruptions() != before;
    t.spent_s = s_from_ns(wall_clock_ns() - begin_ns);
    t.stop = options->stop && atomic_load(options->stop);
    if (agree(c, b, &t, err))
      return -1;
    repeats_add(out, fmax(t.time_s, 1e-9), t.spent_s, t.interrupted);
  }
  return 0;
}
