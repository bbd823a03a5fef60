/* Collectives by MPI on host memory. bf16 numbers are moved, not summed: MPI knows no such type. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/communicator_table.h"
#include "sim/base/units.h"

#ifdef DCPSIM_MPI
#include <mpi.h>

struct mpi {
  struct communicator shared;
  MPI_Comm comm;
  bool finalize; /* we started MPI */
  int *numbers;  /* 4 per rank: counts and places of an uneven all-to-all */
};

/* MPI's own words for a failure, which else would abort the job. */
static int check(int rc, struct err *err) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (rc == MPI_SUCCESS)
    return 0;
  MPI_Error_string(rc, text, &length);
  return err_set(err, "MPI: %s", text);
}

static int wrap(struct communicator **out, struct device *device, MPI_Comm comm, bool finalize, struct err *err) {
  struct mpi *mpi = xcalloc(1, sizeof *mpi);
  mpi->shared.kind = &communicator_mpi;
  mpi->shared.device = device;
  mpi->comm = comm;
  mpi->finalize = finalize;
  *out = &mpi->shared;
  if (check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), err) ||
      check(MPI_Comm_rank(comm, &mpi->shared.rank), err) || check(MPI_Comm_size(comm, &mpi->shared.ranks), err)) {
    communicator_mpi.close(*out);
    *out = NULL;
    return -1;
  }
  mpi->numbers = xcalloc((size_t)mpi->shared.ranks, 4 * sizeof *mpi->numbers);
  return 0;
}

