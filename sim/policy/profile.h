/* profile.h: per bucket, what a micro-batch costs at each (sp, batch): measured (a dcpsim.profile/1 file) or modelled.
 */
#ifndef SIM_POLICY_PROFILE_H
#define SIM_POLICY_PROFILE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"
#include "sim/base/sample.h"

/* One way to run a bucket. */
struct candidate {
  int sp;
  int64_t batch;
  double time_s;
  int recompute_blocks[2]; /* per module; a measured profile leaves -1 */
};

struct bucket_profile {
  char name[32];
  struct sample shape; /* {0, 0} in a measured profile */
  int64_t samples;
  struct candidate best;    /* what the policy runs */
  struct candidate *detail; /* by sp ascending: of each sp the largest batch (dcp_rebalance) or the best; NULL with one
                               fixed sp */
  int n_detail;
  bool infeasible; /* does not fit alone at any sp this policy may use */
};

struct profile {
  int world, max_sp;
  struct bucket_profile *buckets; /* insertion order */
  int n_buckets;
};

int profile_read(struct profile *out, const char *path, struct err *err);
/* As profile_read takes it; infeasible buckets are left out. What was kept from recomputation is not written. */
void profile_write(FILE *out, const struct profile *p);
void profile_release(struct profile *p);

#endif
