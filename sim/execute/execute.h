/* execute.h: the second player: plays the programs of a schedule's steps on real devices, one process per rank, and
 * measures every operation under the name that the simulator knows it by.
 *
 * The program says what is done and in which order; what an operation does is looked up by its name (actions_1d.c,
 * actions_2d.c). Zero 0 to 2: all ranks hold the whole model (summed gradients and optimizer state are sharded from 1
 * on). Zero 3: each holds its shards, and gathers what the program gathers, where it says so; ranks meet there in every
 * micro-batch, so one that has fewer than others joins in theirs. Sharded within a node: every node has all shards, and
 * a reduction scatters within each, then sums across them.
 * Every rank of a group gets ceil(tokens / sp) rows; rows beyond the tokens are dummies without target. Tokens, targets
 * and weights come from the seed and the sample's id, so any schedule of the same samples trains on the same data. */
#ifndef SIM_EXECUTE_EXECUTE_H
#define SIM_EXECUTE_EXECUTE_H
#include <stdbool.h>
#include <stdint.h>

#include "kernels/communicator.h"
#include "kernels/device.h"
#include "models/transformer.h"
#include "sim/base/sample.h"
#include "sim/plan/program.h"

enum optimizer_kind { OPTIMIZER_ADAMW, OPTIMIZER_SGD };

/* A micro-batch of a checked schedule. Packed: samples follow each other; else each is padded to `shape`. */
struct execute_micro_batch {
  const struct program *program; /* lowered for its group's sp */
  int64_t batch;
  const struct sample *samples;
  const uint32_t *ids, *offsets; /* offsets: first token of a piece of a split sample; NULL: whole samples */
  bool packed;
  struct sample shape;
  int recompute_blocks[2];
  int ring; /* 1D: blocks of rows whose keys travel around; sp / ring ranks share the heads */
  double weight;
  /* Predicted seconds of each operation on this rank, in the order in which they are played, posts and waits not
   * counted; NULL (not on the virtual device): what each takes alone. */
  const double *predicted_s;
};

struct execute_group {
  int first_rank, sp, round;
  const struct execute_micro_batch *micro_batches;
  int n_micro_batches;
};

/* A collective over all ranks of the simulated step: starts when every rank has posted this often. */
struct execute_collective {
  int64_t after_post;
  double seconds;
};

/* One optimizer step: groups by rounds, as the schedule's line lists them. */
struct execute_step {
  int64_t iteration;
  const struct execute_group *groups;
  int n_groups;
  const struct program *tail;                   /* lower_step_tail */
  const double *tail_s;                         /* predicted seconds of each of its ops */
  const struct execute_collective *collectives; /* virtual device */
  int64_t n_collectives;
  bool posts_every_micro_batch; /* zero 3: always; else only in a rank's last */
};

struct execute_options {
  bool is_virtual; /* nothing is computed, every operation waits for its predicted time */
  uint64_t seed;
  enum optimizer_kind optimizer;
  int zero;             /* 0..3 */
  int shard_ranks;      /* aligned blocks of so many ranks share a copy of what zero shards; divides the number of
                         * ranks; 0: all share one */
  double learning_rate; /* 0: gradients are computed and nothing is updated */
};

/* What one operation took, over all its runs. */
struct execute_op {
  const char *name; /* waited: ends in " (waited)" */
  bool waited;      /* for ranks that do not exist, as long as predicted */
  uint8_t category; /* enum timeline_category */
  bool backward;
  int64_t count;
  double predicted_s, measured_s;
};

struct execute_result {
  double step_s; /* this rank, from the common start of the step to its end */
  double loss;   /* weighted mean over the step, of all ranks */
  double grad_norm;
};

struct executor;

/* The communicator of rank `rank` of `ranks` whose others do not exist: an executor over it plays this rank's part, and
 * waits where it would exchange. communicator_close closes it; the device must outlive it. */
struct communicator *execute_stand_in(struct device *device, int rank, int ranks);

/* `world` and its device must outlive the executor. A model or setting that cannot be played is an error that says so.
 */
int executor_open(struct executor **out, const struct transformer *model, const struct execute_options *options,
                  struct communicator *world, struct err *err);
/* Weights as the seed says, optimizer state 0: once, before the first step. */
int executor_start(struct executor *x, struct err *err);
void executor_close(struct executor *x); /* NULL is fine */

/* Plays one step together with all ranks. An error names rank, iteration and operation. `timeline` (may be NULL) gets
 * this rank's spans. */
int executor_step(struct executor *x, const struct execute_step *step, struct timeline *timeline,
                  struct execute_result *result, struct err *err);

/* Measured so far, by name. The array belongs to the executor. */
const struct execute_op *executor_ops(const struct executor *x, int *n);

/* What the executor does just now, for a watchdog: changes with every operation. */
struct execute_position {
  int64_t iteration, serial;
  const char *op;
};
struct execute_position executor_position(const struct executor *x);

/* Bytes of device memory that this rank will hold at most while it plays `step` (groups and micro-batches; programs and
 * predictions may be missing). Not on the virtual device. All ranks call it for the same steps. */
int executor_needs(struct executor *x, const struct execute_step *step, int64_t *bytes, struct err *err);

/* Peak bytes of device memory held by weights, gradients, state and activations. */
int64_t executor_peak_bytes(const struct executor *x);

/* Tensors, for comparing executors: name and length of tensor i, and its gradient (of the last step, summed over all
 * ranks; collective from zero 1 on) or weight in fp32, n numbers. */
int executor_tensors(const struct executor *x);
const char *executor_tensor(const struct executor *x, int i, int64_t *n);
int executor_gradient(struct executor *x, int i, float *out, struct err *err);
int executor_weight(struct executor *x, int i, float *out, struct err *err);

#endif
