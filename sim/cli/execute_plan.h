/* execute_plan.h: a schedule's iterations as the executor plays them: lowered to programs and simulated, so that every
 * operation comes with the seconds predicted for it. */
#ifndef SIM_CLI_EXECUTE_PLAN_H
#define SIM_CLI_EXECUTE_PLAN_H
#include "models/params.h"
#include "sim/engine/step.h"
#include "sim/execute/execute.h"
#include "sim/plan/schedule_read.h"

struct execute_plan {
  struct schedule_reader reader;
  struct schedule_step line; /* read last */
  int64_t tokens;            /* of it, real */
  int64_t iterations;        /* of the whole schedule */
  struct transformer model;
  struct cluster cluster;
  struct params *params;
  struct system system;
  struct engine *engine;
  bool unequal_counts;
  struct program tail;
  double *tail_s;
  struct timeline simulated; /* the line's spans */
  /* Of the line, for the executor. */
  struct program *programs; /* per micro-batch */
  size_t n_programs, programs_cap;
  struct execute_micro_batch *micro_batches;
  struct execute_group *groups;
  struct execute_collective *collectives;
  double **predicted;           /* per micro-batch of this rank, else NULL */
  double predicted_step_s;      /* simulated; the schedule's line says the same */
  int64_t predicted_peak_bytes; /* of this rank's memory, over all iterations so far */
  struct execute_step step;
};

/* Refuses a schedule with findings: the message has the first. */
int execute_plan_open(struct execute_plan *p, const char *path, struct err *err);
void execute_plan_close(struct execute_plan *p);

/* The next iteration's groups and micro-batches alone, without programs and predictions: 1, 0 at the end, -1. After
 * execute_plan_rewind the first iteration is the next. */
int execute_plan_next_shapes(struct execute_plan *p, struct err *err);
int execute_plan_rewind(struct execute_plan *p, const char *path, struct err *err);

/* The next iteration as `rank` plays it: 1, 0 at the end, -1. What it points to is valid until the next call. */
int execute_plan_next(struct execute_plan *p, int rank, struct err *err);

/* The same samples for one rank without parallelism, padding or recomputation: a micro-batch for each sample, weighted
 * as its tokens are in `p`'s present iteration. *out points into itself and into p; release it. */
struct execute_single {
  struct program *programs;
  struct execute_micro_batch *micro_batches;
  struct execute_group group;
  struct execute_step step;
  size_t n;
};
void execute_single_make(struct execute_single *out, const struct execute_plan *p);
void execute_single_release(struct execute_single *s);

#endif
