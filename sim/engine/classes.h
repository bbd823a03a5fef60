/* classes.h: work that advances at a common rate. Each class keeps a virtual clock of work done per member since it
 * began (2^20 units a nanosecond) and a heap of members by the clock value at which each is finished. */
#ifndef SIM_ENGINE_CLASSES_H
#define SIM_ENGINE_CLASSES_H
#include <stdbool.h>
#include <stdint.h>

#include "models/flow.h"
#include "sim/base/err.h"
#include "sim/base/heap.h"

#define UNITS_PER_NS ((int64_t)1 << 20)
#define MAX_WORK_NS (INT64_MAX / UNITS_PER_NS / 2) /* over an hour; step_check refuses longer ops */
#define MAX_CLASSES 24

static inline int64_t work_units(int64_t ns) {
  ASSERT(ns >= 0 && ns < MAX_WORK_NS);
  return ns * UNITS_PER_NS;
}

struct work_class_clock {
  int64_t units, since_ns; /* clock value at since_ns */
  int64_t rate;            /* units per ns, 1..UNITS_PER_NS */
  struct heap members;
  double load[PORT_KINDS]; /* exchanges and the collective */
};

enum { CLASS_COMPUTE, CLASS_COLLECTIVE, CLASS_FIRST_EXCHANGE };

struct classes {
  struct work_class_clock v[MAX_CLASSES];
  int n;
  int64_t overlapped_rate; /* of compute beside a collective */
  bool core_limited;       /* counts matter, not only presence */
  uint64_t signature;      /* of the state that the present rates were computed for */
};

void classes_init(struct classes *c, double overlap_slowdown_frac, bool core_limited);
void classes_reset(struct classes *c); /* keeps the exchange classes and memory */
void classes_release(struct classes *c);

/* The exchange class of this load vector, made if new. */
int classes_exchange(struct classes *c, const double load[PORT_KINDS]);

/* Adds `ns` of uncontended work for `payload`. Rates are stale until classes_update. */
void classes_start(struct classes *c, int class, int64_t now_ns, int64_t ns, uint32_t payload);
/* Earliest time at which a member finishes; INT64_MAX when there is none. */
int64_t classes_next_ns(const struct classes *c, int *class);
/* Removes the member that finishes first in this class. */
uint32_t classes_finish(struct classes *c, int class, int64_t now_ns);
/* Recomputes rates after starts and finishes at now_ns. */
void classes_update(struct classes *c, int64_t now_ns);

#endif
