/* fill.h: step B of the DCP policies: which bucket gets the next ranks. Remaining samples per bucket, and for each sp
 * the list of its buckets that have some. Shared by dcp_inter, dcp and dcp_rebalance. */
#ifndef SIM_POLICY_FILL_H
#define SIM_POLICY_FILL_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/policy/policy.h"

struct fill_entry {
  int bucket, sp;
  int64_t count; /* samples of one micro-batch */
  double time_s;
};

struct fill_list {
  int sp;
  int n_buckets;
  int *buckets; /* insertion order; a bucket that comes back goes to the end */
};

struct fill {
  const struct policy_input *in;
  struct rng rng;
  bool published_by_share; /* PICK_PUBLISHED of dcp_rebalance: see fill_pick */
  int64_t *left;           /* per bucket */
  struct fill_list *lists; /* ascending sp; an sp that comes back goes to the end (published), to its place (fair) */
  int n_lists;
  int *memory; /* behind all lists */
  int n_injected_used;
};

/* `purpose` names the random stream. Buckets start with policy_bucket_samples(). */
int fill_init(struct fill *f, const struct policy_input *in, const char *purpose, bool published_by_share,
              struct err *err);
void fill_release(struct fill *f);

static inline bool fill_done(const struct fill *f) { return f->n_lists == 0; }

/* A bucket for at most `free_ranks`, or -1: none is eligible. Eligible are the sp at the front of the list, up to the
 * first that exceeds free_ranks (as published: the list need not be ascending). Injected picks first, then by
 * options.pick:
 * published: u in [0,1), the first sp in list order with u < its share of the eligible buckets, NOT cumulated, else the
 *   last eligible (published_by_share: sp with probability of its share); then a bucket of its list, uniform;
 * proportional: sp, then bucket, by remaining micro-batches;
 * deterministic: the last eligible sp (the largest while the list is ascending), the first bucket of its list. */
int fill_pick(struct fill *f, int free_ranks);

/* Takes from (count > 0) or gives back to (count < 0) what is left of a bucket, and keeps its list. */
void fill_take(struct fill *f, int bucket, int64_t count);

/* a // b: the whole times b goes into a, of the doubles as they are, where a rounded quotient a / b of 13 may stand for
 * a little less than 13. What "floor" means in the published rules. */
double fill_floor_divide(double a, double b);

/* Stable, by sp descending: so that groups laid out in this order from rank 0 on are aligned. */
void fill_sort(struct fill_entry *entries, int n);

#endif
