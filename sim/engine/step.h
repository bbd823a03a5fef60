/* step.h: the simulator: plays one optimizer step, all groups together, in virtual time.
 *
 * Three kinds of work advance at rates below 1 when they meet: compute (slowed beside a collective over all ranks), SP
 * exchanges and those collectives (sharing ports by max-min fairness, models/flow.h). Work of equal rate forms a class
 * with one virtual clock, in fixed point, so a rate change touches the class and not its members, and so results do not
 * depend on when the clock was started: integer arithmetic throughout.
 *
 * Fast path: nothing can meet before every rank that synchronises has reached its first collective, so each group is
 * folded alone up to there (sim/plan/program_time.h) and only the rest is played by events; and there compute ops that
 * follow each other are one event (step_run.c). `plain` turns both off: the slow, obvious twin, equal to the
 * nanosecond.
 */
#ifndef SIM_ENGINE_STEP_H
#define SIM_ENGINE_STEP_H
#include <stdbool.h>
#include <stdint.h>

#include "models/system.h"
#include "sim/plan/program.h"
#include "sim/plan/timeline.h"

struct step_group {
  int first_rank, sp, round;
  const struct program *const *programs; /* of its micro-batches, in order */
  int n_micro_batches;
};

struct step_input {
  const struct step_group *groups; /* rounds ascending; within a round disjoint, aligned */
  int n_groups;
  const double *factors; /* per rank, compute durations are multiplied by it; NULL: all 1 */
  bool plain;
  struct timeline *timeline; /* NULL, or where to record; recording implies plain */
  int64_t timeline_start_ns;
  int32_t iteration;
};

/* One per group, or one per rank where ranks of a group differ. */
struct step_actor {
  int group, ranks;       /* how many ranks it stands for */
  int64_t busy_ns;        /* from its start to the end of its last micro-batch, without waiting for other ranks */
  struct account account; /* of the whole step, work_ns excluded (see micro-batches) */
  int first_micro_batch;  /* index into step_result.work */
};

struct step_result {
  int64_t step_ns, sync_end_ns; /* end of the step; end of the last gradient collective */
  struct step_actor *actors;
  int n_actors;
  int64_t (*work_ns)[WORK_CLASSES]; /* per actor and micro-batch: compute by work class, padding included */
  int n_work;
  int idle_ranks;         /* ranks without a group */
  struct account idle;    /* of each of them */
  struct account between; /* summed over ranks: waiting between rounds */
  int64_t imbalance_ns;   /* sum over all W ranks of (max busy - busy) */
  int64_t max_busy_ns;
  int64_t events; /* processed, for benchmarks */
};

struct engine;

/* `unequal_counts`: groups may run different numbers of micro-batches (zero 2 then synchronises once). */
struct engine *engine_new(const struct system *system, bool unequal_counts);
void engine_free(struct engine *e);

/* The result points into the engine and is valid until the next call. NULL with *err set where an operation takes over
 * OP_MAX_NS or the step over INT64_MAX / 4 nanoseconds of all its ranks. Asserts that every rank's nanoseconds add up.
 */
const struct step_result *engine_step(struct engine *e, const struct step_input *in, struct err *err);

/* What the step takes at the least: its longest group alone, without contention or waiting for others, and the tail; in
 * a fraction of the time that playing it takes; -1 with *err set as engine_step. For steps without factors. */
int64_t engine_least_ns(struct engine *e, const struct step_input *in, struct err *err);

/* Uncontended nanoseconds of the collectives that one step with one micro-batch per rank issues, the tail's included.
 */
int64_t engine_sync_ns(struct engine *e, const struct program *micro_batch);

#endif
