#include "sim/sweep/ranks.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/launcher.h"
#include "sim/base/units.h"

#ifdef DCPSIM_MPI
#include <mpi.h>

enum { TAG_ROWS = 1, TAG_POINT = 2 };

void ranks_start(struct ranks *r) {
  int provided;
  *r = (struct ranks){.size = 1};
  /* Alone, MPI would start processes of its own. */
  if (!launcher_started() || MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
    return;
  r->started = true;
  r->threads = provided >= MPI_THREAD_SERIALIZED;
  MPI_Comm_rank(MPI_COMM_WORLD, &r->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &r->size);
}

void ranks_finish(struct ranks *r) {
  if (r->started)
    MPI_Finalize();
  *r = (struct ranks){.size = 1};
}

char *ranks_share_text(const struct ranks *r, const char *text) {
  long long n = text ? (long long)strlen(text) : -1;
  ASSERT(r->started && n <= INT_MAX); /* a spec is at most JSON_MAX_BYTES */
  MPI_Bcast(&n, 1, MPI_LONG_LONG, 0, MPI_COMM_WORLD);
  if (n < 0)
    return NULL;
  char *copy = xcalloc((size_t)n + 1, 1);
  if (r->rank == 0)
    memcpy(copy, text, (size_t)n);
  MPI_Bcast(copy, (int)n, MPI_CHAR, 0, MPI_COMM_WORLD);
  return copy;
}

int64_t ranks_sum(const struct ranks *r, int64_t value) {
  long long own = value, sum = value;
  if (r->started)
    MPI_Allreduce(&own, &sum, 1, MPI_LONG_LONG, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

/* point, failed, then the rows' text. */
struct head {
  int64_t point, failed;
};

int64_t ranks_ask(const struct ranks *r, const struct ranks_message *m) {
  struct head head = {m->point, m->failed};
  size_t n = m->rows ? strlen(m->rows) : 0, size = sizeof head + n;
  char *message = xmalloc(size);
  long long next;
  ASSERT(r->started && r->rank > 0 && size <= INT_MAX);
  memcpy(message, &head, sizeof head);
  if (n)
    memcpy(message + sizeof head, m->rows, n);
  MPI_Send(message, (int)size, MPI_BYTE, 0, TAG_ROWS, MPI_COMM_WORLD);
  free(message);
  MPI_Recv(&next, 1, MPI_LONG_LONG, 0, TAG_POINT, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return next;
}

bool ranks_poll(const struct ranks *r, struct ranks_message *m) {
  MPI_Status status;
  struct head head;
  int there = 0, size = 0;
  if (!r->started)
    return false;
  MPI_Iprobe(MPI_ANY_SOURCE, TAG_ROWS, MPI_COMM_WORLD, &there, &status);
  if (!there)
    return false;
  MPI_Get_count(&status, MPI_BYTE, &size);
  char *message = xmalloc((size_t)size + 1);
  MPI_Recv(message, size, MPI_BYTE, status.MPI_SOURCE, TAG_ROWS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  ASSERT((size_t)size >= sizeof head);
  memcpy(&head, message, sizeof head);
  message[size] = '\0';
  *m = (struct ranks_message){.from = status.MPI_SOURCE,
                              .point = head.point,
                              .failed = head.failed != 0,
                              .rows = xstrdup(message + sizeof head)};
  free(message);
  return true;
}

void ranks_answer(const struct ranks *r, int to, int64_t next_point) {
  long long next = next_point;
  ASSERT(r->started);
  MPI_Send(&next, 1, MPI_LONG_LONG, to, TAG_POINT, MPI_COMM_WORLD);
}

#else

void ranks_start(struct ranks *r) { *r = (struct ranks){.size = 1}; }
void ranks_finish(struct ranks *r) { *r = (struct ranks){.size = 1}; }

char *ranks_share_text(const struct ranks *r, const char *text) {
  (void)r;
  (void)text;
  return NULL;
}

int64_t ranks_sum(const struct ranks *r, int64_t value) {
  (void)r;
  return value;
}

int64_t ranks_ask(const struct ranks *r, const struct ranks_message *m) {
  (void)r;
  (void)m;
  return -1;
}

bool ranks_poll(const struct ranks *r, struct ranks_message *m) {
  (void)r;
  (void)m;
  return false;
}

void ranks_answer(const struct ranks *r, int to, int64_t next_point) {
  (void)r;
  (void)to;
  (void)next_point;
}

#endif
