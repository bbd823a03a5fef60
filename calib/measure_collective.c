#include "calib/measure_collective.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"

enum { GATHER_MAX = 4, CHECK_ELEMENTS = 96, CALLS_MAX = 100, BARRIER_TRIES = 10 };
#define REPETITION_S 2e-3 /* calls follow each other up to this, as nccl-tests does */
#define LATE_S 0.03       /* by which a barrier's last rank comes late */

void collective_buffers_release(struct collective_buffers *b, struct device *device) {
  device_resize(device, &b->send, 0, NULL);
  device_resize(device, &b->recv, 0, NULL);
  device_resize(device, &b->small, 0, NULL);
  free(b->counts);
  b->counts = NULL;
  b->members = 0;
}

/* Room for what depends on the number of ranks. */
static int make_room(struct communicator *c, struct collective_buffers *b, struct err *err) {
  if (b->members >= c->ranks)
    return 0;
  b->members = 0;
  if (device_resize(c->device, &b->small, (size_t)(c->ranks + 1) * GATHER_MAX * sizeof(float), err))
    return -1;
  b->counts = xrealloc(b->counts, size_mul((size_t)c->ranks, 2 * sizeof *b->counts));
  b->members = c->ranks;
  return 0;
}

int collective_gather(struct communicator *c, struct collective_buffers *b, const float *v, int n, float *all,
                      struct err *err) {
  ASSERT(n <= GATHER_MAX);
  if (make_room(c, b, err))
    return -1;
  float *to = (float *)b->small + GATHER_MAX;
  const struct communicator_call call = {
      .op = COMMUNICATOR_ALL_GATHER, .element = ELEMENT_FP32, .send = b->small, .recv = to, .count = n};
  return device_copy(c->device, b->small, v, (size_t)n * sizeof *v, err) || communicator_run(c, &call, err) ||
                 device_copy(c->device, all, to, (size_t)(n * c->ranks) * sizeof *v, err)
             ? -1
             : 0;
}

/* What each rank has for rank `to` in an uneven exchange, and where it begins; `count` for an even rank. */
static int64_t uneven_part(int64_t count, int to) { return to % 2 ? count / 2 : count; }
static int64_t uneven_place(int64_t count, int to) { return to / 2 * (count + count / 2) + to % 2 * count; }

static struct communicator_call call_of(const struct communicator *c, const struct collective_buffers *b,
                                        enum row_op op, int64_t bytes) {
  static const enum communicator_op ops[ROW_OPS] = {
      [ROW_OP_ALL_REDUCE] = COMMUNICATOR_ALL_REDUCE,
      [ROW_OP_ALL_GATHER] = COMMUNICATOR_ALL_GATHER,
      [ROW_OP_REDUCE_SCATTER] = COMMUNICATOR_REDUCE_SCATTER,
      [ROW_OP_ALL_TO_ALL] = COMMUNICATOR_ALL_TO_ALL,
      [ROW_OP_SEND_RECV] = COMMUNICATOR_SEND_RECV,
      [ROW_OP_ALL_TO_ALL_UNEVEN] = COMMUNICATOR_ALL_TO_ALL,
      [ROW_OP_BARRIER] = COMMUNICATOR_BARRIER,
  };
  const enum element_type element = c->device->kind->element;
  int64_t count = bytes / (int64_t)element_bytes(element);
  if (op != ROW_OP_ALL_REDUCE && op != ROW_OP_SEND_RECV)
    count /= c->ranks;
  struct communicator_call call = {
      .op = ops[op], .element = element, .send = b->send, .recv = b->recv, .count = count, .shift = 1 % c->ranks};
  for (int i = 0; i < c->ranks && op == ROW_OP_ALL_TO_ALL_UNEVEN; i++) {
    b->counts[i] = uneven_part(count, i);
    b->counts[c->ranks + i] = uneven_part(count, c->rank);
  }
  if (op == ROW_OP_ALL_TO_ALL_UNEVEN) {
    call.send_counts = b->counts;
    call.recv_counts = b->counts + c->ranks;
  }
  return call;
}

static int resize(struct communicator *c, struct collective_buffers *b, enum row_op op, int64_t bytes,
                  struct err *err) {
  if (make_room(c, b, err) || device_resize(c->device, &b->send, (size_t)bytes, err) ||
      device_resize(c->device, &b->recv, (size_t)bytes, err))
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
  const int64_t at = op == ROW_OP_REDUCE_SCATTER ? c->rank * count + j : j, part = uneven_part(count, c->rank);
  switch (op) {
  case ROW_OP_ALL_GATHER:
    return sent(c->ranks, (int)(j / count), j % count);
  case ROW_OP_ALL_TO_ALL:
    return sent(c->ranks, (int)(j / count), c->rank * count + j % count);
  case ROW_OP_ALL_TO_ALL_UNEVEN:
    return sent(c->ranks, (int)(j / part), uneven_place(count, c->rank) + j % part);
  case ROW_OP_SEND_RECV:
    return sent(c->ranks, (c->rank + c->ranks - 1) % c->ranks, j);
  default: /* sums */
    for (int r = 0; r < c->ranks; r++)
      sum += sent(c->ranks, r, at);
    return sum;
  }
}

