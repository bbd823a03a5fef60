#include "sim/execute/virtual.h"

#include <stdlib.h>
#include <time.h>
#ifdef DCPSIM_MPI
#include <mpi.h>
#endif

#include "sim/base/progress.h"
#include "sim/base/units.h"

#define SPIN_NS 200000 /* the system wakes a sleeper up to this late */

/* ---- ranks: the latest of all cursors, at once or in the background ---- */

#ifdef DCPSIM_MPI
struct virtual_ranks {
  int rank, ranks;
  MPI_Comm world, groups[31]; /* by log2 of their size, made at first use */
  struct {
    int64_t own, latest;
    MPI_Request request;
  } pending[VIRTUAL_MAX_PENDING]; /* ring by collective number */
};

static struct virtual_ranks *ranks_open(int rank, int ranks) {
  struct virtual_ranks *r = xcalloc(1, sizeof *r);
  r->rank = rank;
  r->ranks = ranks;
  r->world = MPI_COMM_NULL;
  for (int i = 0; i < 31; i++)
    r->groups[i] = MPI_COMM_NULL;
  if (ranks > 1)
    MPI_Comm_dup(MPI_COMM_WORLD, &r->world);
  return r;
}

static void ranks_close(struct virtual_ranks *r) {
  for (int i = 0; i < 31; i++)
    if (r->groups[i] != MPI_COMM_NULL)
      MPI_Comm_free(&r->groups[i]);
  if (r->world != MPI_COMM_NULL)
    MPI_Comm_free(&r->world);
}

static MPI_Comm group_of(struct virtual_ranks *r, int sp) {
  int level = 0;
  while (1 << level < sp)
    level++;
  if (sp == r->ranks)
    return r->world;
  if (r->groups[level] == MPI_COMM_NULL) {
    int first = r->rank / sp * sp, range[1][3] = {{first, first + sp - 1, 1}};
    MPI_Group all, block;
    MPI_Comm_group(r->world, &all);
    MPI_Group_range_incl(all, 1, range, &block);
    MPI_Comm_create_group(r->world, block, level, &r->groups[level]);
    MPI_Group_free(&block);
    MPI_Group_free(&all);
  }
  return r->groups[level];
}

static int64_t ranks_latest(struct virtual_ranks *r, int sp, int64_t own) {
  int64_t latest = own;
  if (sp > 1)
    MPI_Allreduce(&own, &latest, 1, MPI_INT64_T, MPI_MAX, group_of(r, sp));
  return latest;
}

static void ranks_begin(struct virtual_ranks *r, int64_t number, int64_t own) {
  int slot = (int)(number % VIRTUAL_MAX_PENDING);
  r->pending[slot].own = r->pending[slot].latest = own;
  r->pending[slot].request = MPI_REQUEST_NULL;
  if (r->ranks > 1)
    MPI_Iallreduce(&r->pending[slot].own, &r->pending[slot].latest, 1, MPI_INT64_T, MPI_MAX, r->world,
                   &r->pending[slot].request);
}

static bool ranks_arrived(struct virtual_ranks *r, int64_t number, int64_t *latest) {
  int slot = (int)(number % VIRTUAL_MAX_PENDING), done = 1;
  if (r->ranks > 1)
    MPI_Test(&r->pending[slot].request, &done, MPI_STATUS_IGNORE);
  *latest = r->pending[slot].latest;
  return done;
}

static void ranks_barrier(struct virtual_ranks *r) {
  if (r->ranks > 1)
    MPI_Barrier(r->world);
}
#else
struct virtual_ranks {
  int64_t pending[VIRTUAL_MAX_PENDING];
};

