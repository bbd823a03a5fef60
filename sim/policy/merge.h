/* merge.h: --tokens-per-step for policies that accumulate: consecutive iterations become one optimizer step while the
 * sum of their real tokens stays within a limit, at least one. */
#ifndef SIM_POLICY_MERGE_H
#define SIM_POLICY_MERGE_H
#include <stdint.h>

#include "sim/base/err.h"
#include "sim/plan/plan.h"

struct merge {
  struct plan_iteration *parts; /* parts[n_parts]: the iteration looked ahead at, if any */
  size_t n_parts, parts_cap;
  bool ahead;
  int ahead_rc;
};

/* `next` as policy_next. Micro-batches of a later iteration are appended to the groups of the step's last round where
 * each of its groups is one of them, else its groups form a further round. A step of one iteration over the limit is
 * marked over_tokens. The caller finishes the iteration. Drops seen while looking ahead stay with their iteration. */
int merge_next(struct merge *m, int (*next)(void *context, struct plan_iteration *it, struct err *err), void *context,
               int64_t limit_tokens, struct plan_iteration *out, struct err *err);
void merge_release(struct merge *m);

#endif