/* Numbers that this rank got wrong. */
static int wrong_numbers(struct communicator *c, struct collective_buffers *b, enum row_op op,
                         int (*run)(struct communicator *, const struct communicator_call *, struct err *),
                         float *wrong, struct err *err) {
  const int64_t n = (int64_t)CHECK_ELEMENTS * c->ranks;
  const int64_t element = (int64_t)element_bytes(c->device->kind->element);
  if (resize(c, b, op, n * element, err))
    return -1;
  float *host = xcalloc((size_t)n, sizeof *host);
  const struct communicator_call call = call_of(c, b, op, n * element);
  for (int64_t i = 0; i < n; i++)
    host[i] = sent(c->ranks, c->rank, i);
  int rc = device_upload(c->device, b->send, host, (size_t)n, err);
  for (int64_t i = 0; i < n; i++)
    host[i] = NAN;
  if (rc || (rc = device_upload(c->device, b->recv, host, (size_t)n, err)) || (rc = run(c, &call, err)) ||
      (rc = device_download(c->device, host, b->recv, (size_t)n, err)))
    goto out;
  const int64_t received = op == ROW_OP_REDUCE_SCATTER      ? call.count
                           : op == ROW_OP_ALL_TO_ALL_UNEVEN ? c->ranks * uneven_part(call.count, c->rank)
                                                            : n;
  *wrong = 0;
  for (int64_t j = 0; j < received; j++)
    *wrong += !(host[j] == expected(c, op, call.count, j));
out:
  free(host);
  return rc ? -1 : 0;
}

static bool any(const float *v, int n) {
  for (int i = 0; i < n; i++)
    if (v[i] != 0)
      return true;
  return false;
}

/* Whether the barrier let this rank go before the late one was there. A rank that was itself kept from coming in time
 * cannot tell, so one try of several that held is enough. */
static int wrong_barrier(struct communicator *c, struct collective_buffers *b,
                         int (*run)(struct communicator *, const struct communicator_call *, struct err *),
                         float *wrong, struct err *err) {
  const struct communicator_call call = {.op = COMMUNICATOR_BARRIER};
  const struct timespec late = {.tv_nsec = (long)ns_from_s(LATE_S)};
  const bool is_late = c->rank == c->ranks - 1;
  float *all = xcalloc((size_t)c->ranks, sizeof *all);
  int rc = 0;
  *wrong = !is_late;
  for (int i = 0; i < BARRIER_TRIES && rc == 0; i++) {
    if ((rc = collective_gather(c, b, wrong, 1, all, err)) || (i > 0 && !any(all, c->ranks)))
      break;
    const int64_t begin_ns = wall_clock_ns();
    if (is_late)
      nanosleep(&late, NULL);
    rc = run(c, &call, err) || device_wait(c->device, NULL, err) ? -1 : 0;
    if (s_from_ns(wall_clock_ns() - begin_ns) > LATE_S / 2)
      *wrong = 0;
  }
  free(all);
  return rc;
}

int collective_check(const struct collective_ranks *r, struct collective_buffers *b, enum row_op op,
                     int (*run)(struct communicator *, const struct communicator_call *, struct err *), int *wrong,
                     struct err *err) {
  float mine = 0, *all = xcalloc((size_t)r->all->ranks, sizeof *all);
  int rc = op == ROW_OP_BARRIER ? wrong_barrier(r->group, b, run, &mine, err)
                                : wrong_numbers(r->group, b, op, run, &mine, err);
  if (rc == 0)
    rc = collective_gather(r->all, b, &mine, 1, all, err);
  *wrong = -1;
  for (int i = r->all->ranks - 1; i >= 0 && rc == 0; i--)
    if (all[i] != 0)
      *wrong = i;
  free(all);
  return rc;
}

/* ---- Time ---- */

static int time_calls(const struct collective_ranks *r, const struct communicator_call *call, int calls, double *time_s,
                      struct err *err) {
  const struct communicator_call barrier = {.op = COMMUNICATOR_BARRIER};
  struct device *device = r->group->device;
  if (communicator_run(r->all, &barrier, err) || device_wait(device, NULL, err))
    return -1;
  for (int i = 0; i < calls; i++)
    if (communicator_run(r->group, call, err))
      return -1;
  if (device_wait(device, time_s, err))
    return -1;
  *time_s /= calls;
  return 0;
}

struct timing {
  double time_s, spent_s;
  bool interrupted, stop;
};

/* The slowest rank's time, and whether any was interrupted; what the first rank spent, and whether it is to stop,
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

int collective_time(const struct collective_ranks *r, struct collective_buffers *b,
                    const struct collective_shape *shape, const struct measure_options *options, struct repeats *out,
                    struct err *err) {
  struct timing t = {0, 0, false, false};
  struct communicator *group = r->group;
  out->n = 0;
  out->spent_s = 0;
  if (resize(r->all, b, shape->op, shape->bytes, err))
    return -1;
  const struct communicator_call call = call_of(group, b, shape->op, shape->bytes);
  const struct operator_call clear = {.kind = OPERATOR_CLEAR, .clear = {shape->bytes / 4, b->send}};
  if (shape->bytes > 0 && device_run(group->device, &clear, err))
    return -1;
  for (int warm = 0; warm < 3; warm++)
    if (time_calls(r, &call, 1, &t.time_s, err))
      return -1;
  if (agree(r->all, b, &t, err))
    return -1;
  const int calls = (int)fmin(CALLS_MAX, fmax(1, ceil(REPETITION_S / fmax(t.time_s, 1e-9))));
  while (!repeats_enough(out, options->confidence_frac, options->shape_limit_s) && (!t.stop || out->n == 0)) {
    const int64_t begin_ns = wall_clock_ns();
    const long before = repeats_interruptions();
    if (time_calls(r, &call, calls, &t.time_s, err))
      return -1;
    t.interrupted = repeats_interruptions() != before;
    t.spent_s = s_from_ns(wall_clock_ns() - begin_ns);
    t.stop = options->stop && atomic_load(options->stop);
    if (agree(r->all, b, &t, err))
      return -1;
    repeats_add(out, fmax(t.time_s, 1e-9), t.spent_s, t.interrupted);
  }
  return 0;
}
