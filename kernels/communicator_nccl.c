/* Collectives by NCCL (libnccl.so.2, loaded at run time) on a GPU's stream. Ranks meet by MPI, which stays open beside
 * it. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/communicator_table.h"
#include "kernels/cuda_driver.h"
#include "sim/base/units.h"

/* Numbers of nccl.h. */
enum { NCCL_FLOAT32 = 7, NCCL_BFLOAT16 = 9, NCCL_SUM = 0, NCCL_ID_BYTES = 128 };

struct nccl_id {
  char bytes[NCCL_ID_BYTES];
};

#define NCCL_SYMBOLS(X)                                                                                                \
  X(ncclGetUniqueId, (struct nccl_id * id))                                                                            \
  X(ncclCommInitRank, (void **comm, int ranks, struct nccl_id id, int rank))                                           \
  X(ncclCommDestroy, (void *comm))                                                                                     \
  X(ncclAllReduce, (const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream))           \
  X(ncclAllGather, (const void *send, void *recv, size_t count, int type, void *comm, void *stream))                   \
  X(ncclReduceScatter, (const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream))       \
  X(ncclSend, (const void *send, size_t count, int type, int peer, void *comm, void *stream))                          \
  X(ncclRecv, (void *recv, size_t count, int type, int peer, void *comm, void *stream))                                \
  X(ncclGroupStart, (void))                                                                                            \
  X(ncclGroupEnd, (void))

static struct {
  void *handle;
#define SLOT(symbol, parameters) int(*symbol) parameters;
  NCCL_SYMBOLS(SLOT)
#undef SLOT
  const char *(*ncclGetErrorString)(int result);
} nccl_library; /* one per process: NCCL has no handle of its own */

struct nccl {
  struct communicator shared;
  struct communicator *mpi; /* the same ranks */
  void *comm;
};

static int check(int result, const char *symbol, struct err *err) {
  return result == 0 ? 0 : err_set(err, "%s: %s", symbol, nccl_library.ncclGetErrorString(result));
}

#define CALL(symbol, ...) check(nccl_library.symbol(__VA_ARGS__), #symbol, err)

static int load(struct err *err) {
  static const char *const names[] = {"libnccl.so.2", NULL};
#define NAME(symbol, parameters) #symbol,
  static const char *const symbols[] = {NCCL_SYMBOLS(NAME) "ncclGetErrorString", NULL};
#undef NAME
#define SLOT(symbol, parameters) (void **)&nccl_library.symbol,
  void **const slots[] = {NCCL_SYMBOLS(SLOT)(void **) & nccl_library.ncclGetErrorString, NULL};
#undef SLOT
  if (!nccl_library.handle)
    nccl_library.handle = cuda_library_load("NCCL", names, symbols, slots, err);
  return nccl_library.handle ? 0 : -1;
}

/* Takes over `mpi`, whose ranks all call this. */
static int join(struct communicator **out, struct device *device, struct communicator *mpi, struct err *err) {
  struct nccl *nccl = xcalloc(1, sizeof *nccl);
  struct {
    struct nccl_id id;
    int failed; /* travels along, so that no rank waits for one that gave up */
  } first = {0};
  nccl->shared.kind = &communicator_nccl;
  nccl->shared.device = device;
  nccl->shared.rank = mpi->rank;
  nccl->shared.ranks = mpi->ranks;
  nccl->mpi = mpi;
  *out = &nccl->shared;
  if (mpi->rank == 0)
    first.failed = CALL(ncclGetUniqueId, &first.id);
  int rc = communicator_mpi_share(mpi, &first, sizeof first, err);
  if (rc == 0 && first.failed && mpi->rank > 0)
    err_set(err, "the first rank could not start NCCL");
  if (rc || first.failed || CALL(ncclCommInitRank, &nccl->comm, mpi->ranks, first.id, mpi->rank)) {
    communicator_nccl.close(*out);
    *out = NULL;
    return err_prefix(err, "communicator nccl, %s", device->name);
  }
  return 0;
}

