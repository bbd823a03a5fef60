#include "calib/calibration.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calib/machine.h"
#include "calib/measure_collective.h"
#include "calib/placement.h"
#include "calib/run_file.h"
#include "sim/base/progress.h"
#include "sim/base/units.h"

/* ---- What a run has at hand ---- */

struct checked { /* a class of shapes whose check has been made */
  enum row_op op;
  int64_t key[4];
  double error_frac;
  int wrong_rank;       /* of a collective */
  bool passed, missing; /* missing: there is no kernel */
};

struct state {
  const struct calibration_options *options;
  struct device *device;
  struct communicator *world;
  struct machine machine;
  struct run_plan plan;
  struct run_file files[ROW_CLASSES];
  struct measure measure;
  struct collective_buffers buffers;
  struct checked *checked;
  size_t n_checked, checked_cap;
  struct repeats repeats;
  int64_t begin_ns;
  struct calibration *out;
};

static const char *dtype_of(const struct device *d) { return d->kind->element == ELEMENT_BF16 ? "bf16" : "fp32"; }

static bool writes(const struct state *s) { return s->world->rank == 0; }

static int make_folder(const char *path, struct err *err) {
  if (mkdir(path, 0777) == 0 || errno == EEXIST)
    return 0;
  return err_set(err, "cannot create folder '%s': %s", path, strerror(errno));
}

static int open_files(struct state *s, struct err *err) {
  bool needed[ROW_CLASSES] = {false};
  for (size_t i = 0; i < s->plan.n; i++)
    needed[row_op_class(s->plan.v[i].op)] = true;
  if (make_folder(s->options->out, err))
    return -1;
  for (int c = 0; c < ROW_CLASSES; c++) {
    bool repaired = false;
    if (needed[c] && (run_file_open(&s->files[c], s->options->out, (enum row_class)c, &repaired, err) ||
                      run_file_agrees(&s->files[c], &s->machine, err)))
      return -1;
    s->out->repaired += repaired;
  }
  return 0;
}

static bool asked_to_stop(const struct state *s) {
  return s->options->measure.stop && atomic_load(s->options->measure.stop);
}

static bool over_budget(const struct state *s) {
  return s->options->budget_s > 0 && s_from_ns(wall_clock_ns() - s->begin_ns) > s->options->budget_s;
}

static bool in_file(const struct state *s, const struct plan_entry *e) {
  return run_file_has(&s->files[row_op_class(e->op)], e->op, dtype_of(s->device), e->shape, s->machine.device);
}

/* ---- Checks ---- */

static struct checked *find_checked(struct state *s, enum row_op op, const int64_t key[4]) {
  for (size_t i = 0; i < s->n_checked; i++)
    if (s->checked[i].op == op && memcmp(s->checked[i].key, key, sizeof s->checked[i].key) == 0)
      return &s->checked[i];
  return NULL;
}

static struct checked *add_checked(struct state *s, const struct checked *c) {
  const double tolerance = measure_tolerance(s->device);
  VEC_PUSH(s->checked, s->n_checked, s->checked_cap, *c);
  if (!c->passed && writes(s)) {
    if (row_op_class(c->op) == ROW_COLLECTIVE)
      warning_put(s->options->warnings,
                  "%s of %lld ranks on %lld node%s%s: rank %d got a wrong result; no rows of it are written",
                  row_op_name(c->op), (long long)c->key[0], (long long)c->key[1], c->key[1] == 1 ? "" : "s",
                  c->key[2] > 1 ? ", several groups at once" : "", c->wrong_rank);
    else
      warning_put(s->options->warnings,
                  "%s: differs from its reference by %.2g of the largest value (at most %.2g); no rows of it are "
                  "written",
                  row_op_name(c->op), c->error_frac, tolerance);
  }
  return &s->checked[s->n_checked - 1];
}

/* Whether a device said that it lacks a kernel, which leaves it as it was. */
static bool lacks_kernel(const struct err *problem) { return strstr(problem->msg, "no CUDA kernel") != NULL; }

static void warn_missing(const struct state *s, enum row_op op, const struct err *problem) {
  warning_put(s->options->warnings, "%s: not measured: %s", row_op_name(op), problem->msg);
}

