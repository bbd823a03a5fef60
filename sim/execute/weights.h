/* weights.h: the parameters of a model on one device, their gradients and the optimizer's state, as flat arrays of
 * *ranges*: the parts of the model whose gradients become ready, and are reduced, together (a block, the head, the
 * rest). Each range is padded so that all ranks get equal shards of it. Private to sim/execute. */
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
  int64_t state_offset, shard; /* in the optimizer's arrays: n / shards numbers */
  bool reduced;                /* in this step */
};

struct weights {
  struct communicator *world;
  struct device *device;
  int shards; /* 1 under zero 0, else ranks */
  struct tensor *tensors;
  size_t n_tensors, tensors_cap;
  struct range *ranges;
  size_t n_ranges, ranges_cap;
  int64_t n, n_state;
  void *elements;       /* (n) */
  void *grad;           /* fp32 (n): this rank's sum */
  void *shard_grad;     /* fp32 (n_state): summed over ranks; zero 0: grad itself */
  void *master, *m, *v; /* fp32 (n_state) */
  void *send;           /* elements of the largest shard, for gathering */
  void *scalar;         /* fp32 (1) */
  int64_t bytes;
};

/* Building: ranges, then tensors of the last range; then weights_allocate; then
 * weights_start fills them from the seed and the names, which takes its time where they are many. */
int weights_add_range(struct weights *w);
int weights_add(struct weights *w, int64_t n, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int weights_allocate(struct weights *w, struct communicator *world, int zero, struct err *err);
int weights_start(struct weights *w, uint64_t seed, struct err *err);
void weights_release(struct weights *w);

/* Where a tensor's elements and gradient are. */
void *weights_elements(const struct weights *w, int tensor);
void *weights_grad(const struct weights *w, int tensor);

/* A step: clear; reduce each range once over all ranks; norm of the summed gradient; update of this rank's shard; the
 * new elements gathered. */
int weights_clear(struct weights *w, struct err *err);
int weights_reduce(struct weights *w, int range, struct err *err);
int weights_norm(struct weights *w, double *norm, struct err *err);
int weights_update(struct weights *w, const struct execute_options *options, int64_t step, struct err *err);
int weights_gather(struct weights *w, struct err *err);

#endif
