/* schedule.h: the schedule file (JSON Lines, dcpsim.schedule/1): what is checked and executed. */
#ifndef SIM_PLAN_SCHEDULE_H
#define SIM_PLAN_SCHEDULE_H
#include <stdbool.h>
#include <stdint.h>

#include "models/system.h"
#include "sim/base/err.h"
#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/plan/plan.h"
#include "sim/plan/sample_set.h"

#define SCHEDULE_SCHEMA "dcpsim.schedule/1"
/* Tokens of a micro-batch: past any cluster, and the memory model's products still fit. */
#define SCHEDULE_MAX_TOKENS 10000000000

struct schedule_header {
  char policy[32], trace[128], model[128], cluster[128], framework[32], weighting[16], params[256], params_sha256[65];
  int world, gpus_per_node, zero;
  bool shard_node, partial;
  bool is_2d; /* names the modules; may be left to the writer when there are iterations */
  enum sp_kind sp_kind;
  uint64_t seed;
  int64_t samples_total, memory_cap_bytes;
  /* What else the memory rule needs; each is a key of the file only when it is not the default: grad_bytes 2 (0 is read
   * as 2) or 4 ("grad_dtype"), head_chunk 0, offload_optimizer false ("offload": "optimizer"), memory_rule
   * MEMORY_MODELLED. */
  int grad_bytes;
  int64_t head_chunk;
  bool offload_optimizer;
  enum memory_rule memory_rule;
};

/* Writing: header first (the id lists are written from `dropped`, `infeasible`, `overlong`), then iterations in order.
 * The header names all dropped ids, which are only known at the end: iterations are therefore spooled to a temporary
 * file beside the target and joined on commit. */
struct schedule_writer;
int schedule_writer_open(struct schedule_writer **w, const char *path, struct err *err);
/* The same into a file that is open, at its end, and stays the caller's. */
int schedule_writer_open_file(struct schedule_writer **w, FILE *file, struct err *err);
/* `weights`: one per micro-batch of the iteration, summing to 1. `group_time_s`: predicted, one per group. */
int schedule_writer_iteration(struct schedule_writer *w, const struct sample_set *samples,
                              const struct transformer *model, const struct plan_iteration *it, const double *weights,
                              double predicted_time_s, const double *group_time_s, struct err *err);
/* Writes everything and closes, on failure too (then no file is left or changed). Id lists are trace ids, or
 * [id, offset] pairs where offsets are given. */
struct schedule_ids {
  const uint32_t *ids, *offsets; /* offsets NULL: whole samples */
  int64_t n;
};
int schedule_writer_commit(struct schedule_writer *w, const struct schedule_header *h, struct schedule_ids dropped,
                           struct schedule_ids infeasible, struct schedule_ids overlong, struct err *err);
void schedule_writer_discard(struct schedule_writer *w); /* NULL is fine */

/* The weight of each micro-batch of an iteration (policies.md "Gradient weighting"). published: rank r of the A ranks
 * that work weighs 1/A, shared equally by the micro-batches it runs; a micro-batch gets the sum over its ranks (for a
 * group that is alone on its ranks this is sp/(A*m)). per_token: its real tokens over the step's. */
void schedule_weights(const struct plan_iteration *it, const struct sample_set *samples, int world, bool per_token,
                      double *weights);

/* Checking a file: every finding, one by one, to `finding`; returns the number of findings, or -1 when the file cannot
 * be read at all. The model, cluster and parameters named in the header are loaded for the memory rule. */
struct schedule_finding {
  int64_t iteration, group; /* -1: of the whole schedule */
  const char *rule;         /* static: "coverage", "ranks", "memory", "weights", "shape", "header", ... */
  char message[256];
};
struct schedule_check {
  int64_t iterations, samples;
};
int64_t schedule_check(const char *path, struct schedule_check *summary,
                       void (*finding)(void *context, const struct schedule_finding *f), void *context,
                       struct err *err);

#endif