/* Shapes of one class run one kernel: mask, heads per key head and head dim of attention. */
static int check_operator(struct state *s, const struct plan_entry *e, const struct checked **out, struct err *err) {
  struct checked one = {.op = e->op};
  if (row_op_class(e->op) == ROW_ATTENTION) {
    one.key[0] = e->shape[SHAPE_CAUSAL];
    one.key[1] = e->shape[SHAPE_HEADS] / e->shape[SHAPE_KV_HEADS];
    one.key[2] = e->shape[SHAPE_HEAD_DIM];
  }
  *out = find_checked(s, e->op, one.key);
  if (*out)
    return 0;
  struct err problem = {.set = false};
  if (measure_check(&s->measure, measured_op_find(e->op), e->shape, &one.error_frac, &problem)) {
    if (!lacks_kernel(&problem))
      return err_set(err, "%s", problem.msg);
    warn_missing(s, e->op, &problem);
    one.missing = true;
    VEC_PUSH(s->checked, s->n_checked, s->checked_cap, one); /* told already */
    *out = &s->checked[s->n_checked - 1];
    return 0;
  }
  one.passed = one.error_frac <= measure_tolerance(s->device);
  *out = add_checked(s, &one);
  return 0;
}

/* ---- Rows ---- */

static void count_measured(struct state *s, enum row_op op, const struct repeats_summary *summary, double check) {
  struct calibration_count *count = &s->out->ops[op];
  count->measured++;
  s->out->measured++;
  count->spread_frac += summary->spread_frac;
  count->worst_check = fmax(count->worst_check, check);
}

static void count_refused(struct state *s, enum row_op op, bool wrong) {
  s->out->ops[op].refused++;
  s->out->refused++;
  s->out->wrong += wrong;
}

static int append(struct state *s, const struct plan_entry *e, const char *check, double check_error, struct err *err) {
  const struct run_row row = {.op = e->op,
                              .dtype = dtype_of(s->device),
                              .shape = e->shape,
                              .summary = repeats_summarize(&s->repeats),
                              .machine = &s->machine,
                              .ranks_per_node = s->options->ranks_per_node,
                              .check = check};
  count_measured(s, e->op, &row.summary, check_error);
  return writes(s) ? run_file_append(&s->files[row_op_class(e->op)], &row, err) : 0;
}

static int do_operator(struct state *s, const struct plan_entry *e, struct err *err) {
  const struct checked *check;
  char text[32];
  if (check_operator(s, e, &check, err))
    return -1;
  if (!check->passed) {
    count_refused(s, e->op, !check->missing);
    return 0;
  }
  snprintf(text, sizeof text, "%.2g", check->error_frac);
  struct err problem = {.set = false};
  if (measure_time(&s->measure, measured_op_find(e->op), e->shape, &s->repeats, &problem)) {
    if (!lacks_kernel(&problem))
      return err_set(err, "%s", problem.msg);
    warn_missing(s, e->op, &problem);
    count_refused(s, e->op, false);
    return 0;
  }
  return append(s, e, text, check->error_frac, err);
}

static int run_operators(struct state *s, struct err *err) {
  for (size_t i = 0; i < s->plan.n; i++) {
    const struct plan_entry *e = &s->plan.v[i];
    s->out->stopped = asked_to_stop(s);
    s->out->out_of_budget = over_budget(s);
    if (s->out->stopped || s->out->out_of_budget)
      return 0;
    if (in_file(s, e)) {
      s->out->had++;
      s->out->ops[e->op].had++;
    } else if (do_operator(s, e, err)) {
      return -1;
    }
    if (s->options->progress)
      s->options->progress(s->options->progress_to, i + 1, s->plan.n);
  }
  return 0;
}

/* ---- Collectives ---- */

