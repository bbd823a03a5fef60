/* policy.h: a scheduling policy: from bucket profiles and samples to iterations. One policy per file, one row each in
 * table.c. A policy knows nothing of programs, networks or clocks: times come from the profile or from `costs`. */
#ifndef SIM_POLICY_POLICY_H
#define SIM_POLICY_POLICY_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/err.h"
#include "sim/base/rng.h"
#include "sim/plan/plan.h"
#include "sim/plan/sample_set.h"
#include "sim/policy/profile.h"

enum pick { PICK_PUBLISHED, PICK_PROPORTIONAL, PICK_DETERMINISTIC };
enum packing { PACKING_NEXT_FIT, PACKING_BFD, PACKING_LPT };

/* What is done with iterations and batches that cannot be filled: see product.md "fairness". */
enum remainder_rule {
  REMAINDER_FAIR,      /* ours: partial batches run, an unfilled iteration runs with idle ranks, nothing discarded */
  REMAINDER_DROP_LAST, /* published drop_last */
  REMAINDER_KEEP_LAST  /* published keep_last: partial batches run, unfilled iterations are discarded */
};

struct policy_options {
  enum remainder_rule remainder;
  enum pick pick;
  int max_gas, min_gas;
  int64_t tokens_per_step; /* real tokens; 0 = off */
  enum packing packing;
  int64_t pack_tokens;  /* capacity of one pack of one group */
  int64_t rank_tokens;  /* megatron_dynamic_cp: capacity of one rank in one micro-batch */
  int64_t global_batch; /* megatron_*: samples of a step; 0: see global_batch.h */
  uint32_t sp_degrees;  /* megatron_dynamic_cp: bit i: groups of 2^i ranks can be formed; 0: all up to the world */
  int64_t batch;        /* static: its size */
  bool packed;          /* given: batches are packed, else padded */
  int sp;               /* fixed-SP policies */
  int per_octave;       /* static, given: rounding of the padded length */
  bool shuffle;
  bool lockstep;                /* zero 3: see plan_iteration_finish */
  int full_recompute_blocks[2]; /* recomputed blocks per module for policies that do not adapt it */
};

/* Times of shapes that no profile holds (static, packed): program_time() of the shape. NULL with --profile. */
struct policy_costs {
  void *context;
  double (*padded_time_s)(void *context, int sp, int64_t batch, struct sample shape, const int recompute_blocks[2]);
  double (*packed_time_s)(void *context, int sp, const struct sample *samples, int64_t n,
                          const int recompute_blocks[2]);
};

struct bucket_queues;

struct policy_input {
  int world;
  const struct profile *profile;    /* bucket policies; buckets without samples or infeasible are skipped by all */
  const struct sample_set *samples; /* NULL with --profile: counts come from the profile then */
  const uint8_t *excluded;          /* static, packed: nonzero for each entry of `samples` that does not fit alone (it
                                       is infeasible: neither run nor dropped, the caller counts it); NULL: none.
                                       packed leaves out samples longer than pack_tokens by itself as well */
  struct policy_options options;
  struct policy_costs costs;
  uint64_t seed;
  /* Tests: picks (bucket indices) used in order instead of drawing, unusable ones skipped, deterministic afterwards. */
  const int *injected_picks;
  int n_injected_picks;
  const struct bucket_queues *queues; /* set by policy_open, when there are samples and the policy is bucketed */
};

enum {
  POLICY_FIXED_SP = 1,       /* one sp for all groups: --sp applies */
  POLICY_NEEDS_SAMPLES = 2,  /* cannot run from a profile alone */
  POLICY_BUCKETED = 4,       /* runs bucket profiles */
  POLICY_UNEQUAL_COUNTS = 8, /* groups of one iteration may run different numbers of micro-batches */
  POLICY_ADAPTS_RECOMPUTE = 16,
  POLICY_MERGES = 32,        /* --tokens-per-step merges consecutive iterations (else the policy makes smaller ones) */
  POLICY_PACKS = 64,         /* micro-batches are packs: what fits is counted in tokens */
  POLICY_GLOBAL_BATCH = 128, /* --global-batch samples a step, --rank-tokens in place of --pack-tokens */
  POLICY_GIVEN = 256         /* runs the batches that the trace holds, which all fit */
};

struct policy {
  const char *name, *help; /* help: one line with the source of the rule */
  unsigned flags;
  int default_min_gas; /* 0 where there is none */
  /* *run is the policy's own state; `in` (what `in` points to as well) outlives it. */
  int (*open)(void **run, const struct policy_input *in, struct err *err);
  /* Fills *it (cleared by the caller). 1: an iteration; 0: the end (it->drops may still name drops); -1: error.
   * Buckets' samples are counted only and nothing is summed: policy_next names them and finishes the iteration. */
  int (*next)(void *run, struct plan_iteration *it, struct err *err);
  void (*close)(void *run);
};

extern const struct policy *const policies[]; /* NULL-terminated: the whole registry, in table.c */
/* NULL and a usage error that lists the valid names. */
const struct policy *policy_find(const char *name, struct err *err);

/* Samples of a bucket that its policy may run: 0 for an infeasible one. */
int64_t policy_bucket_samples(const struct policy_input *in, int bucket);

/* A policy at work. Around the policy's own rule policy_next names the samples of every micro-batch and drop, replaces
 * the planned time of micro-batches that are not a profiled size by costs.padded_time_s (where given), and merges
 * iterations under --tokens-per-step (POLICY_MERGES). Run + dropped over all calls, the final one included, are all
 * samples of feasible buckets (static, packed: all that are not excluded), each once.
 * `in` is copied; what it points to must outlive the run. Iterations own what they name: they may outlive it. */
struct policy_run;
int policy_open(struct policy_run **run, const struct policy *policy, const struct policy_input *in, struct err *err);
/* Clears and fills *it. 1: an iteration; 0: the end (it->drops may still name drops); -1: error. */
int policy_next(struct policy_run *run, struct plan_iteration *it, struct err *err);
void policy_close(struct policy_run *run); /* NULL is fine */

#endif
