/* An NCCL whose collectives are MPI's, for devices whose memory is the host's (fake_cuda_driver.c). It stands in for
 * libnccl.so.2. A communicator's ranks must be equally far apart in the world. Environment: FAKE_NCCL_FAIL=SYMBOL: it
 * fails; FAKE_NCCL_WRONG=1: sums are of fewer ranks. */
#include <mpi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct id {
  char bytes[128];
};

struct comm {
  MPI_Comm comm;
};

static int fails(const char *symbol) {
  const char *name = getenv("FAKE_NCCL_FAIL");
  return name && strcmp(name, symbol) == 0 ? 3 : 0;
}

/* Messages of the open group. */
enum { MESSAGES = 1024 };
static MPI_Request messages[MESSAGES];
static int n_messages, depth;

#define LIBRARY(type, name, ...)                                                                                       \
  type name(__VA_ARGS__);                                                                                              \
  type name(__VA_ARGS__)

static MPI_Datatype type_of(int type) { return type == 7 ? MPI_FLOAT : type == 9 ? MPI_UINT16_T : MPI_DATATYPE_NULL; }

static float from_bf16(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Sums of bf16 numbers, which MPI does not know; rounded down: tests send numbers whose sums need no rounding. */
static void add_bf16(void *from, void *to, int *n, MPI_Datatype *type) {
  (void)type;
  for (int i = 0; i < *n; i++) {
    const float sum = from_bf16(((uint16_t *)from)[i]) + from_bf16(((uint16_t *)to)[i]);
    uint32_t bits;
    memcpy(&bits, &sum, sizeof bits);
    ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
  }
}

static void add_nothing(void *from, void *to, int *n, MPI_Datatype *type) { (void)from, (void)to, (void)n, (void)type; }

static MPI_Op sum_of(int type) {
  static MPI_Op bf16 = MPI_OP_NULL, nothing = MPI_OP_NULL;
  if (bf16 == MPI_OP_NULL) {
    MPI_Op_create(add_bf16, 1, &bf16);
    MPI_Op_create(add_nothing, 1, &nothing);
  }
  if (getenv("FAKE_NCCL_WRONG"))
    return nothing;
  return type == 9 ? bf16 : MPI_SUM;
}

static int result(int rc) { return rc == MPI_SUCCESS ? 0 : 3; }

LIBRARY(const char *, ncclGetErrorString, int code) { return code == 3 ? "internal error" : "unknown"; }

LIBRARY(int, ncclGetVersion, int *version) {
  *version = 22703;
  return 0;
}

LIBRARY(int, ncclGetUniqueId, struct id *id) {
  static int32_t n;
  const int32_t color = (int32_t)(((uint32_t)getpid() * 64u + (uint32_t)n++) & 0x7fffffff);
  memset(id, 0, sizeof *id);
  memcpy(id->bytes, &color, sizeof color);
  int started, rank = 0;
  MPI_Initialized(&started);
  if (started)
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  memcpy(id->bytes + sizeof color, &(int32_t){rank}, sizeof(int32_t));
  return fails("ncclGetUniqueId");
}

LIBRARY(int, ncclCommInitRank, void **comm, int ranks, struct id id, int rank) {
  int32_t color, size, place;
  struct comm *c = calloc(1, sizeof *c);
  if (fails("ncclCommInitRank")) {
    free(c);
    return 3;
  }
  memcpy(&color, id.bytes, sizeof color);
  MPI_Group world, block;
  int32_t own, second, stride = 1, first;
  memcpy(&first, id.bytes + sizeof color, sizeof first);
  MPI_Comm_rank(MPI_COMM_WORLD, &own);
  /* So that the first rank knows how far apart they are; a wrong id: they do not meet. A tag of its own, for Open MPI
   * sends messages of the group's creation with the tag of that. */
  const int tag = color % 30000, stride_tag = tag + 30000;
  if (rank == 1)
    MPI_Send(&own, 1, MPI_INT32_T, first, stride_tag, MPI_COMM_WORLD);
  if (rank == 0 && ranks > 1)
    MPI_Recv(&second, 1, MPI_INT32_T, MPI_ANY_SOURCE, stride_tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (ranks > 1)
    stride = rank == 0 ? second - own : (own - first) / rank;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_range_incl(world, 1, (int[1][3]){{first, first + (ranks - 1) * stride, stride}}, &block);
  MPI_Comm_create_group(MPI_COMM_WORLD, block, tag, &c->comm);
  MPI_Group_free(&block);
  MPI_Group_free(&world);
  MPI_Comm_size(c->comm, &size);
  MPI_Comm_rank(c->comm, &place);
  *comm = c;
  return size == ranks && place == rank ? 0 : 3;
}

LIBRARY(int, ncclCommDestroy, void *comm) {
  MPI_Comm_free(&((struct comm *)comm)->comm);
  free(comm);
  return 0;
}

LIBRARY(int, ncclAllReduce, const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream) {
  if (!stream || op != 0 || fails("ncclAllReduce"))
    return 3;
  return result(MPI_Allreduce(send == recv ? MPI_IN_PLACE : send, recv, (int)count, type_of(type), sum_of(type),
                              ((struct comm *)comm)->comm));
}

LIBRARY(int, ncclAllGather, const void *send, void *recv, size_t count, int type, void *comm, void *stream) {
  (void)stream;
  return result(
      MPI_Allgather(send, (int)count, type_of(type), recv, (int)count, type_of(type), ((struct comm *)comm)->comm));
}

LIBRARY(int, ncclReduceScatter, const void *send, void *recv, size_t count, int type, int op, void *comm,
        void *stream) {
  (void)stream, (void)op;
  return result(
      MPI_Reduce_scatter_block(send, recv, (int)count, type_of(type), sum_of(type), ((struct comm *)comm)->comm));
}

LIBRARY(int, ncclSend, const void *send, size_t count, int type, int peer, void *comm, void *stream) {
  (void)stream;
  if (depth == 0 || n_messages == MESSAGES)
    return 3;
  return result(
      MPI_Isend(send, (int)count, type_of(type), peer, 0, ((struct comm *)comm)->comm, &messages[n_messages++]));
}

LIBRARY(int, ncclRecv, void *recv, size_t count, int type, int peer, void *comm, void *stream) {
  (void)stream;
  if (depth == 0 || n_messages == MESSAGES)
    return 3;
  return result(
      MPI_Irecv(recv, (int)count, type_of(type), peer, 0, ((struct comm *)comm)->comm, &messages[n_messages++]));
}

LIBRARY(int, ncclGroupStart, void) {
  depth++;
  return 0;
}

LIBRARY(int, ncclGroupEnd, void) {
  int rc = MPI_SUCCESS;
  if (--depth == 0) {
    rc = MPI_Waitall(n_messages, messages, MPI_STATUSES_IGNORE);
    n_messages = 0;
  }
  return result(rc);
}
