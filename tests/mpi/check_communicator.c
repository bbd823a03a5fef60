/* Every collective against what it must give, on small integers so that sums in floating point are exact. Run alone or
 * under mpirun with any number of ranks: check_communicator [KIND [DEVICE]]. Exit 1 and a line per wrong number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/communicator.h"
#include "sim/base/units.h"

/* Stands for the kernels, which are not used: with device cuda this is for the libraries of tests/fake. */
const unsigned char dcpsim_fatbin[] = {0};
const uint64_t dcpsim_fatbin_size = sizeof dcpsim_fatbin;

static int wrong, checked;

/* What rank r sends at place i: below 2^7 in bf16's 8 bits would do, too. */
static float value(int r, int64_t i) { return (float)(1 + (r * 31 + i * 7) % 97); }

struct run {
  struct communicator *c;
  struct rank_set set; /* the group's ranks in the world */
  int64_t count;
  float *send, *recv;
};

static int world_rank(const struct run *r, int rank) { return r->set.first + rank * r->set.stride; }

static void expect(const struct run *r, const char *what, int64_t i, float got, float wanted) {
  checked++;
  if (got == wanted)
    return;
  wrong++;
  printf("%s, rank %d of %d, count %lld, place %lld: %g, not %g\n", what, r->c->rank, r->c->ranks, (long long)r->count,
         (long long)i, (double)got, (double)wanted);
}

static void must(int rc, const struct err *err) {
  if (rc == 0)
    return;
  fprintf(stderr, "%s\n", err->msg);
  exit(1);
}

static void run(const struct run *r, struct communicator_call call) {
  struct err err = {0};
  if (!call.send)
    call.send = r->send;
  call.recv = r->recv;
  call.count = r->count;
  must(communicator_run(r->c, &call, &err), &err);
}

static void fill(const struct run *r, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    r->send[i] = value(world_rank(r, r->c->rank), i);
    r->recv[i] = -1;
  }
}

static float sum_of(const struct run *r, int64_t i) {
  float sum = 0;
  for (int rank = 0; rank < r->c->ranks; rank++)
    sum += value(world_rank(r, rank), i);
  return sum;
}

static void check_reductions(const struct run *r) {
  const int ranks = r->c->ranks, rank = r->c->rank;
  fill(r, r->count);
  run(r, (struct communicator_call){.op = COMMUNICATOR_ALL_REDUCE});
  for (int64_t i = 0; i < r->count; i++)
    expect(r, "all_reduce", i, r->recv[i], sum_of(r, i));
  fill(r, r->count);
  memcpy(r->recv, r->send, (size_t)r->count * sizeof *r->recv);
  run(r, (struct communicator_call){.op = COMMUNICATOR_ALL_REDUCE, .send = r->recv});
  for (int64_t i = 0; i < r->count; i++)
    expect(r, "all_reduce in place", i, r->recv[i], sum_of(r, i));
  fill(r, ranks * r->count);
  run(r, (struct communicator_call){.op = COMMUNICATOR_REDUCE_SCATTER});
  for (int64_t i = 0; i < r->count; i++)
    expect(r, "reduce_scatter", i, r->recv[i], sum_of(r, rank * r->count + i));
  for (int64_t i = r->count; i < ranks * r->count; i++)
    expect(r, "reduce_scatter, beyond", i, r->recv[i], -1);
}

static void check_moves(const struct run *r) {
  const int ranks = r->c->ranks, rank = r->c->rank;
  fill(r, ranks * r->count);
  run(r, (struct communicator_call){.op = COMMUNICATOR_ALL_GATHER});
  for (int64_t i = 0; i < ranks * r->count; i++)
    expect(r, "all_gather", i, r->recv[i], value(world_rank(r, (int)(i / r->count)), i % r->count));
  fill(r, ranks * r->count);
  run(r, (struct communicator_call){.op = COMMUNICATOR_ALL_TO_ALL});
  for (int64_t i = 0; i < ranks * r->count; i++)
    expect(r, "all_to_all", i, r->recv[i], value(world_rank(r, (int)(i / r->count)), rank * r->count + i % r->count));
  for (int shift = 0; shift < ranks; shift++) {
    fill(r, r->count);
    run(r, (struct communicator_call){.op = COMMUNICATOR_SEND_RECV, .shift = shift});
    for (int64_t i = 0; i < r->count; i++)
      expect(r, "send_recv", i, r->recv[i], value(world_rank(r, (rank - shift + ranks) % ranks), i));
  }
}