/* Finds nodes and ranks of each from the ranks' hosts: two halves of a hash of a host's name are exact in fp32. */
static int find_nodes(struct state *s, int *nodes, int *ranks_per_node, struct err *err) {
  char name[256] = "";
  const int ranks = s->world->ranks;
  gethostname(name, sizeof name - 1);
  const uint64_t hash = rng_stream_seed(0, name);
  const float mine[2] = {(float)(hash & 0xfffff), (float)(hash >> 20 & 0xfffff)};
  float *all = xcalloc((size_t)ranks, sizeof mine);
  int rc = collective_gather(s->world, &s->buffers, mine, 2, all, err), n = 0;
  bool alike = true;
  while (n < ranks && memcmp(all, all + 2 * n, sizeof mine) == 0)
    n++;
  for (int r = 0; r < ranks && rc == 0; r++) {
    const int at = r / n * n;
    const bool same = memcmp(all + 2 * r, all + 2 * at, sizeof mine) == 0;
    const bool new = at == 0 || memcmp(all + 2 * at, all + 2 * (at - 1), sizeof mine) != 0;
    alike = alike && same && new;
  }
  *nodes = ranks / n;
  *ranks_per_node = n;
  free(all);
  if (rc == 0 && (!alike || ranks % n != 0))
    return err_set(err, "the hosts do not hold equally many ranks, one host after the other; choose -np and --map-by "
                        "of mpirun so that they do");
  return rc;
}

static int place_ranks(struct state *s, struct err *err) {
  const int64_t given = s->options->ranks_per_node;
  struct calibration *out = s->out;
  if (given > 0 && s->world->ranks == 1)
    return err_usage(err, "--ranks-per-node is for several processes: mpirun -np N dcpsim calibrate run ...");
  if (s->world->ranks == 1)
    return 0;
  if (given == 0)
    return find_nodes(s, &out->nodes, &out->ranks_per_node, err);
  if (s->world->ranks % given != 0)
    return err_usage(err, "--ranks-per-node %lld does not divide the %d ranks", (long long)given, s->world->ranks);
  out->ranks_per_node = (int)given;
  out->nodes = s->world->ranks / (int)given;
  return 0;
}

static int check_collective(struct state *s, const struct collective_ranks *ranks, const struct plan_entry *e,
                            int stride, const struct checked **out, struct err *err) {
  struct checked one = {.op = e->op, .key = {e->shape[SHAPE_RANKS], e->shape[SHAPE_NODES], e->shape[SHAPE_GROUPS]}};
  *out = find_checked(s, e->op, one.key);
  if (*out)
    return 0;
  if (collective_check(ranks, &s->buffers, e->op, s->options->collective ? s->options->collective : communicator_run,
                       &one.wrong_rank, err))
    return -1;
  one.passed = one.wrong_rank < 0;
  if (e->shape[SHAPE_GROUPS] == 1)
    one.wrong_rank *= stride; /* as the world counts */
  *out = add_checked(s, &one);
  return 0;
}

/* Ranks that are in no group that measures wait at the next word of the first rank. */
static int do_collective(struct state *s, const struct plan_entry *e, struct err *err) {
  const struct placement p = {(int)e->shape[SHAPE_RANKS], (int)e->shape[SHAPE_NODES], (int)e->shape[SHAPE_GROUPS]};
  const struct collective_shape shape = {e->op, e->shape[SHAPE_BYTES]};
  const struct rank_set set = placement_set(&p, s->out->ranks_per_node, s->world->rank);
  struct collective_ranks ranks;
  const struct checked *check;
  if (p.groups == 1 ? set.first > 0 : s->world->rank >= p.ranks * p.groups)
    return 0;
  if (communicator_group(s->world, p.ranks, set.stride, &ranks.group, err))
    return -1;
  ranks.all = ranks.group;
  if (p.groups > 1 && communicator_group(s->world, p.ranks * p.groups, 1, &ranks.all, err))
    return -1;
  if (check_collective(s, &ranks, e, set.stride, &check, err))
    return -1;
  if (!check->passed) {
    count_refused(s, e->op, true);
    return 0;
  }
  if (collective_time(&ranks, &s->buffers, &shape, &s->options->measure, &s->repeats, err))
    return -1;
  return append(s, e, "exact", 0, err);
}

enum word { WORD_GO, WORD_SKIP, WORD_STOP, WORD_BUDGET, WORD_FAILED };

/* What the first rank says holds for all: whether to measure entry i. */
static int agree(struct state *s, enum word mine, enum word *word, struct err *err) {
  const float v = (float)mine;
  float *all = xcalloc((size_t)s->world->ranks, sizeof *all);
  int rc = collective_gather(s->world, &s->buffers, &v, 1, all, err);
  *word = (enum word)all[0];
  free(all);
  return rc;
}

