/* experiment_run.c: all policies of an experiment: SP degrees tried, threads, repeated shuffles, speedups, outputs. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/experiment/job.h"
#include "sim/experiment/metrics.h"
#include "sim/experiment/policy_setup.h"
#include "sim/experiment/shared_inputs.h"

/* ---- Jobs on threads: jobs are independent, so results do not depend on who runs them when ---- */

struct pool {
  struct job *jobs;
  int n_jobs;
  atomic_int next;
  pthread_mutex_t lock;
  pthread_cond_t finished;
  int running; /* workers */
};

static void *work(void *argument) {
  struct pool *p = argument;
  for (int i; (i = atomic_fetch_add(&p->next, 1)) < p->n_jobs;)
    job_run(&p->jobs[i]);
  pthread_mutex_lock(&p->lock);
  p->running--;
  pthread_cond_signal(&p->finished);
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

static void wait_for_workers(struct pool *p, struct progress *progress, _Atomic int64_t *samples_done) {
  pthread_mutex_lock(&p->lock);
  while (p->running > 0) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 100000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&p->finished, &p->lock, &until);
    progress_update(progress, atomic_load(samples_done));
  }
  pthread_mutex_unlock(&p->lock);
}

static void run_on_threads(const struct experiment *x, struct job *jobs, int n) {
  pthread_t threads[MAX_THREADS];
  _Atomic int64_t samples_done = 0;
  struct pool p = {.jobs = jobs, .n_jobs = n, .lock = PTHREAD_MUTEX_INITIALIZER, .finished = PTHREAD_COND_INITIALIZER};
  struct progress progress;
  int wanted = (int)int64_min(x->options.threads, n), started = 0;
  for (int i = 0; i < n; i++)
    jobs[i].samples_done = &samples_done;
  progress_start(&progress, x->progress_label, x->samples.n * n);
  p.running = wanted;
  while (started < wanted && pthread_create(&threads[started], NULL, work, &p) == 0)
    started++;
  if (started < wanted) { /* as many as the machine gives; none: this thread does it all */
    pthread_mutex_lock(&p.lock);
    p.running -= wanted - started - (started == 0);
    pthread_mutex_unlock(&p.lock);
    if (started == 0)
      work(&p);
  }
  wait_for_workers(&p, &progress, &samples_done);
  for (int i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
  progress_finish(&progress);
  pthread_mutex_destroy(&p.lock);
  pthread_cond_destroy(&p.finished);
}

/* Shared profiles belong to the thread that runs this experiment. */
static bool on_this_thread(const struct experiment *x) { return x->shared && shared_inputs_profiles(x->shared); }

/* The error of the first job (in order) that failed. */
static int first_error(const struct job *jobs, int n, struct err *err) {
  for (int i = 0; i < n; i++)
    if (jobs[i].rc < 0) {
      if (err)
        *err = jobs[i].err;
      return -1;
    }
  return 0;
}

/* Runs all. */
static int run_jobs(const struct experiment *x, struct job *jobs, int n, struct err *err) {
  if (!on_this_thread(x))
    run_on_threads(x, jobs, n);
  for (int i = 0; on_this_thread(x) && i < n; i++)
    job_run(&jobs[i]);
  return first_error(jobs, n, err);
}

/* ---- SP degrees ---- */

struct tries {
  int sps[MAX_SPS], n_sps;
  bool holds_all;
  int first_job;
};

/* A run per policy and SP degree to try. Caller frees *jobs. */
static int make_jobs(const struct experiment *x, const struct sample_cost *costs, uint32_t *arrivals,
                     struct tries *tries, struct job **jobs, int *n_jobs, struct err *err) {
  *jobs = xcalloc((size_t)x->n_policies * MAX_SPS, sizeof **jobs);
  *n_jobs = 0;
  for (int i = 0; i < x->n_policies; i++) {
    struct tries *t = &tries[i];
    if (policy_setup_sps(x, x->policies[i], t->sps, &t->n_sps, &t->holds_all, err) < 0)
      return -1;
    t->first_job = *n_jobs;
    for (int k = 0; k < t->n_sps; k++)
      (*jobs)[(*n_jobs)++] = (struct job){.x = x,
                                          .policy = i,
                                          .sp = t->sps[k],
                                          .holds_all = t->holds_all,
                                          .seed = (uint64_t)x->options.seed,
                                          .arrivals = arrivals,
                                          .costs = costs,
                                          .explain_step = -1};
  }
  return 0;
}

/* The best that each degree can reach, without playing it. */
static int find_limits(struct job *jobs, int n, double *limits) {
  for (int i = 0; i < n; i++) {
    struct job least = jobs[i];
    least.least = true;
    job_run(&least);
    if (least.rc < 0) {
      jobs[i] = least;
      return -1;
    }
    limits[i] = least.result.tokens_per_s;
  }
  return 0;
}

/* Plays a policy's degrees on this thread, the most promising first. One that cannot even be second is left out:
 * nothing is told of it, and its result stays empty. */
static void run_promising(struct job *jobs, int n) {
  double limits[MAX_SPS], best = 0, second = 0;
  bool seen[MAX_SPS] = {false};
  if (find_limits(jobs, n, limits) < 0)
    return;
  for (int k = 0; k < n; k++) {
    int next = -1;
    for (int i = 0; i < n; i++)
      if (!seen[i] && (next < 0 || limits[i] > limits[next]))
        next = i;
    if (limits[next] < second)
      return;
    seen[next] = true;
    job_run(&jobs[next]);
    double reached = jobs[next].result.tokens_per_s;
    ASSERT(jobs[next].rc < 0 || reached <= limits[next]);
    second = fmax(second, fmin(best, reached));
    best = fmax(best, reached);
  }
}

/* Best throughput; of equal ones the smallest SP. The runner-up is the best of the others. */
static void choose(const struct job *jobs, int n, struct policy_result *out) {
  const struct policy_result *best = &jobs[0].result, *second = NULL;
  for (int i = 1; i < n; i++)
    if (jobs[i].result.tokens_per_s > best->tokens_per_s)
      best = &jobs[i].result;
  for (int i = 0; i < n; i++) {
    const struct policy_result *r = &jobs[i].result;
    if (r != best && (!second || r->tokens_per_s > second->tokens_per_s))
      second = r;
  }
  *out = *best;
  if (second) {
    out->sp_runner_up = second->sp;
    out->sp_runner_up_tokens_per_s = second->tokens_per_s;
  }
}

/* Every policy at its degrees. */
static int run_tries(const struct experiment *x, const struct tries *tries, struct job *jobs, int n, struct err *err) {
  bool faults = x->options.jitter > 0 || x->options.straggler_rank >= 0; /* limits hold for ranks of full speed */
  if (!on_this_thread(x) || faults)
    return run_jobs(x, jobs, n, err);
  for (int i = 0; i < x->n_policies; i++) {
    struct job *of_policy = &jobs[tries[i].first_job];
    if (tries[i].n_sps > 2)
      run_promising(of_policy, tries[i].n_sps);
    else
      for (int k = 0; k < tries[i].n_sps; k++)
        job_run(&of_policy[k]);
  }
  return first_error(jobs, n, err);
}

/* ---- The second pass: outputs of the chosen runs, further shuffles ---- */

static bool wants_files(const struct experiment_outputs *out) {
  return out->schedule || out->timeline_path || out->want_chakra;
}

static void add_output_jobs(const struct experiment *x, const struct sample_cost *costs, const struct tries *tries,
                            struct experiment_outputs *outputs, const struct policy_result *results, struct job *jobs,
                            int *n) {
  for (int i = 0; outputs && i < x->n_policies; i++) {
    struct job j = {.x = x,
                    .policy = i,
                    .sp = results[i].sp,
                    .seed = (uint64_t)x->options.seed,
                    .outputs = &outputs[i],
                    .costs = costs,
                    .explain_step = -1};
    if (wants_files(&outputs[i]) && tries[i].n_sps > 1)
      jobs[(*n)++] = j;
    j.explain_step = results[i].median_step;
    if (outputs[i].want_explain && results[i].steps > 0)
      jobs[(*n)++] = j;
  }
}

static void add_seed_jobs(const struct experiment *x, const struct sample_cost *costs,
                          const struct policy_result *results, struct job *jobs, int *n) {
  for (int64_t k = 1; k < x->options.seeds; k++)
    for (int i = 0; i < x->n_policies; i++)
      jobs[(*n)++] = (struct job){.x = x,
                                  .policy = i,
                                  .sp = results[i].sp,
                                  .seed = (uint64_t)(x->options.seed + k),
                                  .costs = costs,
                                  .explain_step = -1};
}

static double ratio(double a, double b) { return b > 0 ? a / b : 0; }

/* ---- How much speedups move when every fitted quantity moves by its own fit error ---- */

#define DRAW_STEPS 64 /* of an epoch, at equal distances: enough to tell by how much a speedup moves */

static double *add_draw_jobs(const struct experiment *x, const struct policy_result *results, struct job *jobs,
                             int *n) {
  int draws = x->n_policies > 1 ? (int)x->options.draws : 0;
  double *seconds = xcalloc((size_t)x->n_policies * (size_t)(draws + 1), sizeof *seconds);
  for (int i = 0; draws > 0 && i < x->n_policies; i++)
    jobs[(*n)++] = (struct job){.x = x,
                                .policy = i,
                                .sp = results[i].sp,
                                .seed = (uint64_t)x->options.seed,
                                .explain_step = -1,
                                .draws = seconds + (size_t)i * (size_t)(draws + 1),
                                .n_draws = draws,
                                .draw_stride = int64_max(1, results[i].steps / DRAW_STEPS)};
  return seconds;
}

/* What a comparison of two policies rests on. */
struct evidence {
  const struct experiment *x;
  const struct policy_result *results;
  const struct job *seed_jobs; /* policies within seeds, from the second seed on */
  const double *draw_seconds;  /* draws within policies, the first of them unmoved */
};

/* tokens/s of policy a over b's: the smallest and the largest of all shuffles, widened by the draws: all policies of a
 * draw share its parameters. */
static void ratio_interval(const struct evidence *e, int a, int b, double interval[2]) {
  const struct experiment *x = e->x;
  int n = (int)x->options.draws + 1;
  const double *own = e->draw_seconds + a * n, *base = e->draw_seconds + b * n;
  double least = 1, most = 1;
  interval[0] = interval[1] = ratio(e->results[a].tokens_per_s, e->results[b].tokens_per_s);
  for (int64_t k = 0; k + 1 < x->options.seeds; k++) {
    const struct job *of_seed = e->seed_jobs + k * x->n_policies;
    double of_shuffle = ratio(of_seed[a].result.tokens_per_s, of_seed[b].result.tokens_per_s);
    interval[0] = fmin(interval[0], of_shuffle);
    interval[1] = fmax(interval[1], of_shuffle);
  }
  for (int d = 1; x->n_policies > 1 && d < n && own[0] > 0 && base[0] > 0; d++) {
    double change = ratio(own[0], own[d]) / ratio(base[0], base[d]);
    least = fmin(least, change);
    most = fmax(most, change);
  }
  interval[0] *= least;
  interval[1] *= most;
}

static void compare(const struct evidence *e, struct policy_result *results) {
  int fastest = 0, baseline = e->x->baseline;
  for (int i = 1; i < e->x->n_policies; i++)
    if (results[i].tokens_per_s > results[fastest].tokens_per_s)
      fastest = i;
  for (int i = 0; i < e->x->n_policies; i++) {
    struct policy_result *r = &results[i];
    r->speedup = ratio(r->tokens_per_s, results[baseline].tokens_per_s);
    r->lead = ratio(results[fastest].tokens_per_s, r->tokens_per_s);
    ratio_interval(e, i, baseline, r->speedup_interval);
    ratio_interval(e, fastest, i, r->lead_interval);
  }
}

int experiment_run(const struct experiment *x, struct experiment_outputs *outputs, struct policy_result *results,
                   struct err *err) {
  struct tries tries[MAX_POLICIES];
  struct job *jobs = NULL, *more = NULL;
  int n_jobs = 0, n_more = 0, rc = -1;
  struct sample_cost *costs = sample_costs(x);
  uint32_t *arrivals = job_arrivals(x, (uint64_t)x->options.seed);
  double *seconds = NULL;
  if (make_jobs(x, costs, arrivals, tries, &jobs, &n_jobs, err) < 0)
    goto out;
  for (int i = 0; outputs && i < x->n_policies; i++)
    if (tries[i].n_sps == 1 && wants_files(&outputs[i]))
      jobs[tries[i].first_job].outputs = &outputs[i];
  if (run_tries(x, tries, jobs, n_jobs, err) < 0)
    goto out;
  for (int i = 0; i < x->n_policies; i++)
    choose(&jobs[tries[i].first_job], tries[i].n_sps, &results[i]);
  more = xcalloc((size_t)x->n_policies * (size_t)(x->options.seeds + 3), sizeof *more);
  add_output_jobs(x, costs, tries, outputs, results, more, &n_more);
  int first_seed_job = n_more;
  add_seed_jobs(x, costs, results, more, &n_more);
  seconds = add_draw_jobs(x, results, more, &n_more);
  if (n_more > 0 && run_jobs(x, more, n_more, err) < 0)
    goto out;
  compare(&(struct evidence){x, results, more + first_seed_job, seconds}, results);
  rc = 0;
out:
  free(seconds);
  free(costs);
  free(arrivals);
  free(jobs);
  free(more);
  return rc;
}

/* ---- Planning alone ---- */

int experiment_plan(const struct experiment *x, struct experiment_plan *plan, struct policy_result *result,
                    struct err *err) {
  struct tries t;
  struct job best = {.rc = -1};
  double best_tokens_per_s = -1;
  ASSERT(x->n_policies == 1);
  if (policy_setup_sps(x, x->policies[0], t.sps, &t.n_sps, &t.holds_all, err) < 0)
    return -1;
  for (int pass = t.n_sps > 1 ? 0 : 1; pass < 2; pass++) /* several degrees: the best by planned time goes again */
    for (int k = 0; k < (pass == 0 ? t.n_sps : 1); k++) {
      struct experiment_plan trial = {.context = plan->context};
      if (pass == 1) {
        trial.profile = plan->profile;
        trial.iteration = plan->iteration;
      }
      struct job j = {.x = x,
                      .sp = pass == 0 || t.n_sps == 1 ? t.sps[k] : best.sp,
                      .holds_all = t.holds_all,
                      .seed = (uint64_t)x->options.seed,
                      .explain_step = -1,
                      .plan = &trial};
      job_run(&j);
      if (j.rc < 0) {
        if (err)
          *err = j.err;
        return -1;
      }
      double tokens_per_s = ratio((double)j.result.tokens, trial.time_s);
      if (pass == 1 || tokens_per_s > best_tokens_per_s)
        best = j;
      best_tokens_per_s = fmax(best_tokens_per_s, tokens_per_s);
      plan->time_s = trial.time_s;
      plan->imbalance_s = trial.imbalance_s;
    }
  *result = best.result;
  result->time_s = plan->time_s;
  result->tokens_per_s = ratio((double)result->tokens, plan->time_s);
  return 0;
}
