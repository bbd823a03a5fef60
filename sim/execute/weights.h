/* weights.h: the parameters of a model on one device, their gradients and the optimizer's state, as flat arrays of
 * *ranges*: the parts of the model that are gathered, and whose gradients become ready and are reduced, together (a
 * block, the head, the rest). Each range is padded so that the ranks that share a copy get equal shards of it.
 *
 * Zero 3: of elements and gradients, too, a rank keeps its shards only. A range is whole from its gather on until the
 * second one after it: two are whole at a time, the one in use and the next. Its gradient is whole from
 * weights_begin_grad to weights_reduce. A *held* range (used before and after the blocks) has memory of its own for
 * both. Private to sim/execute. */
#ifndef SIM_EXECUTE_WEIGHTS_H
#define SIM_EXECUTE_WEIGHTS_H
#include "sim/execute/execute.h"

struct tensor {
  char name[40];
  int range;
  int64_t offset, n; /* offset in the flat arrays */
};

struct range {
  int64_t offset, n;           /* in the flat arrays; n padded */
  int64_t state_offset, shard; /* in the arrays of shards: n / shards numbers */
  bool held, reduced;          /* reduced: in this step (zero 0 to 2) */
  void *elements, *grad;       /* (n), fp32 (n): where they are whole at present, else NULL */
};

/* Which ranks have the parts of the training state that this one has not, and which have the same. */
struct sharding {
  struct communicator *shards;   /* ranks that share one copy, a shard each; zero 0: this one alone */
  struct communicator *replicas; /* ranks that have the same shard, one of each copy; NULL: there is one copy */
};

struct weights {
  struct sharding sharding;
  struct device *device;
  bool gathers; /* zero 3 */
  struct tensor *tensors;
  size_t n_tensors, tensors_cap;
  struct range *ranges;
  size_t n_ranges, ranges_cap;
  int64_t n, n_state;
  void *elements;       /* (n); zero 3: (n_state) */
  void *grad;           /* fp32 (n): this rank's sum; zero 3: (n_held + the largest range) */
  void *shard_grad;     /* fp32 (n_state): summed over ranks; without shards, but for zero 3: grad itself */
  void *master, *m, *v; /* fp32 (n_state) */
  void *send;           /* zero 1, 2: elements of the largest shard, for gathering */
  void *scalar;         /* fp32 (1) */
  /* Zero 3: held ranges (n_held), then what one range and the next need (n_pair), which lie at its two ends in turn. */
  void *whole;
  int64_t n_held, n_pair;
  int latest; /* range gathered last, of those that are not held; -1: none */
  int64_t bytes;
};

/* Building: ranges, then tensors of the last range; then weights_allocate; then
 * weights_start fills them from the seed and the names, which takes its time where they are many. */
int weights_add_range(struct weights *w, bool held);
int weights_add(struct weights *w, int64_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int weights_allocate(struct weights *w, struct communicator *world, const struct execute_options *options,
                     struct err *err);
int weights_start(struct weights *w, uint64_t seed, struct err *err);
void weights_release(struct weights *w);

/* Where a tensor's elements and gradient are, which must be whole. */
void *weights_elements(const struct weights *w, int tensor);
void *weights_grad(const struct weights *w, int tensor);

/* A step: clear; reduce each range once over all ranks (zero 3: once per begun gradient, which adds to the shards);
 * norm of the summed gradient; update of this rank's shard; zero 1, 2: the new elements of all ranges gathered.
 * Reducing: each copy's ranks scatter their sum over their shards, which are then summed over the copies. */
int weights_clear(struct weights *w, struct err *err);
int weights_reduce(struct weights *w, int range, struct err *err);
int weights_norm(struct weights *w, double *norm, struct err *err);
int weights_update(struct weights *w, const struct execute_options *options, int64_t step, struct err *err);
int weights_gather_all(struct weights *w, struct err *err);

/* Zero 3: makes a range whole; begins its gradient, which no other but a held one's may be at the time. */
int weights_gather(struct weights *w, int range, struct err *err);
int weights_begin_grad(struct weights *w, int range, struct err *err);

#endif
