/* step_state.h: the state of a step being played, shared by step.c (events), step_run.c (compute ops as one event),
 * step_fold.c (what needs no events) and step_result.c (the end of the step). Private to the engine. */
#ifndef SIM_ENGINE_STEP_STATE_H
#define SIM_ENGINE_STEP_STATE_H
#include "sim/engine/classes.h"
#include "sim/engine/collectives.h"
#include "sim/engine/step.h"
#include "sim/plan/program_time.h"

/* What an actor does at the moment. */
enum activity {
  WAITING_TO_START, /* for earlier rounds of its ranks */
  TIMER,            /* for a time: its start, or the host */
  COMPUTING,
  WAITING_EXCHANGE, /* for its group's exchanges in flight */
  WAITING_COLLECTIVE,
  FINISHED
};

/* Compute ops from `op` to `last`, played as one event (step_run.c). */
struct run {
  const struct op *op, *last; /* op: in progress, or next */
  int64_t from_ns;            /* when it begins, or when the run was last settled */
  int64_t left_units;         /* of it from then on, as classes.h counts */
  int64_t host_ns;            /* when the host has issued it */
  bool begun;
};

/* A rank, or all ranks of a group that behave alike. */
struct actor {
  struct rank_state rank;
  int64_t mark_sync_ns; /* time with a collective in progress, up to rank.mark_ns */
  int64_t wake_ns;      /* TIMER, and COMPUTING in a run: when it goes on; else -1 */
  struct run run;
  int64_t began_ns, ended_ns, began_sync_ns;
  int group, ranks, first_rank;
  int micro_batch;
  int posted;          /* in this micro-batch */
  int next_collective; /* of this micro-batch: the first it has not arrived at */
  int launched;        /* exchanges it has arrived at */
  struct cursor cursor;
  enum activity activity;
  bool issued;    /* the host has issued the op at the cursor */
  int first_work; /* index into work_ns */
};

struct group_state {
  int first_actor, n_actors;
  int arrived;   /* actors at the exchange being formed */
  int completed; /* exchanges finished */
  bool in_flight;
  int64_t flight_start_ns;
  const struct op *exchange;
  int waits_for;                      /* groups of earlier rounds not yet finished */
  size_t first_edge, n_edges;         /* from groups of earlier rounds: they follow each other */
  size_t first_leaving, last_leaving; /* edges to later rounds, a list through `next`; NO_EDGE: none */
  int finished_actors;
  bool posts; /* synchronises: some rank of it has no later group */
  bool done;
  int64_t end_ns, host_ns;
  size_t collective_base; /* index of its first micro-batch's first collective */
};

struct edge {
  int from, to;
  size_t next; /* the next one of the same `from` */
};

#define NO_EDGE SIZE_MAX

struct engine {
  const struct system *system;
  bool unequal_counts;
  bool have_collectives;
  struct collectives collectives;
  struct program tail;
  struct classes classes;
  struct heap timers;
  const struct step_input *in;
  bool plain; /* every op is an event */
  int64_t now_ns;
  bool collectives_checked, tail_checked;

  struct actor *actors;
  size_t n_actors, actors_cap;
  struct group_state *groups;
  size_t n_groups, groups_cap;
  struct edge *edges; /* between groups that share ranks, in order of `to` */
  size_t n_edges, edges_cap;
  int *rank_group;                       /* last group of each rank so far */
  struct rank_state *ranks, *kept_ranks; /* scratch: the actors of one group */
  int *need;                             /* arrivals that collective k still needs */
  size_t n_need, need_cap;

  size_t completed; /* collectives finished */
  bool collective_active;
  int64_t collective_start_ns, sync_ns; /* time with a collective in progress before collective_start_ns */
  int64_t last_collective_end_ns;
  int unfinished; /* actors */
  int64_t (*work)[WORK_CLASSES];
  size_t n_work, work_cap;
  struct step_actor *out_actors;
  size_t n_out, out_cap;
  struct step_result result;
};

/* Time up to now in which a collective over all ranks was in progress. */
static inline int64_t sync_time(const struct engine *e, int64_t now_ns) {
  return e->sync_ns + (e->collective_active ? now_ns - e->collective_start_ns : 0);
}

static inline const struct program *program_of(const struct engine *e, const struct actor *a) {
  return e->in->groups[a->group].programs[a->micro_batch];
}

/* Whether the actor takes part in collectives during its present micro-batch. */
static inline bool posting(const struct engine *e, const struct actor *a) {
  return e->collectives.every_micro_batch ||
         (e->groups[a->group].posts && a->micro_batch + 1 == e->in->groups[a->group].n_micro_batches);
}

/* An actor has posted once more: it arrives at the collectives that this completes. */
void arrive_collectives(struct engine *e, struct actor *a);
/* Moves compute by work class from the rank's account into the micro-batch's record and goes to the next micro-batch.
 */
void close_micro_batch(struct engine *e, struct actor *a);
/* All actors of a group free, hosts included, at these times. */
void start_group(struct engine *e, int group, int64_t now_ns, int64_t host_ns);
/* Hands a group to the events: its actors go on when their streams are free. */
void hand_over(struct engine *e, int group);
/* Whether the groups that this one's ranks were in before are all done; if so, when, and how far their hosts were. */
bool predecessors_done(const struct engine *e, int group, int64_t *start_ns, int64_t *host_ns);
/* Sets the time at which an actor goes on by itself. */
void wake_at(struct engine *e, struct actor *a, int64_t at_ns);
/* Accounts an actor that is not computing from its mark to `to_ns`, all of it for one cause; a compute op from the mark
 * to its end. No collective began or ended between to_ns and now. */
void account_wait(struct engine *e, struct actor *a, int64_t to_ns);
void account_compute(struct engine *e, struct actor *a, const struct op *op, int64_t end_ns);
/* Into the timeline, if one is kept. */
void record_span(struct engine *e, int first_rank, int sp, int micro_batch, enum timeline_stream stream, int category,
                 const char *name, int64_t start_ns, int64_t end_ns);
void record_all_ranks(struct engine *e, int category, const char *name, enum timeline_stream stream, int64_t start_ns,
                      int64_t end_ns);

/* step_run.c: begins a run with the op at the cursor, which waits for the host at most; ends one at its end, with the
 * cursor at its last op. Before a collective begins or ends, runs are settled; afterwards their ends are expected. */
void begin_run(struct engine *e, struct actor *a, const struct op *op);
void end_run(struct engine *e, struct actor *a);
void settle_runs(struct engine *e);
void expect_runs(struct engine *e);
/* step_fold.c: plays what can be played without events and hands over the rest. */
void step_begin_folded(struct engine *e);
/* step_limits.c: 0, or -1 where an op at its rank's speed, or all ops of the step one after the other, take longer than
 * the clock can hold. */
int step_check(struct engine *e, const struct step_input *in, struct err *err);
/* The same of what takes part in every step: the tail; and the collectives, once they are known. */
int step_check_collectives(struct engine *e, struct err *err);
/* The longest step: all ranks' nanoseconds must add up in int64. */
int64_t step_max_ns(const struct system *s);
int step_overlong(const struct system *s, double seconds, struct err *err);
/* Of the slowest rank; 1 without faults. */
double step_slowest_factor(const struct system *s, const struct step_input *in);
/* step_result.c: the tail, and the result with its checks. */
void step_collect(struct engine *e);

#endif
