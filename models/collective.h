/* collective.h: seconds of one collective alone on the network, and how much of each kind of port it fills while it
 * runs. `bytes` is counted as nccl-tests counts size: all_reduce, all_to_all: the buffer of one rank; all_gather: the
 * gathered result; reduce_scatter: the input of one rank; send_recv: the message. */
#ifndef MODELS_COLLECTIVE_H
#define MODELS_COLLECTIVE_H
#include <stdint.h>

#include "models/hardware.h"
#include "models/params.h"

enum collective {
  COLLECTIVE_ALL_REDUCE,
  COLLECTIVE_ALL_GATHER,
  COLLECTIVE_REDUCE_SCATTER,
  COLLECTIVE_ALL_TO_ALL,
  COLLECTIVE_SEND_RECV, /* each rank sends `bytes` to the next of a ring and receives as much */
  COLLECTIVE_KINDS
};
const char *collective_name(enum collective c); /* "all_reduce", ... */

/* Ports a transfer loads. Load 1 = this transfer alone runs at the rate this port allows it. */
enum port { PORT_NVLINK, PORT_NIC, PORT_CORE, PORT_KINDS };

struct collective_cost {
  double time_s;           /* uncontended, latency included: exactly the table value where the table has a row */
  double load[PORT_KINDS]; /* of each port of each member, 0..1, the largest is 1 (0 for one rank); PORT_CORE: the
                              fraction of the whole oversubscribed core, 0 when it is not oversubscribed */
};

/* `ranks` members on `nodes` nodes (ranks/nodes on each; aligned blocks). ranks 1: zero time. */
struct collective_cost collective_cost(const struct params *p, const struct cluster *c, enum collective kind, int ranks,
                                       int nodes, double bytes);

#endif
