#include "models/flow.h"

#include <stddef.h>

#include "sim/base/err.h"

/* Progressive filling. All transfers that are not frozen share one rate, the level. Every constraint (a port kind of a
 * class, or the core) has the form fixed + level*rising <= 1, so it is full at (1 - fixed)/rising. Each round raises
 * the level to the least such value and freezes the transfers through the constraints that are full there. A round
 * freezes at least one class, so there are at most n rounds of O(n) work. */

struct filling {
  struct flow_class *classes;
  int n;
  int everywhere; /* index, or -1 */
  bool frozen[FLOW_MAX_CLASSES];
};

/* Transfers of this class that share one port. */
static double sharers(const struct flow_class *c) { return c->same_ports ? (double)c->count : 1; }

/* Adds the use of a port (or the core) by `transfers` transfers of class i. */
static void add_use(const struct filling *f, int i, double transfers, enum port k, double *fixed, double *rising) {
  const double load = transfers * f->classes[i].load[k];
  if (f->frozen[i])
    *fixed += load * f->classes[i].rate;
  else
    *rising += load;
}

/* The level at which this constraint is full; above 1 when it never is. */
static double full_at(double fixed, double rising) {
  if (rising <= 0)
    return 2;
  return fixed >= 1 ? 0 : (1 - fixed) / rising;
}

/* Port kind k of class i, shared with the everywhere transfer. */
static double port_full_at(const struct filling *f, int i, enum port k) {
  double fixed = 0, rising = 0;
  add_use(f, i, sharers(&f->classes[i]), k, &fixed, &rising);
  if (f->everywhere >= 0 && f->everywhere != i)
    add_use(f, f->everywhere, 1, k, &fixed, &rising);
  return full_at(fixed, rising);
}

static double core_full_at(const struct filling *f) {
  double fixed = 0, rising = 0;
  for (int i = 0; i < f->n; i++)
    if (f->classes[i].count > 0)
      add_use(f, i, (double)f->classes[i].count, PORT_CORE, &fixed, &rising);
  return full_at(fixed, rising);
}

static void freeze(struct filling *f, int i, enum port k, double level) {
  if (f->frozen[i] || f->classes[i].load[k] <= 0)
    return;
  f->frozen[i] = true;
  f->classes[i].rate = level;
}

static double next_level(const struct filling *f) {
  double level = core_full_at(f);
  for (int i = 0; i < f->n; i++)
    for (int k = 0; f->classes[i].count > 0 && k < PORT_CORE; k++) {
      double at = port_full_at(f, i, (enum port)k);
      level = at < level ? at : level;
    }
  return level;
}

/* Finds the full constraints first, then freezes: freezing moves a class's use from rising to fixed. */
static void freeze_full(struct filling *f, double level) {
  bool full[FLOW_MAX_CLASSES][PORT_CORE];
  const bool core_full = core_full_at(f) <= level;
  for (int i = 0; i < f->n; i++)
    for (int k = 0; k < PORT_CORE; k++)
      full[i][k] = f->classes[i].count > 0 && port_full_at(f, i, (enum port)k) <= level;
  for (int i = 0; i < f->n; i++) {
    if (f->classes[i].count <= 0)
      continue;
    if (core_full)
      freeze(f, i, PORT_CORE, level);
    for (int k = 0; k < PORT_CORE; k++) {
      if (!full[i][k])
        continue;
      freeze(f, i, (enum port)k, level);
      if (f->everywhere >= 0)
        freeze(f, f->everywhere, (enum port)k, level);
    }
  }
}

void flow_share(struct flow_class *classes, int n) {
  ASSERT(n >= 0 && n <= FLOW_MAX_CLASSES);
  struct filling f = {.classes = classes, .n = n, .everywhere = -1};
  for (int i = 0; i < n; i++) {
    classes[i].rate = 1;
    f.frozen[i] = classes[i].count <= 0;
    if (classes[i].everywhere && classes[i].count > 0) {
      ASSERT(f.everywhere < 0 && classes[i].count == 1);
      f.everywhere = i;
    }
  }
  for (int round = 0; round < n; round++) {
    double level = next_level(&f);
    if (level >= 1)
      break;
    freeze_full(&f, level);
  }
}
