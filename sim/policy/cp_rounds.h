/* cp_rounds.h: what versions of Megatron-Core's dynamic context parallelism share: a step is a global batch, run in one
 * or more rounds; in a round ranks form groups of different SP degrees, each with one pack; samples that found no place
 * wait for the next round. Rules differ in how they place samples: `form`.
 *
 * After `form`, while ranks are empty, the first group of the lowest degree goes to the next degree. Rounds of a step
 * are not synchronised: the original hands each rank its list of packs and runs its usual loop of micro-batches, in
 * which ranks meet only in the exchanges of their groups and in the gradients at the end of the step.
 *
 * Ours: groups are laid out by degree, highest first, so that blocks are aligned (the original lays them out as they
 * were opened); where no degree fits the empty ranks (worlds that are no power of two; --max-sp) they idle, while the
 * original fails or runs one group of all ranks. */
#ifndef SIM_POLICY_CP_ROUNDS_H
#define SIM_POLICY_CP_ROUNDS_H
#include <stdint.h>

#include "sim/policy/global_batch.h"
#include "sim/policy/policy.h"

struct cp_group {
  int sp;
  double work, fill; /* of each of its ranks: L^2 / sp and tokens, summed over its samples */
  int64_t first, n;  /* its samples: n entries of `pack` from the first */
  int place;         /* among the groups of its degree */
};

/* The groups of one degree in the order they were opened, as the leaves of a binary tree that keeps the least work and
 * the least fill below each node: a group for a sample is found without looking at all. */
struct cp_least {
  double work, fill;
};

struct cp_degree {
  int n, n_leaves;        /* groups; room for them, a power of two */
  int *groups;            /* of each leaf */
  struct cp_least *nodes; /* 1: the root; 2 k and 2 k + 1: below k; the leaves from n_leaves on */
};

#define CP_DEGREES 31

/* A sample of the batch that has not run yet. */
struct cp_item {
  int64_t tokens, position; /* position: arrival in the batch */
  uint32_t entry;
  int group; /* of this round; -1: waits for the next */
};

struct cp_rounds {
  const struct policy_input *in;
  struct global_batch batch;
  struct cp_item *items; /* longest first, equal ones as they arrived */
  int64_t n_items, items_cap;
  uint32_t *pack; /* scratch: the entries of the round's groups, one after the other */
  /* the round being formed */
  struct cp_group *groups; /* in the order they were opened */
  int n_groups, free_ranks;
  double most_work;                     /* of any rank */
  struct cp_degree degrees[CP_DEGREES]; /* by log2 of the degree */
  void (*form)(struct cp_rounds *r);
};

/* `form` finds n_items > 0 items, none in a group, and no group; it must place at least the first. */
int cp_rounds_open(void **run, const struct policy_input *in, void (*form)(struct cp_rounds *r), struct err *err);
int cp_rounds_next(void *run, struct plan_iteration *it, struct err *err);
void cp_rounds_close(void *run);

/* ---- For `form` ---- */

/* L^2 / sp: the only cost the rules know. */
static inline double cp_work(int64_t tokens, int sp) { return (double)tokens * (double)tokens / sp; }
/* The next degree above; more than the world: none. */
int cp_next_degree(const struct policy_input *in, int sp);
/* The least degree at which the tokens fit. */
int cp_needed_degree(const struct policy_input *in, int64_t tokens);
int cp_open_group(struct cp_rounds *r, int sp); /* its index */
void cp_join_group(struct cp_rounds *r, struct cp_item *item, int group);
/* Of the groups of degree `sp` whose tokens per rank stay within rank_tokens: the one in which the larger of `floor`
 * and its work + `more_work` is least, of equals the first opened; -1: none has room. */
int cp_find_group(const struct cp_rounds *r, int sp, int64_t tokens, double more_work, double floor);
int cp_count_groups(const struct cp_rounds *r, int sp);
/* Of any group; there must be one. */
double cp_least_work(const struct cp_rounds *r);

#endif
