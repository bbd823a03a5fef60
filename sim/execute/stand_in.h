/* stand_in.h: a communicator for one rank of many whose other ranks do not exist: every collective lasts as long as it
 * is told to. What the others would send is zero; gathered parts of theirs keep what they held; sums are this rank's
 * own. A row that communicator_open does not know. Private to sim/execute. */
#ifndef SIM_EXECUTE_STAND_IN_H
#define SIM_EXECUTE_STAND_IN_H
#include <stdbool.h>

#include "kernels/communicator.h"

/* communicator_close closes it. The device must outlive it. */
struct communicator *stand_in_open(struct device *device, int rank, int ranks);

bool stand_in_is(const struct communicator *c);
/* The next collectives together take this long. */
void stand_in_expect(struct communicator *world, double seconds);

#endif