static enum word first_rank_says(const struct state *s, const struct plan_entry *e, bool failed) {
  if (failed)
    return WORD_FAILED;
  if (asked_to_stop(s))
    return WORD_STOP;
  if (over_budget(s))
    return WORD_BUDGET;
  return in_file(s, e) ? WORD_SKIP : WORD_GO;
}

static int run_collectives(struct state *s, struct err *err) {
  int failed = 0;
  for (size_t i = 0; i < s->plan.n; i++) {
    const struct plan_entry *e = &s->plan.v[i];
    enum word word;
    if (agree(s, writes(s) ? first_rank_says(s, e, failed) : WORD_GO, &word, failed ? NULL : err))
      return -1;
    s->out->stopped = word == WORD_STOP;
    s->out->out_of_budget = word == WORD_BUDGET;
    if (word == WORD_FAILED)
      return failed ? -1 : err_set(err, "the first rank gave up");
    if (word == WORD_STOP || word == WORD_BUDGET)
      return 0;
    if (word == WORD_SKIP) {
      s->out->had++;
      s->out->ops[e->op].had++;
    } else if (do_collective(s, e, err)) {
      if (!writes(s))
        return -1;
      failed = 1; /* told to the others before the next entry */
    }
    if (s->options->progress && writes(s))
      s->options->progress(s->options->progress_to, i + 1, s->plan.n);
  }
  return failed ? -1 : 0;
}

/* ---- The run ---- */

static int make_plan(struct state *s, struct err *err) {
  const bool is_gpu = s->device->kind->element == ELEMENT_BF16;
  struct plan_options plan = {.is_gpu = is_gpu,
                              .model = s->options->model,
                              .max_tokens = s->options->max_tokens,
                              .nodes = s->out->nodes,
                              .ranks_per_node = s->out->ranks_per_node,
                              .max_bytes = s->options->max_bytes,
                              .memory_bytes = INT64_C(1) << (is_gpu ? 32 : 28),
                              .element_bytes = (int64_t)element_bytes(s->device->kind->element)};
  if (run_plan_ops(plan.ops, s->options->ops, s->world->ranks, err))
    return -1;
  run_plan_make(&s->plan, &plan);
  s->out->planned = s->plan.n;
  for (size_t i = 0; i < s->plan.n; i++)
    s->out->ops[s->plan.v[i].op].planned++;
  return 0;
}

static int run(struct state *s, struct err *err) {
  struct measure_options measure = s->options->measure;
  const bool several = s->world->ranks > 1;
  enum word word = WORD_GO;
  if (place_ranks(s, err) || make_plan(s, err))
    return -1;
  machine_describe(&s->machine, s->device, several ? s->world : NULL);
  int rc = writes(s) ? open_files(s, err) : 0;
  if (several && agree(s, rc ? WORD_FAILED : WORD_GO, &word, rc ? NULL : err))
    return -1;
  if (rc || word == WORD_FAILED)
    return rc ? -1 : err_set(err, "the first rank cannot write rows");
  if (several)
    return run_collectives(s, err);
  measure.cache_bytes = s->options->warm ? 0 : machine_cache_bytes(s->device);
  return measure_init(&s->measure, s->device, &measure, err) || run_operators(s, err) ? -1 : 0;
}

int calibration_run(struct calibration *out, struct device *device, struct communicator *world,
                    const struct calibration_options *options, struct err *err) {
  struct state s = {.options = options, .device = device, .world = world, .out = out, .begin_ns = wall_clock_ns()};
  *out = (struct calibration){.nodes = 1, .ranks_per_node = 1};
  for (int c = 0; c < ROW_CLASSES; c++)
    s.files[c].fd = -1;
  int rc = run(&s, err);
  out->time_s = s_from_ns(wall_clock_ns() - s.begin_ns);
  for (int c = 0; c < ROW_CLASSES; c++)
    run_file_close(&s.files[c]);
  measure_release(&s.measure);
  collective_buffers_release(&s.buffers, device);
  run_plan_release(&s.plan);
  free(s.checked);
  return rc;
}
