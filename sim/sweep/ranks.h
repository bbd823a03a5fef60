/* ranks.h: processes of one sweep on several machines, by MPI. Rank 0 hands out points and writes; the others ask,
 * compute and send rows. Built without MPI, or started without mpirun or srun: one process, and nothing of MPI is
 * touched. */
#ifndef SIM_SWEEP_RANKS_H
#define SIM_SWEEP_RANKS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ranks {
  int rank, size;
  bool threads; /* several threads of a rank may call ranks_ask */
  bool started;
};

void ranks_start(struct ranks *r);
void ranks_finish(struct ranks *r);

/* With several ranks: rank 0's text to all, a copy for each to free. NULL, from rank 0 to all, says: give up. */
char *ranks_share_text(const struct ranks *r, const char *text);
/* The sum over ranks, on all of them. */
int64_t ranks_sum(const struct ranks *r, int64_t value);

/* Rows of a finished point; point -1: none yet. */
struct ranks_message {
  int from;
  int64_t point;
  bool failed;
  char *rows; /* to be freed */
};

/* Not rank 0: sends rows (m->from is ignored) and waits for the next point; -1: no more. One caller at a time. */
int64_t ranks_ask(const struct ranks *r, const struct ranks_message *m);
/* Rank 0: the next message, if there is one. It must be answered before the next call. */
bool ranks_poll(const struct ranks *r, struct ranks_message *m);
void ranks_answer(const struct ranks *r, int to, int64_t next_point);

#endif
