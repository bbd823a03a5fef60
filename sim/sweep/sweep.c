#include "sim/sweep/sweep.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/experiment/shared_inputs.h"
#include "sim/sweep/ranks.h"
#include "sim/sweep/sweep_spec.h"
#include "sim/sweep/sweep_table.h"

#define POLL_NS 200000   /* between looks for messages of other ranks */
#define WAIT_NS 50000000 /* between redraws of the progress bar */

struct sweep {
  const struct sweep_spec *spec;
  struct trace_store *traces;
  struct ranks *ranks;
  struct sweep_table table; /* rank 0 */
  pthread_mutex_t lock;     /* rank 0: over all below and the table; others: over ranks_ask */
  pthread_cond_t finished;
  int64_t next;    /* rank 0: the next point to look at */
  int64_t written; /* points by this run */
  int running;     /* worker threads of this process */
  int rc;          /* -1: writing failed, nothing is handed out any more */
  struct err err;
};

/* ---- One point ---- */

/* Its rows; the caller frees them. Whatever goes wrong becomes a row. */
static char *run_point(const struct sweep_spec *spec, struct shared_inputs *shared, int64_t point, bool *failed) {
  struct experiment_options o;
  struct experiment x;
  struct policy_result results[MAX_POLICIES];
  struct err err = {.set = false};
  char *rows = NULL;
  if (sweep_spec_options(spec, point, &o, &err) == 0 && experiment_open_shared(&x, &o, shared, &err) == 0) {
    if (experiment_run(&x, NULL, results, &err) == 0)
      rows = sweep_table_rows(spec, point, results, x.n_policies, NULL);
    experiment_close(&x);
  }
  options_release(&o);
  *failed = rows == NULL;
  return rows ? rows : sweep_table_rows(spec, point, NULL, 0, err.msg);
}

/* ---- Rank 0: handing out and writing, under the lock ---- */

static int64_t take_point(struct sweep *s) {
  while (s->next < s->spec->n_points && s->table.done[s->next])
    s->next++;
  return s->rc == 0 && s->next < s->spec->n_points ? s->next++ : -1;
}

static void write_point(struct sweep *s, const char *rows, bool failed) {
  if (s->rc < 0)
    return;
  s->rc = sweep_table_append(&s->table, rows, &s->err);
  s->written += s->rc == 0;
  s->table.n_failed += s->rc == 0 && failed;
}

/* ---- Workers ---- */

/* Hands in rows of `done` (-1: none yet) and gets the next point, on whichever rank this is. */
static int64_t exchange(struct sweep *s, int64_t done, char *rows, bool failed) {
  pthread_mutex_lock(&s->lock);
  int64_t point;
  if (s->ranks->rank > 0) {
    point = ranks_ask(s->ranks, &(struct ranks_message){.point = done, .rows = rows, .failed = failed});
  } else {
    if (done >= 0)
      write_point(s, rows, failed);
    point = take_point(s);
  }
  pthread_mutex_unlock(&s->lock);
  free(rows);
  return point;
}

static void *work(void *argument) {
  struct sweep *s = argument;
  struct shared_inputs *shared = shared_inputs_new(s->traces);
  char *rows = NULL;
  bool failed = false;
  for (int64_t point = -1; (point = exchange(s, point, rows, failed)) >= 0;)
    rows = run_point(s->spec, shared, point, &failed);
  shared_inputs_free(shared);
  pthread_mutex_lock(&s->lock);
  s->running--;
  pthread_cond_signal(&s->finished);
  pthread_mutex_unlock(&s->lock);
  return NULL;
}

/* Starts up to n workers, who wait for the lock that the caller holds; how many there are. */
static int start_workers(struct sweep *s, pthread_t *threads, int n) {
  int started = 0;
  while (started < n && pthread_create(&threads[started], NULL, work, s) == 0)
    started++;
  return started;
}

/* ---- The main thread of rank 0 ---- */

/* Under the lock. Answers one message of another rank; false: there was none. */
static bool serve(struct sweep *s, int64_t *remote_workers) {
  struct ranks_message m;
  if (!ranks_poll(s->ranks, &m))
    return false;
  if (m.point >= 0)
    write_point(s, m.rows, m.failed);
  int64_t next = take_point(s);
  ranks_answer(s->ranks, m.from, next);
  *remote_workers -= next < 0;
  free(m.rows);
  return true;
}

