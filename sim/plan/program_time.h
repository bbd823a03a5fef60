/* program_time.h: playing a program on the ranks of one SP group alone, without events: the uncontended fold over host,
 * compute and exchange streams. It is what policies plan with and the engine's fast path; a loop whose repeats have
 * become alike is multiplied instead of repeated. All in integer nanoseconds, so folding loses nothing. */
#ifndef SIM_PLAN_PROGRAM_TIME_H
#define SIM_PLAN_PROGRAM_TIME_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/plan/program.h"
#include "sim/plan/timeline.h"

/* One rank, or all ranks of a group that behave alike. Times are absolute. */
struct rank_state {
  int64_t compute_free_ns;
  int64_t exchange_free_ns;    /* end of the last exchange */
  int64_t exchange_before_ns;  /* end of the one before it */
  int64_t arrive_ns, start_ns; /* of the last exchange: this rank's arrival, and its start */
  int64_t host_ns;
  int64_t mark_ns; /* accounted up to here */
  double factor;   /* compute durations are multiplied by it (jitter, straggler) */
  struct account account;
};

/* A rank that is free, its host included, at `now`. */
struct rank_state rank_state_at(int64_t now_ns, double factor);

/* Place in a program: the next op is ops[sections[section].first_op + op] in its repeat-th round. */
struct cursor {
  size_t section;
  int repeat, op;
};

static inline const struct op *cursor_op(const struct program *p, const struct cursor *c) {
  return c->section < p->n_sections ? &p->ops[p->sections[c->section].first_op + c->op] : NULL;
}
void cursor_advance(const struct program *p, struct cursor *c);
/* Whether this is the last repeat of its section. */
static inline bool cursor_last_repeat(const struct program *p, const struct cursor *c) {
  return c->repeat + 1 == p->sections[c->section].repeat;
}

/* Duration of a compute op at a rank's speed. */
int64_t scaled_ns(int64_t ns, double factor);

enum play_stop { PLAY_ALL, PLAY_TO_POST };

/* Plays from *cursor on all members of one group (n >= 1), until the end of the program or, with PLAY_TO_POST, to the
 * first OP_POST or OP_WAIT, which is left to the caller. `fold` false plays every repeat: the slow, obvious twin. */
void program_play(const struct program *p, struct cursor *cursor, struct rank_state *members, int n,
                  enum play_stop stop, bool fold);

/* One op on all members; OP_POST and OP_WAIT do nothing here. */
void program_play_op(const struct program *p, const struct op *op, struct rank_state *members, int n);

/* The whole program on one member: like program_play, but through the cached folds where they apply. */
void program_play_whole(const struct program *p, struct rank_state *member);

/* Accounts a member's time from its mark up to `until_ns`, in which no compute op runs. */
void rank_account_gap(struct rank_state *m, int64_t until_ns);

/* Fills p->cold and p->warm. */
void program_fold_cache(struct program *p);

/* Seconds of one micro-batch: t(b); infinite where program_check refuses it. */
double program_time_s(const struct program *p);

void account_add(struct account *to, const struct account *from, int64_t times);
int64_t account_total_ns(const struct account *a);

#endif
