/* virtual.h: the device without a device: every operation lasts as long as predicted, by the wall clock, and ranks
 * really wait for each other. What it tests is the player. Private to sim/execute.
 *
 * Times are nanoseconds since the common start of the step. `cursor` is when the operation before is over; waiting ends
 * a little late, so the next operation is timed from the cursor, not from the clock. */
#ifndef SIM_EXECUTE_VIRTUAL_H
#define SIM_EXECUTE_VIRTUAL_H
#include "sim/execute/execute.h"

enum { VIRTUAL_MAX_PENDING = 256 };

/* By the wall clock, more exactly than a sleeper is woken. */
void wait_until(int64_t until_ns);

struct virtual_ranks;

struct virtual_clock {
  struct virtual_ranks *ranks;
  int64_t start_ns, cursor_ns;
  int64_t posted;                       /* by this rank */
  int64_t begun, settled;               /* collectives this rank has joined, and those whose end is known */
  int64_t ends_ns[VIRTUAL_MAX_PENDING]; /* of the settled ones, by number modulo */
};

int virtual_open(struct virtual_clock *v, int rank, int ranks, struct err *err);
void virtual_close(struct virtual_clock *v);

void virtual_start(struct virtual_clock *v); /* of a step: a barrier before it, the clock from here */
/* One operation of this rank alone, and one that starts when its group of `sp` ranks has arrived. */
void virtual_work(struct virtual_clock *v, double seconds);
void virtual_exchange(struct virtual_clock *v, int sp, double seconds);
/* A gradient post: joins the collectives that are due after it, which run beside what follows. */
void virtual_post(struct virtual_clock *v, const struct execute_step *step);
/* This rank has no more micro-batches: the collectives of those that others still run do not wait for it. */
void virtual_join_rest(struct virtual_clock *v, const struct execute_step *step);
/* For all that were joined but the last `lag`. */
void virtual_wait(struct virtual_clock *v, const struct execute_step *step, int64_t lag);
double virtual_elapsed_s(const struct virtual_clock *v); /* by the wall clock */

#endif
