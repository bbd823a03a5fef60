/* One process: every collective is a copy to itself, on its device. */
#include <stdlib.h>

#include "kernels/communicator_table.h"
#include "sim/base/launcher.h"
#include "sim/base/units.h"

static int self_open(struct communicator **out, struct device *device, struct err *err) {
  if (launcher_started())
    return err_usage(err, "communicator self: mpirun or srun started several processes; use mpi or nccl");
  struct communicator *c = xcalloc(1, sizeof *c);
  *c = (struct communicator){.kind = &communicator_self, .device = device, .ranks = 1};
  *out = c;
  return 0;
}

static void self_close(struct communicator *c) { free(c); }

static int self_split(struct communicator *c, const struct rank_set *set, struct communicator **out, struct err *err) {
  (void)c, (void)set, (void)out, (void)err;
  ASSERT(!"a group smaller than one");
  return -1;
}

static int self_run(struct communicator *c, const struct communicator_call *call, struct err *err) {
  const int64_t count = call->send_counts ? call->send_counts[0] : call->count;
  if (call->op == COMMUNICATOR_BARRIER)
    return device_wait(c->device, NULL, err);
  if (call->send == call->recv)
    return 0;
  return device_copy(c->device, call->recv, call->send, size_mul((size_t)count, element_bytes(call->element)), err);
}

const struct communicator_kind communicator_self = {
    .name = "self",
    .open = self_open,
    .close = self_close,
    .split = self_split,
    .run = self_run,
};