static struct virtual_ranks *ranks_open(int rank, int ranks) {
  (void)rank;
  ASSERT(ranks == 1);
  return xcalloc(1, sizeof(struct virtual_ranks));
}
static void ranks_close(struct virtual_ranks *r) { (void)r; }
static int64_t ranks_latest(struct virtual_ranks *r, int sp, int64_t own) {
  (void)r;
  (void)sp;
  return own;
}
static void ranks_begin(struct virtual_ranks *r, int64_t number, int64_t own) {
  r->pending[number % VIRTUAL_MAX_PENDING] = own;
}
static bool ranks_arrived(struct virtual_ranks *r, int64_t number, int64_t *latest) {
  *latest = r->pending[number % VIRTUAL_MAX_PENDING];
  return true;
}
static void ranks_barrier(struct virtual_ranks *r) { (void)r; }
#endif

int virtual_open(struct virtual_clock *v, int rank, int ranks, struct err *err) {
  (void)err;
  *v = (struct virtual_clock){.ranks = ranks_open(rank, ranks)};
  return 0;
}

void virtual_close(struct virtual_clock *v) {
  if (v->ranks)
    ranks_close(v->ranks);
  free(v->ranks);
  *v = (struct virtual_clock){0};
}

/* ---- time ---- */

void wait_until(int64_t until_ns) {
  int64_t left;
  while ((left = until_ns - wall_clock_ns()) > 0)
    if (left > SPIN_NS) {
      struct timespec sleep = {(left - SPIN_NS) / 1000000000, (left - SPIN_NS) % 1000000000};
      nanosleep(&sleep, NULL);
    }
}

void virtual_start(struct virtual_clock *v) {
  ranks_barrier(v->ranks);
  v->start_ns = wall_clock_ns();
  v->cursor_ns = v->posted = v->begun = v->settled = 0;
}

void virtual_work(struct virtual_clock *v, double seconds) {
  v->cursor_ns += ns_from_s(seconds);
  wait_until(v->start_ns + v->cursor_ns);
}

void virtual_exchange(struct virtual_clock *v, int sp, double seconds) {
  v->cursor_ns = ranks_latest(v->ranks, sp, v->cursor_ns) + ns_from_s(seconds);
  wait_until(v->start_ns + v->cursor_ns);
}

/* Takes in the collectives whose ranks have all arrived; waits for the arrival of those before number `until`. */
static void settle(struct virtual_clock *v, const struct execute_step *step, int64_t until) {
  while (v->settled < v->begun) {
    int64_t latest, before = v->settled ? v->ends_ns[(v->settled - 1) % VIRTUAL_MAX_PENDING] : 0;
    if (ranks_arrived(v->ranks, v->settled, &latest)) {
      v->ends_ns[v->settled % VIRTUAL_MAX_PENDING] =
          int64_max(before, latest) + ns_from_s(step->collectives[v->settled].seconds);
      v->settled++;
    } else if (v->settled >= until) {
      return;
    } else {
      struct timespec pause = {0, 20000};
      nanosleep(&pause, NULL);
    }
  }
}

static void join(struct virtual_clock *v, const struct execute_step *step, int64_t arrival_ns) {
  if (v->begun - v->settled == VIRTUAL_MAX_PENDING)
    settle(v, step, v->settled + 1);
  ranks_begin(v->ranks, v->begun++, arrival_ns);
}

void virtual_post(struct virtual_clock *v, const struct execute_step *step) {
  v->posted++;
  while (v->begun < step->n_collectives && step->collectives[v->begun].after_post <= v->posted)
    join(v, step, v->cursor_ns);
  settle(v, step, 0);
}

void virtual_join_rest(struct virtual_clock *v, const struct execute_step *step) {
  while (v->begun < step->n_collectives)
    join(v, step, 0);
}

void virtual_wait(struct virtual_clock *v, const struct execute_step *step, int64_t lag) {
  int64_t until = v->begun - lag;
  settle(v, step, until);
  if (until > 0)
    v->cursor_ns = int64_max(v->cursor_ns, v->ends_ns[(until - 1) % VIRTUAL_MAX_PENDING]);
  wait_until(v->start_ns + v->cursor_ns);
}

double virtual_elapsed_s(const struct virtual_clock *v) { return s_from_ns(wall_clock_ns() - v->start_ns); }
