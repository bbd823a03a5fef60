#include "sim/execute/stand_in.h"

#include <stdlib.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/execute/virtual.h"

struct stand_in {
  struct communicator c;
  struct stand_in *world; /* holds the time to wait */
  double wait_s;
};

static void stand_in_close(struct communicator *c) { free(c); }

static struct stand_in *make(const struct communicator_kind *kind, struct device *device, int rank, int ranks) {
  struct stand_in *s = xcalloc(1, sizeof *s);
  s->c = (struct communicator){.kind = kind, .device = device, .rank = rank, .ranks = ranks};
  s->world = s;
  return s;
}

static int stand_in_split(struct communicator *c, const struct rank_set *set, struct communicator **out,
                          struct err *err) {
  (void)err;
  struct stand_in *s = make(c->kind, c->device, (c->rank - set->first) / set->stride, set->ranks);
  s->world = ((struct stand_in *)c)->world;
  *out = &s->c;
  return 0;
}

static int clear(struct device *device, void *x, size_t bytes, struct err *err) {
  struct operator_call call = {.kind = OPERATOR_CLEAR, .clear = {(int64_t)(bytes / sizeof(float)), x}};
  return device_run(device, &call, err);
}

static int copy_part(struct communicator *c, const struct communicator_call *call, int64_t from, int64_t to,
                     struct err *err) {
  size_t bytes = size_mul((size_t)call->count, element_bytes(call->element));
  return device_copy(c->device, (char *)call->recv + (size_t)to * bytes,
                     (const char *)call->send + (size_t)from * bytes, bytes, err);
}

static int stand_in_run(struct communicator *c, const struct communicator_call *call, struct err *err) {
  struct stand_in *world = ((struct stand_in *)c)->world;
  size_t bytes = size_mul((size_t)call->count, element_bytes(call->element));
  if (device_wait(c->device, NULL, err))
    return -1;
  wait_until(wall_clock_ns() + ns_from_s(world->wait_s));
  world->wait_s = 0;
  switch (call->op) {
  case COMMUNICATOR_ALL_REDUCE:
    return call->send == call->recv ? 0 : copy_part(c, call, 0, 0, err);
  case COMMUNICATOR_ALL_GATHER:
    return copy_part(c, call, 0, c->rank, err);
  case COMMUNICATOR_REDUCE_SCATTER:
    return copy_part(c, call, c->rank, 0, err);
  case COMMUNICATOR_ALL_TO_ALL:
    ASSERT(!call->send_counts);
    return clear(c->device, call->recv, size_mul(bytes, (size_t)c->ranks), err) ||
                   copy_part(c, call, c->rank, c->rank, err)
               ? -1
               : 0;
  case COMMUNICATOR_SEND_RECV:
    return clear(c->device, call->recv, bytes, err);
  default:
    return 0;
  }
}

static const struct communicator_kind stand_in = {
    .name = "stand_in", .close = stand_in_close, .split = stand_in_split, .run = stand_in_run};

struct communicator *stand_in_open(struct device *device, int rank, int ranks) {
  return &make(&stand_in, device, rank, ranks)->c;
}

bool stand_in_is(const struct communicator *c) { return c->kind == &stand_in; }

void stand_in_expect(struct communicator *world, double seconds) {
  ASSERT(stand_in_is(world));
  ((struct stand_in *)world)->wait_s = seconds;
}
