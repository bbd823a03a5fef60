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

/* One node: the measured rows of 2, 4 and 8 ranks (the faster of two data types), log-log in bytes and in ranks between
 * them; below the first row its time, above the last its rate. Leaving one size out: median 3-4 %, p90 10-14 %.
 * send_recv: its rows, or without any a two-rank all_gather of twice the bytes.
 * Several nodes: the row where this placement was measured (all_reduce on 2, 4, 8 full nodes), else
 *   floor(op, nodes) + max( nic_bytes / (nic_rate(op, nodes) * ramp(nic_bytes)), nvlink_bytes / nvlink_rate )
 * with r = ranks/nodes members a node, each with its own NIC, n = ranks, B = bytes; per member
 *   all_reduce            nic 2(n-1)/n*B/r      nvlink 2(n-1)/n*B*(r-1)/r       (rings over all members)
 *   all_gather, r_scatter nic (n-1)/n*B/r       nvlink (n-1)/n*B*(r-1)/r
 *   all_to_all            nic B*(1 - 1/nodes)   nvlink B*(r-1)/n                (so B/t = N/(N-1) NIC rates)
 *   send_recv             nic B                 nvlink B                        (ring order: one hop per node crosses)
 * ramp: the share of its plateau a NIC reaches with few bytes, from the 32-GPU all_reduce log. Rates and floors:
 * models.md facts, in the parameter file with sources; beyond 128 nodes the rate stays and the floor grows on.
 * Other NIC or NVLink speeds scale the rates. With oversubscription > 1 the time is at least what the core needs for
 * all members' bytes. Loads: bytes / time / port speed, the bottleneck's set to 1. */

/* `ranks` members on `nodes` nodes (ranks/nodes on each; aligned blocks). ranks 1: zero time. */
struct collective_cost collective_cost(const struct params *p, const struct cluster *c, enum collective kind, int ranks,
                                       int nodes, double bytes);

#endif
