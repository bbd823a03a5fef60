#include "kernels/communicator.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/communicator_table.h"
#include "sim/base/launcher.h"
#include "sim/base/units.h"

static const struct communicator_kind *const kinds[] = {&communicator_mpi, &communicator_nccl, &communicator_self};
enum { KINDS = sizeof kinds / sizeof *kinds };

const char *communicator_op_name(enum communicator_op op) {
  static const char *const names[COMMUNICATOR_OPS] = {"all_reduce", "all_gather", "reduce_scatter",
                                                      "all_to_all", "send_recv",  "barrier"};
  ASSERT((unsigned)op < COMMUNICATOR_OPS);
  return names[op];
}

static const struct communicator_kind *choose(const struct device *device) {
  if (!launcher_started())
    return &communicator_self;
  return device->kind->element == ELEMENT_BF16 ? &communicator_nccl : &communicator_mpi;
}

static const struct communicator_kind *find(const char *name) {
  for (int i = 0; i < KINDS; i++)
    if (strcmp(kinds[i]->name, name) == 0)
      return kinds[i];
  return NULL;
}

int communicator_open(struct communicator **out, const char *kind, struct device *device, struct err *err) {
  *out = NULL;
  const struct communicator_kind *chosen = kind ? find(kind) : choose(device);
  if (!chosen)
    return err_usage(err, "no communicator '%s'; there are: mpi, nccl, self", kind);
  return chosen->open(out, device, err);
}

void communicator_list(FILE *out) {
  for (int i = 0; i < KINDS; i++)
    fprintf(out, "%s\n", kinds[i]->name);
}

void communicator_close(struct communicator *world) {
  if (!world)
    return;
  for (size_t i = 0; i < world->n_groups; i++)
    world->groups[i].members->kind->close(world->groups[i].members);
  free(world->groups);
  world->kind->close(world);
}

struct rank_set rank_set_of(int rank, int ranks, int stride) {
  const int block = ranks * stride;
  return (struct rank_set){.first = rank / block * block + rank % stride, .ranks = ranks, .stride = stride};
}

int communicator_group(struct communicator *world, int ranks, int stride, struct communicator **out, struct err *err) {
  ASSERT(ranks >= 1 && stride >= 1);
  const struct rank_set set = rank_set_of(world->rank, ranks, stride);
  *out = world;
  if (ranks == world->ranks && stride == 1)
    return 0;
  if (set.first + (ranks - 1) * stride >= world->ranks)
    return err_set(err, "communicator %s: rank %d is in no aligned group of %d, %d apart, as there are only %d ranks",
                   world->kind->name, world->rank, ranks, stride, world->ranks);
  for (size_t i = 0; i < world->n_groups; i++)
    if (world->groups[i].set.ranks == ranks && world->groups[i].set.stride == stride) {
      *out = world->groups[i].members;
      return 0;
    }
  struct communicator_group made = {.set = set};
  if (world->kind->split(world, &set, &made.members, err))
    return -1;
  VEC_PUSH(world->groups, world->n_groups, world->groups_cap, made);
  *out = made.members;
  return 0;
}

int communicator_run(struct communicator *c, const struct communicator_call *call, struct err *err) {
  ASSERT((unsigned)call->op < COMMUNICATOR_OPS && call->count >= 0);
  ASSERT(call->op != COMMUNICATOR_SEND_RECV || (call->shift >= 0 && call->shift < c->ranks));
  ASSERT(!call->send_counts == !call->recv_counts);
  ASSERT(!call->send_counts || call->op == COMMUNICATOR_ALL_TO_ALL);
  return c->kind->run(c, call, err);
}

int communicator_failed(const struct communicator *c, const struct communicator_call *call, struct err *err) {
  return err_prefix(err, "communicator %s, rank %d of %d: %s of %lld %s numbers", c->kind->name, c->rank, c->ranks,
                    communicator_op_name(call->op), (long long)call->count,
                    call->element == ELEMENT_BF16 ? "bf16" : "fp32");
}
