/* plan.h: what a policy makes, one iteration (= one optimizer step) at a time.
 *
 * A group is an aligned block of `sp` ranks and the micro-batches it runs, in order. Groups of one round are disjoint;
 * a later round (only where several iterations of a published rule are merged into one step) may form its groups anew
 * from the same ranks, each rank going through its groups in order, with no barrier between.
 * A micro-batch counts samples of one bucket (`bucket` >= 0) or holds ones that the policy chose itself (`bucket` -1:
 * static, packed). In a run with samples policy_next names them all: those of a bucket come from its queue, in arrival
 * order (sim/policy/bucket_queues.h). From a measured profile alone (`plan --profile`) `samples` stays NULL. */
#ifndef SIM_PLAN_PLAN_H
#define SIM_PLAN_PLAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/sample.h"

struct plan_micro_batch {
  int bucket;              /* index into the profile's buckets; -1: none, `samples` names them */
  int64_t count;           /* samples that run */
  const uint32_t *samples; /* indices into the run's sample_set, count of them; owned by the iteration's pool */
  int64_t tokens;          /* real tokens of `samples`; 0 while they are not named */
  bool packed;             /* concatenated; else padded to `shape` */
  struct sample shape;     /* padded only */
  int recompute_blocks[2]; /* per module */
  double time_s;           /* planned */
};

struct plan_group {
  int first_rank, sp, round;
  int bucket;      /* of all its micro-batches; -1 when they differ or are packed */
  int planned_gas; /* the number planned; n_micro_batches is what ran (fewer when samples run out) */
  size_t first_micro_batch, n_micro_batches; /* range in plan_iteration.micro_batches */
  double time_s;                             /* sum over its micro-batches */
};

struct plan_drop {
  int bucket; /* -1: `samples` names them */
  int64_t count;
  const uint32_t *samples; /* named in a run with samples, as for micro-batches */
  bool tail;               /* bucket >= 0: the last ones of the queue; else the next ones, before this iteration's */
};

struct plan_iteration {
  struct plan_group *groups; /* within a round by sp descending (stable), so that blocks are aligned */
  size_t n_groups, groups_cap;
  struct plan_micro_batch *micro_batches;
  size_t n_micro_batches, micro_batches_cap;
  struct plan_drop *drops; /* samples that the rule gave up since the iteration before. Drops after the last
                              iteration come with policy_next's final call */
  size_t n_drops, drops_cap;
  uint32_t **pools; /* arrays that `samples` pointers point into */
  size_t n_pools, pools_cap;
  int rounds;
  int64_t tokens;     /* real tokens; 0 while samples are not named */
  bool over_tokens;   /* exceeds --tokens-per-step even at one micro-batch */
  double time_s;      /* planned: max over ranks of the sum of their micro-batches */
  double imbalance_s; /* planned: mean over all W ranks of (time_s - T_r) */
};

void plan_iteration_clear(struct plan_iteration *it); /* empties, keeps array memory, frees pools */
void plan_iteration_release(struct plan_iteration *it);

/* Appends, zeroed but for the arguments; returns the new element (valid until the next append of its kind). A group is
 * of round 0; a micro-batch belongs to the LAST group added and gets its bucket. */
struct plan_group *plan_add_group(struct plan_iteration *it, int first_rank, int sp, int bucket);
struct plan_micro_batch *plan_add_micro_batch(struct plan_iteration *it);
/* An array of n indices owned by the iteration, for `samples`. */
uint32_t *plan_pool(struct plan_iteration *it, size_t n);
/* Does nothing when count is 0. */
void plan_add_drop(struct plan_iteration *it, int bucket, int64_t count, const uint32_t *samples, bool tail);

/* Sums tokens, micro-batch times into groups, then time_s and imbalance_s of the iteration over `world` ranks. Ranks
 * without a group count, with a time of 0. `lockstep` (zero 3): all ranks run the j-th micro-batches of a round
 * together, so time_s is the sum over rounds and j of the longest one. */
void plan_iteration_finish(struct plan_iteration *it, int world, bool lockstep);

#endif
