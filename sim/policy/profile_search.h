/* profile_search.h: which (sp, batch) a bucket runs with: the rules alone, given what fits and what it takes. All
 * (sp, batch) by powers of two are looked at, sp ascending, batch ascending, up to the first batch of an sp that does
 * not fit; "best" is the highest batch/sp/time, of equal ones the first. `sequential`, as the published DCP searches: an
 * sp begins not at batch 1 but at a quarter of the batch that did not fit at the sp before, so small batches at large
 * sp, where most memory is left for kept activations, are never looked at. */
#ifndef SIM_POLICY_PROFILE_SEARCH_H
#define SIM_POLICY_PROFILE_SEARCH_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/policy/profile.h"

struct profile_search {
  void *context;
  /* Whether a micro-batch fits in the memory cap, every layer recomputed (or as --recompute says). */
  bool (*fits)(void *context, int sp, int64_t batch);
  /* Seconds of one that fits; fills recompute_blocks[2]. dcp: after recomputation is adapted to the spare memory. */
  double (*time_s)(void *context, int sp, int64_t batch, int recompute_blocks[2]);
  const int *sps; /* powers of two, ascending: what may be tried (an SP kind may not form all) */
  int n_sps;
  int64_t max_batch; /* --batch: the largest tried, itself included even if no power of two; 0: no limit */
  bool sequential;
};

/* bucket: batches of one sp while they fit; the last, but the one before it if that has more than twice its throughput.
 * False: infeasible, not even batch 1 fits. */
bool profile_search_fixed(const struct profile_search *s, int sp, struct candidate *best);

/* dcp_inter, dcp: the best of each sp over all batches that fit into detail (room for n_sps), best among those. */
bool profile_search_best(const struct profile_search *s, struct candidate *detail, int *n_detail,
                         struct candidate *best);

/* dcp_rebalance: the largest batch of each sp into detail (room for n_sps; *n_detail out), best among those. */
bool profile_search_largest(const struct profile_search *s, struct candidate *detail, int *n_detail,
                            struct candidate *best);

#endif
