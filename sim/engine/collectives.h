/* collectives.h: the collectives over all ranks that a step issues, in order: gradient buckets and, under zero 3,
 * parameter gathers. Every program of a model posts the same sequence, so one program tells it. */
#ifndef SIM_ENGINE_COLLECTIVES_H
#define SIM_ENGINE_COLLECTIVES_H
#include <stdbool.h>
#include <stdint.h>

#include "models/collective.h"
#include "models/system.h"
#include "sim/plan/program.h"

struct step_collective {
  int after_post; /* starts once every rank has posted this many times in its micro-batch */
  const char *name;
  enum collective kind;
  double bytes; /* as collective.h counts */
  int64_t ns;   /* uncontended */
  double load[PORT_KINDS];
};

struct collectives {
  struct step_collective *v; /* of one micro-batch */
  size_t n, cap;
  bool every_micro_batch; /* zero 3, and zero 2 with equal counts; else only in a rank's last */
};

/* Buckets of at least the framework's size are formed from consecutive gradient posts (zero 0 to 2); under zero 3 every
 * post is a collective of its own. */
void collectives_init(struct collectives *c, const struct system *s, const struct program *p, bool unequal_counts);
void collectives_release(struct collectives *c);

/* Uncontended cost of one gradient reduction or parameter gather over all ranks; with `shard node` its two levels. */
struct collective_cost collectives_cost(const struct system *s, enum collective kind, double bytes);
/* Its time on the clock, OP_MAX_NS at most. */
int64_t collectives_ns(double seconds);
/* 0, or -1 where it takes longer than that. */
int collectives_check(const struct system *s, enum collective kind, double bytes, struct err *err);

#endif