static void wait_a_little(struct sweep *s, int64_t ns) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_nsec += ns;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&s->finished, &s->lock, &until);
}

/* Until every worker, here and elsewhere, has been told that there is no more. */
static void attend(struct sweep *s, int64_t remote_workers) {
  struct progress progress;
  progress_start(&progress, "sweep", s->spec->n_points - s->table.n_done);
  pthread_mutex_lock(&s->lock);
  while (s->running > 0 || remote_workers > 0) {
    if (remote_workers == 0 || !serve(s, &remote_workers))
      wait_a_little(s, remote_workers > 0 ? POLL_NS : WAIT_NS);
    progress_update(&progress, s->written);
  }
  pthread_mutex_unlock(&s->lock);
  progress_finish(&progress);
}

/* ---- A whole process ---- */

static int processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int count_threads(const struct sweep_request *request, const struct ranks *ranks) {
  int n = request->threads > 0 ? request->threads : processors();
  if (ranks->rank > 0 && !ranks->threads)
    return 1;
  return (int)int64_min(n, MAX_THREADS);
}

/* Other ranks work on their main thread too: it is the one that MPI surely allows. Rank 0's attends to them. */
static void run_workers(struct sweep *s, int n) {
  pthread_t threads[MAX_THREADS];
  bool helper = s->ranks->rank > 0;
  pthread_mutex_lock(&s->lock);
  int started = start_workers(s, threads, helper ? n - 1 : n);
  bool self = helper || (started == 0 && s->ranks->size == 1);
  s->running = started + self;
  int64_t workers = ranks_sum(s->ranks, s->running), here = s->running;
  pthread_mutex_unlock(&s->lock);
  if (self)
    work(s);
  if (!helper)
    attend(s, workers - here);
  for (int i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
}

static void run_all(struct sweep *s, const struct sweep_request *request) {
  s->traces = trace_store_new();
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->finished, NULL);
  run_workers(s, count_threads(request, s->ranks));
  pthread_mutex_destroy(&s->lock);
  pthread_cond_destroy(&s->finished);
  trace_store_free(s->traces);
}

static int run_first_rank(const struct sweep_request *request, struct ranks *ranks, struct sweep_summary *summary,
                          struct err *err) {
  struct sweep_spec spec;
  struct sweep s = {.spec = &spec, .ranks = ranks};
  summary->writer = true;
  int rc = sweep_spec_read(&spec, request->spec_path, err);
  if (rc == 0 && (rc = sweep_table_open(&s.table, request->out_path, &spec, err)) < 0)
    sweep_spec_release(&spec);
  if (ranks->size > 1)
    free(ranks_share_text(ranks, rc == 0 ? spec.doc.text : NULL));
  if (rc < 0)
    return -1;
  summary->points = spec.n_points;
  summary->done_before = s.table.n_done;
  run_all(&s, request);
  rc = s.rc;
  if (rc < 0)
    *err = s.err;
  else
    rc = sweep_table_close(&s.table, err);
  summary->failed = s.table.n_failed;
  sweep_table_release(&s.table);
  sweep_spec_release(&spec);
  return rc;
}

static int run_other_rank(const struct sweep_request *request, struct ranks *ranks) {
  struct sweep_spec spec;
  struct sweep s = {.spec = &spec, .ranks = ranks};
  char *text = ranks_share_text(ranks, NULL);
  if (!text)
    return -1;
  int rc = sweep_spec_parse(&spec, request->spec_path, text, NULL);
  ASSERT(rc == 0); /* rank 0 has read the same */
  free(text);
  run_all(&s, request);
  sweep_spec_release(&spec);
  return 0;
}

int sweep_run(const struct sweep_request *request, struct sweep_summary *summary, struct err *err) {
  struct ranks ranks;
  *summary = (struct sweep_summary){0};
  ranks_start(&ranks);
  int rc = ranks.rank == 0 ? run_first_rank(request, &ranks, summary, err) : run_other_rank(request, &ranks);
  ranks_finish(&ranks);
  return rc;
}
