/* flow.h: max-min fair sharing of ports over classes of equal transfers.
 *
 * A class is `count` equal transfers, each with its own private ports of each kind, all sharing the core. One class may
 * be `everywhere`: a single transfer that loads every port of the cluster (a gradient collective). Rates are fractions
 * of a transfer's uncontended rate. Progressive filling: all rates rise together until a port is full; the transfers
 * through it stop there; the others go on.
 * Port constraints for each class c and port kind k: rate_c*load_c[k] + rate_everywhere*load_everywhere[k] <= 1, and
 * for the core: sum over classes count*rate*load <= 1. Hence O(classes^2), whatever the number of ranks. */
#ifndef MODELS_FLOW_H
#define MODELS_FLOW_H
#include <stdbool.h>
#include <stdint.h>

#include "models/collective.h"

#define FLOW_MAX_CLASSES 32

struct flow_class {
  int64_t count;   /* active transfers; 0 = absent, rate is then 1 */
  bool everywhere; /* at most one class, count <= 1 */
  bool same_ports; /* the `count` transfers of this class share ONE set of ports instead of private ones */
  double load[PORT_KINDS];
  double rate; /* out */
};

/* Fills rate of each class, in [0, 1]; 1 when nothing it uses is full. n <= FLOW_MAX_CLASSES. Two transfers of load 1
 * on one port get 0.5 each. Source: max-min fairness by progressive filling (Bertsekas & Gallager, Data
 * Networks, 6.5.2). */
void flow_share(struct flow_class *classes, int n);

#endif