/* What rank a has for rank b: nothing on some pairs. */
static int64_t uneven(int a, int b, int64_t count) { return (a + 2 * b) % 3 * count; }

static void check_uneven(const struct run *r) {
  const int ranks = r->c->ranks, rank = r->c->rank;
  int64_t *counts = xcalloc((size_t)ranks, 2 * sizeof *counts), place = 0;
  for (int i = 0; i < ranks; i++) {
    counts[i] = uneven(rank, i, r->count);
    counts[ranks + i] = uneven(i, rank, r->count);
  }
  fill(r, 2 * ranks * r->count);
  run(r,
      (struct communicator_call){.op = COMMUNICATOR_ALL_TO_ALL, .send_counts = counts, .recv_counts = counts + ranks});
  for (int from = 0; from < ranks; from++) {
    int64_t at = 0; /* where the part for this rank begins at the sender */
    for (int to = 0; to < rank; to++)
      at += uneven(from, to, r->count);
    for (int64_t i = 0; i < counts[ranks + from]; i++, place++)
      expect(r, "uneven all_to_all", place, r->recv[place], value(world_rank(r, from), at + i));
  }
  for (; place < 2 * ranks * r->count; place++)
    expect(r, "uneven all_to_all, beyond", place, r->recv[place], -1);
  free(counts);
}

static void check_group(struct communicator *c, struct rank_set set) {
  static const int64_t counts[] = {1, 3, 1000, 70000};
  for (int i = 0; i < 4; i++) {
    struct run r = {.c = c, .set = set, .count = counts[i]};
    r.send = xcalloc((size_t)(2 * c->ranks * r.count), sizeof *r.send);
    r.recv = xcalloc((size_t)(2 * c->ranks * r.count), sizeof *r.recv);
    check_reductions(&r);
    check_moves(&r);
    check_uneven(&r);
    run(&r, (struct communicator_call){.op = COMMUNICATOR_BARRIER});
    free(r.send);
    free(r.recv);
  }
}

/* One group of every kind, which is made once; a rank that is in none is told so. */
static void check_groups(struct communicator *world, int ranks, int stride) {
  struct err err = {0};
  struct communicator *group, *again;
  const struct rank_set set = rank_set_of(world->rank, ranks, stride);
  if (set.first + (ranks - 1) * stride >= world->ranks) { /* 3 ranks: the last is in no pair */
    if (communicator_group(world, ranks, stride, &group, &err) == 0 || !strstr(err.msg, "no aligned group"))
      wrong++;
    return;
  }
  must(communicator_group(world, ranks, stride, &group, &err), &err);
  must(communicator_group(world, ranks, stride, &again, &err), &err);
  if (group != again || group->ranks != ranks || set.first + group->rank * stride != world->rank)
    wrong++;
  check_group(group, set);
}

int main(int argc, char **argv) {
  struct err err = {0};
  struct device *device;
  struct communicator *world;
  must(device_open(&device, argc > 2 ? argv[2] : "cpu", 0, &err), &err);
  must(communicator_open(&world, argc > 1 ? argv[1] : NULL, device, &err), &err);
  for (int ranks = 1; ranks <= world->ranks; ranks++)
    for (int stride = 1; ranks * stride <= world->ranks; stride++)
      check_groups(world, ranks, stride);
  if (world->rank == 0)
    printf("%s: %d ranks, %d numbers checked on rank 0\n", world->kind->name, world->ranks, checked);
  communicator_close(world);
  device_close(device);
  return wrong > 0;
}