static int nccl_open(struct communicator **out, struct device *device, struct err *err) {
  struct communicator *mpi;
  if (!device->stream)
    return err_usage(err, "communicator nccl: it needs device cuda, not %s", device->kind->name);
  if (load(err))
    return err_prefix(err, "communicator nccl");
  return communicator_mpi.open(&mpi, device, err) ? -1 : join(out, device, mpi, err);
}

static void nccl_close(struct communicator *c) {
  struct nccl *nccl = (struct nccl *)c;
  if (nccl->comm)
    nccl_library.ncclCommDestroy(nccl->comm);
  nccl->mpi->kind->close(nccl->mpi);
  free(nccl);
}

static int nccl_split(struct communicator *c, const struct rank_set *set, struct communicator **out, struct err *err) {
  struct nccl *nccl = (struct nccl *)c;
  struct communicator *mpi;
  return communicator_mpi.split(nccl->mpi, set, &mpi, err) ? -1 : join(out, c->device, mpi, err);
}

/* One message to and one from each rank, as a group so that none waits for another. */
static int all_to_all(struct nccl *nccl, const struct communicator_call *call, int type, struct err *err) {
  const size_t bytes = element_bytes(call->element);
  const char *send = call->send;
  char *recv = call->recv;
  int rc = CALL(ncclGroupStart);
  for (int i = 0; i < nccl->shared.ranks && rc == 0; i++) {
    const size_t out = (size_t)(call->send_counts ? call->send_counts[i] : call->count);
    const size_t in = (size_t)(call->recv_counts ? call->recv_counts[i] : call->count);
    if (out > 0)
      rc = CALL(ncclSend, send, out, type, i, nccl->comm, nccl->shared.device->stream);
    if (in > 0 && rc == 0)
      rc = CALL(ncclRecv, recv, in, type, i, nccl->comm, nccl->shared.device->stream);
    send += out * bytes;
    recv += in * bytes;
  }
  return CALL(ncclGroupEnd) || rc ? -1 : 0;
}

static int send_recv(struct nccl *nccl, const struct communicator_call *call, int type, struct err *err) {
  const struct communicator *c = &nccl->shared;
  const int to = (c->rank + call->shift) % c->ranks, from = (c->rank - call->shift + c->ranks) % c->ranks;
  const size_t count = (size_t)call->count;
  int rc = CALL(ncclGroupStart) || CALL(ncclSend, call->send, count, type, to, nccl->comm, c->device->stream) ||
           CALL(ncclRecv, call->recv, count, type, from, nccl->comm, c->device->stream);
  return CALL(ncclGroupEnd) || rc ? -1 : 0;
}

static int collective(struct nccl *nccl, const struct communicator_call *call, struct err *err) {
  const int type = call->element == ELEMENT_BF16 ? NCCL_BFLOAT16 : NCCL_FLOAT32;
  const size_t count = (size_t)call->count;
  void *comm = nccl->comm, *stream = nccl->shared.device->stream;
  switch (call->op) {
  case COMMUNICATOR_ALL_REDUCE:
    return CALL(ncclAllReduce, call->send, call->recv, count, type, NCCL_SUM, comm, stream);
  case COMMUNICATOR_ALL_GATHER:
    return CALL(ncclAllGather, call->send, call->recv, count, type, comm, stream);
  case COMMUNICATOR_REDUCE_SCATTER:
    return CALL(ncclReduceScatter, call->send, call->recv, count, type, NCCL_SUM, comm, stream);
  case COMMUNICATOR_ALL_TO_ALL:
    return all_to_all(nccl, call, type, err);
  case COMMUNICATOR_SEND_RECV:
    return send_recv(nccl, call, type, err);
  default:
    return device_wait(nccl->shared.device, NULL, err) || nccl->mpi->kind->run(nccl->mpi, call, err) ? -1 : 0;
  }
}

static int nccl_run(struct communicator *c, const struct communicator_call *call, struct err *err) {
  return collective((struct nccl *)c, call, err) ? communicator_failed(c, call, err) : 0;
}

const struct communicator_kind communicator_nccl = {
    .name = "nccl",
    .open = nccl_open,
    .close = nccl_close,
    .split = nccl_split,
    .run = nccl_run,
};
