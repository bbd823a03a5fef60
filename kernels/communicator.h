/* communicator.h: collectives among processes, one device each. A communicator is a row of a table: "mpi" (host
 * memory), "nccl" (CUDA; its id travels by MPI) or "self" (one process, any device). Calls name the same collectives as
 * nccl-tests.
 *
 * Collectives run on the device's stream, in order with its operators: device_wait waits for them. All members make the
 * same calls in the same order. Counts are of numbers of the call's element type. */
#ifndef KERNELS_COMMUNICATOR_H
#define KERNELS_COMMUNICATOR_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kernels/device.h"
#include "kernels/element.h"
#include "sim/base/err.h"

enum communicator_op {
  COMMUNICATOR_ALL_REDUCE,     /* send, recv: count; recv = sum over ranks; may be in place (send = recv) */
  COMMUNICATOR_ALL_GATHER,     /* send: count, recv: ranks * count, by rank */
  COMMUNICATOR_REDUCE_SCATTER, /* send: ranks * count, recv: count; rank r gets the sum of all r-th parts */
  COMMUNICATOR_ALL_TO_ALL,     /* send, recv: ranks * count, part r to and from rank r; or uneven, see below */
  COMMUNICATOR_SEND_RECV,      /* send: count to rank + shift, recv: count from rank - shift, around the ring */
  COMMUNICATOR_BARRIER,        /* nothing before it on any rank is undone when it is done on one */
  COMMUNICATOR_OPS
};

struct communicator_call {
  enum communicator_op op;
  enum element_type element;
  const void *send; /* not changed; must not overlap recv but for an all-reduce in place */
  void *recv;
  int64_t count; /* < 2^31 per call under MPI */
  int shift;     /* send_recv: 0 <= shift < ranks */
  /* all_to_all: NULL, or the numbers for and from each rank, in host memory; parts follow each other. */
  const int64_t *send_counts, *recv_counts;
};

/* Ranks first, first + stride, ...: `ranks` of them. */
struct rank_set {
  int first, ranks, stride;
};

/* The set of `ranks` ranks, `stride` apart, that `rank` is in. Ranks are cut, from 0 on, into blocks of ranks * stride;
 * those of a block that are equal modulo `stride` are a set. stride 1: aligned blocks. With g ranks on each node,
 * stride g: one rank a node; g / k: k ranks a node. */
struct rank_set rank_set_of(int rank, int ranks, int stride);

struct communicator;

/* One row. */
struct communicator_kind {
  const char *name;
  int (*open)(struct communicator **out, struct device *device, struct err *err);
  void (*close)(struct communicator *c);
  int (*split)(struct communicator *c, const struct rank_set *set, struct communicator **out, struct err *err);
  int (*run)(struct communicator *c, const struct communicator_call *call, struct err *err);
};

struct communicator_group {
  struct rank_set set; /* in the world */
  struct communicator *members;
};

/* The part that all kinds share; a kind's own struct begins with it. */
struct communicator {
  const struct communicator_kind *kind;
  struct device *device;
  int rank, ranks;
  struct communicator_group *groups; /* of a world: those made so far */
  size_t n_groups, groups_cap;
};

/* `kind`: a row's name, or NULL: "self" for a process that no mpirun started, else "nccl" or "mpi" by the device.
 * Starts MPI if nobody has; communicator_close then ends it. The device must outlive the communicator. */
int communicator_open(struct communicator **out, const char *kind, struct device *device, struct err *err);
void communicator_close(struct communicator *world); /* its groups, too; NULL is fine */
void communicator_list(FILE *out);

/* The group of rank_set_of(world->rank, ranks, stride); an error if the world ends within that set. Made at its first
 * use, by all its members together, and kept; `world` owns it. ranks = world->ranks gives world itself. */
int communicator_group(struct communicator *world, int ranks, int stride, struct communicator **out, struct err *err);

int communicator_run(struct communicator *c, const struct communicator_call *call, struct err *err);

const char *communicator_op_name(enum communicator_op op); /* "all_reduce", ... */

#endif