static int mpi_open(struct communicator **out, struct device *device, struct err *err) {
  int started = 0, provided;
  MPI_Comm comm;
  if (MPI_Initialized(&started) != MPI_SUCCESS)
    return err_set(err, "communicator mpi: MPI does not answer");
  if (!started && MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
    return err_set(err, "communicator mpi: MPI did not start");
  if (check(MPI_Comm_dup(MPI_COMM_WORLD, &comm), err))
    return err_prefix(err, "communicator mpi");
  return wrap(out, device, comm, !started, err);
}

static void mpi_close(struct communicator *c) {
  struct mpi *mpi = (struct mpi *)c;
  MPI_Comm_free(&mpi->comm);
  if (mpi->finalize)
    MPI_Finalize();
  free(mpi->numbers);
  free(mpi);
}

/* Only the members of the group take part. */
static int mpi_split(struct communicator *c, const struct rank_set *set, struct communicator **out, struct err *err) {
  struct mpi *mpi = (struct mpi *)c;
  int range[1][3] = {{set->first, set->first + (set->ranks - 1) * set->stride, set->stride}};
  MPI_Group world, members;
  MPI_Comm comm;
  if (check(MPI_Comm_group(mpi->comm, &world), err))
    return err_prefix(err, "communicator mpi: group of %d ranks", set->ranks);
  int rc = check(MPI_Group_range_incl(world, 1, range, &members), err);
  if (rc == 0) {
    rc = check(MPI_Comm_create_group(mpi->comm, members, set->ranks, &comm), err);
    MPI_Group_free(&members);
  }
  MPI_Group_free(&world);
  return rc ? err_prefix(err, "communicator mpi: group of %d ranks", set->ranks)
            : wrap(out, c->device, comm, false, err);
}

static int uneven_all_to_all(struct mpi *mpi, const struct communicator_call *call, MPI_Datatype type) {
  const int n = mpi->shared.ranks;
  int *send = mpi->numbers, *send_at = send + n, *recv = send + 2 * n, *recv_at = send + 3 * n;
  int64_t sent = 0, received = 0;
  for (int i = 0; i < n; i++) {
    send[i] = (int)call->send_counts[i];
    recv[i] = (int)call->recv_counts[i];
    send_at[i] = (int)sent;
    recv_at[i] = (int)received;
    sent += call->send_counts[i];
    received += call->recv_counts[i];
    ASSERT(call->send_counts[i] >= 0 && call->recv_counts[i] >= 0 && sent <= INT_MAX && received <= INT_MAX);
  }
  return MPI_Alltoallv(call->send, send, send_at, type, call->recv, recv, recv_at, type, mpi->comm);
}

static int collective(struct mpi *mpi, const struct communicator_call *call) {
  MPI_Comm comm = mpi->comm;
  MPI_Datatype type = call->element == ELEMENT_BF16 ? MPI_UINT16_T : MPI_FLOAT;
  const int count = (int)call->count, rank = mpi->shared.rank, n = mpi->shared.ranks;
  switch (call->op) {
  case COMMUNICATOR_ALL_REDUCE:
    return MPI_Allreduce(call->send == call->recv ? MPI_IN_PLACE : call->send, call->recv, count, type, MPI_SUM, comm);
  case COMMUNICATOR_ALL_GATHER:
    return MPI_Allgather(call->send, count, type, call->recv, count, type, comm);
  case COMMUNICATOR_REDUCE_SCATTER:
    return MPI_Reduce_scatter_block(call->send, call->recv, count, type, MPI_SUM, comm);
  case COMMUNICATOR_ALL_TO_ALL:
    if (call->send_counts)
      return uneven_all_to_all(mpi, call, type);
    return MPI_Alltoall(call->send, count, type, call->recv, count, type, comm);
  case COMMUNICATOR_SEND_RECV:
    return MPI_Sendrecv(call->send, count, type, (rank + call->shift) % n, 0, call->recv, count, type,
                        (rank - call->shift + n) % n, 0, comm, MPI_STATUS_IGNORE);
  default:
    return MPI_Barrier(comm);
  }
}

static bool sums(enum communicator_op op) { return op == COMMUNICATOR_ALL_REDUCE || op == COMMUNICATOR_REDUCE_SCATTER; }

static int mpi_run(struct communicator *c, const struct communicator_call *call, struct err *err) {
  int rc;
  if (call->op != COMMUNICATOR_BARRIER && c->device->kind->element != ELEMENT_FP32)
    rc = err_set(err, "MPI moves host memory only; use nccl with device %s", c->device->kind->name);
  else if (call->element == ELEMENT_BF16 && sums(call->op))
    rc = err_set(err, "MPI cannot sum bf16");
  else if (call->count > INT_MAX)
    rc = err_set(err, "MPI counts up to %d", INT_MAX);
  else
    rc = check(collective((struct mpi *)c, call), err);
  return rc ? communicator_failed(c, call, err) : 0;
}

int communicator_mpi_share(struct communicator *c, void *data, size_t bytes, struct err *err) {
  ASSERT(c->kind == &communicator_mpi && bytes <= INT_MAX);
  return check(MPI_Bcast(data, (int)bytes, MPI_BYTE, 0, ((struct mpi *)c)->comm), err);
}

#else

static int mpi_open(struct communicator **out, struct device *device, struct err *err) {
  (void)out, (void)device;
  return err_set(err, "communicator mpi: dcpsim was built without MPI; install it and build again, or use one process");
}

static void mpi_close(struct communicator *c) { (void)c; }

static int mpi_split(struct communicator *c, const struct rank_set *set, struct communicator **out, struct err *err) {
  (void)set, (void)out;
  return mpi_open(NULL, c->device, err);
}

static int mpi_run(struct communicator *c, const struct communicator_call *call, struct err *err) {
  (void)call;
  return mpi_open(NULL, c->device, err);
}

int communicator_mpi_share(struct communicator *c, void *data, size_t bytes, struct err *err) {
  (void)data, (void)bytes;
  return mpi_open(NULL, c->device, err);
}

#endif

const struct communicator_kind communicator_mpi = {
    .name = "mpi",
    .open = mpi_open,
    .close = mpi_close,
    .split = mpi_split,
    .run = mpi_run,
};
