/* dcpsim execute SCHEDULE */
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/launcher.h"
#include "sim/base/output.h"
#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/print_execution.h"

#define VERIFY_TOLERANCE 1e-4

static void help(FILE *out) {
  fprintf(
      out,
      "usage: mpirun -np N dcpsim execute SCHEDULE --device cpu|cuda|virtual [options]\n\n"
      "Plays a schedule that check accepts, one process per rank of its cluster: attention, GEMMs, exchanges,\n"
      "gradient reduction and optimizer of the program that simulate plays in virtual time; measures every\n"
      "operation and prints it beside its prediction. Tokens and weights come from the seed.\n\n"
      "  --device NAME       cpu (fp32), cuda (bf16, one GPU per rank) or virtual (every operation waits for its\n"
      "                      predicted time) (required)\n"
      "  --steps N           only the first N iterations (default: all)\n"
      "  --verify            every iteration also on one rank without parallelism, padding or recomputation: loss,\n"
      "                      gradient and updated weights must agree, tensor by tensor (fp32: relative L2 %.0e);\n"
      "                      takes sgd\n"
      "  --optimizer NAME    adamw (default) or sgd (default with --verify)\n"
      "  --learning-rate X   default 1e-4 for adamw, 0.1 for sgd; 0: nothing is updated\n"
      "  --as-rank R --world W  this one process plays rank R of a schedule for W ranks; exchanges and collectives\n"
      "                      wait for their predicted time, and are marked (waited)\n"
      "  --seed N            of weights and tokens (default 0)\n"
      "  --timeout-s X       an operation that takes longer ends all ranks (default 60)\n"
      "  --memory-bytes N    refuses a schedule of which a rank needs more (default: what the device has free; cpu: "
      "an\n"
      "                      equal share of this machine's memory); what --verify needs besides is not counted\n"
      "  --timeline FILE     rank 0's measured timeline (Perfetto); {rank} in the name: every rank's\n"
      "  --csv FILE          a row per iteration, written as it ends\n"
      "  --json              print dcpsim.execution/1\n\n"
      "Played: the operations of framework fused. Times are rank 0's, from a common start to a common\n"
      "end. Exit code: 0 ok, 1 failure (also when --verify finds a difference), 2 usage.\n",
      VERIFY_TOLERANCE);
}

/* ---- options ---- */

static int parse_number(const char *name, const char *text, double min, double *out, struct err *err) {
  char *end;
  double v = strtod(text, &end);
  if (end == text || *end || *text == ' ' || !isfinite(v) || v < min)
    return err_usage(err, "execute: %s must be a number of at least %g, got '%.60s'", name, min, text);
  *out = v;
  return 0;
}

static int parse_whole(const char *name, const char *text, double min, double *out, struct err *err) {
  if (parse_number(name, text, min, out, err))
    return -1;
  if (*out != floor(*out) || *out > 1e15)
    return err_usage(err, "execute: %s must be a whole number, got '%.60s'", name, text);
  return 0;
}

enum option_code {
  OPT_DEVICE = 256,
  OPT_STEPS,
  OPT_VERIFY,
  OPT_OPTIMIZER,
  OPT_RATE,
  OPT_SEED,
  OPT_AS_RANK,
  OPT_WORLD,
  OPT_TIMEOUT,
  OPT_MEMORY,
  OPT_TIMELINE,
  OPT_CSV,
  OPT_JSON
};

struct parsed {
  const char *optimizer;
  double rate, steps, seed, as_rank, world, memory_bytes;
};

static int parse_one(struct execution_request *r, struct parsed *p, int code, const char *value, struct err *err) {
  switch (code) {
  case OPT_DEVICE:
    r->device = value;
    return 0;
  case OPT_STEPS:
    return parse_whole("--steps", value, 1, &p->steps, err);
  case OPT_VERIFY:
    r->verify = true;
    return 0;
  case OPT_OPTIMIZER:
    p->optimizer = value;
    return 0;
  case OPT_RATE:
    return parse_number("--learning-rate", value, 0, &p->rate, err);
  case OPT_SEED:
    return parse_whole("--seed", value, 0, &p->seed, err);
  case OPT_AS_RANK:
    return parse_whole("--as-rank", value, 0, &p->as_rank, err);
  case OPT_WORLD:
    return parse_whole("--world", value, 1, &p->world, err);
  case OPT_TIMEOUT:
    return parse_number("--timeout-s", value, 0.1, &r->timeout_s, err);
  case OPT_MEMORY:
    return parse_whole("--memory-bytes", value, 1, &p->memory_bytes, err);
  case OPT_TIMELINE:
    r->timeline = value;
    return 0;
  case OPT_CSV:
    r->csv = value;
    return 0;
  default:
    r->json = true;
    return 0;
  }
}

static int finish_as_rank(struct execution_request *r, const struct parsed *p, struct err *err) {
  r->as_rank = (long)p->as_rank;
  r->world = (long)p->world;
  if ((r->as_rank < 0) != (r->world < 0))
    return err_usage(err, "execute: --as-rank and --world belong together");
  if (r->as_rank < 0)
    return 0;
  if (r->as_rank >= r->world)
    return err_usage(err, "execute: --as-rank must be below --world %ld, got %ld", r->world, r->as_rank);
  if (r->verify)
    return err_usage(err, "execute: --verify needs the numbers of all ranks, --as-rank has those of one");
  if (r->options.is_virtual)
    return err_usage(err, "execute: --as-rank plays one rank on a real device (cpu, cuda)");
  return 0;
}

static int finish(struct execution_request *r, const struct parsed *p, struct err *err) {
  const char *optimizer = p->optimizer ? p->optimizer : r->verify ? "sgd" : "adamw";
  bool sgd = strcmp(optimizer, "sgd") == 0;
  if (!sgd && strcmp(optimizer, "adamw") != 0)
    return err_usage(err, "execute: unknown optimizer '%.60s' (adamw, sgd)", optimizer);
  if (r->verify && !sgd)
    return err_usage(err,
                     "execute: --verify compares updated weights, which needs sgd: a first step of adamw is the sign "
                     "of the gradient");
  if (!r->device)
    return err_usage(err, "execute: --device is required: cpu, cuda or virtual");
  if (strcmp(r->device, "cpu") != 0 && strcmp(r->device, "cuda") != 0 && strcmp(r->device, "virtual") != 0)
    return err_usage(err, "execute: unknown device '%.60s' (valid: cpu, cuda, virtual)", r->device);
  r->options = (struct execute_options){.is_virtual = strcmp(r->device, "virtual") == 0,
                                        .seed = (uint64_t)p->seed,
                                        .optimizer = sgd ? OPTIMIZER_SGD : OPTIMIZER_ADAMW,
                                        .learning_rate = p->rate >= 0 ? p->rate
                                                         : sgd        ? 0.1
                                                                      : 1e-4};
  if (r->verify && r->options.is_virtual)
    return err_usage(err, "execute: --verify needs numbers, which the virtual device does not have (cpu, cuda)");
  r->memory_bytes = (int64_t)p->memory_bytes;
  if (r->memory_bytes > 0 && r->options.is_virtual)
    return err_usage(err, "execute: --memory-bytes is of a real device (cpu, cuda), the virtual one has no memory");
  r->steps = (long)p->steps;
  return finish_as_rank(r, p, err);
}

static int parse(int argc, char **argv, struct execution_request *r, bool *want_help, struct err *err) {
  static const struct option options[] = {{"help", no_argument, NULL, 'h'},
                                          {"device", required_argument, NULL, OPT_DEVICE},
                                          {"steps", required_argument, NULL, OPT_STEPS},
                                          {"verify", no_argument, NULL, OPT_VERIFY},
                                          {"optimizer", required_argument, NULL, OPT_OPTIMIZER},
                                          {"learning-rate", required_argument, NULL, OPT_RATE},
                                          {"seed", required_argument, NULL, OPT_SEED},
                                          {"as-rank", required_argument, NULL, OPT_AS_RANK},
                                          {"world", required_argument, NULL, OPT_WORLD},
                                          {"timeout-s", required_argument, NULL, OPT_TIMEOUT},
                                          {"memory-bytes", required_argument, NULL, OPT_MEMORY},
                                          {"timeline", required_argument, NULL, OPT_TIMELINE},
                                          {"csv", required_argument, NULL, OPT_CSV},
                                          {"json", no_argument, NULL, OPT_JSON},
                                          {0}};
  struct parsed p = {.rate = -1, .as_rank = -1, .world = -1};
  int code;
  optind = 0; /* GNU: scan anew */
  while ((code = cli_option("execute", argc, argv, ":h", options, err)) != -1) {
    *want_help |= code == 'h';
    if (code == '?')
      return -1;
    if (code != 'h' && parse_one(r, &p, code, optarg, err))
      return -1;
  }
  if (*want_help)
    return 0;
  if (argc - optind != 1)
    return err_usage(err, "execute: expected one SCHEDULE, got %d (dcpsim execute --help)", argc - optind);
  r->schedule = argv[optind];
  return finish(r, &p, err);
}

/* ---- opening ---- */

/* The process that prints. */
static bool leads(const struct execution *x) { return x->world->rank == 0 || x->request->as_rank >= 0; }

static int open_csv(struct execution *x, struct err *err) {
  if (!x->request->csv || !leads(x))
    return 0;
  x->csv = fopen(x->request->csv, "w");
  if (!x->csv || fprintf(x->csv, "iteration,predicted_time_s,measured_time_s,tokens,loss,grad_norm\n") < 0 ||
      fflush(x->csv) != 0)
    return err_set(err, "execute: cannot write '%s'", x->request->csv);
  return 0;
}

/* One rank beside the others, for --verify. */
static int open_single(struct execution *x, struct err *err) {
  if (!x->request->verify || x->world->rank != 0)
    return 0;
  struct execute_options options = x->request->options;
  struct communicator *alone;
  options.zero = 0;
  return communicator_group(x->world, 1, 1, &alone, err) ||
                 executor_open(&x->single, &x->plan.model, &options, alone, err) || executor_start(x->single, err)
             ? -1
             : 0;
}

static int open_world(struct execution *x, struct err *err) {
  const struct execution_request *r = x->request;
  if (r->as_rank < 0)
    return communicator_open(&x->world, NULL, x->device, err);
  x->world = execute_stand_in(x->device, (int)r->as_rank, (int)r->world);
  return 0;
}

/* The most that this rank will hold, and the iteration it will hold it in. */
static int needed_memory(struct execution *x, int64_t *needed, int64_t *iteration, struct err *err) {
  const struct execution_request *r = x->request;
  int rc = 1;
  *needed = 0;
  for (long n = 0; (r->steps == 0 || n < r->steps) && (rc = execute_plan_next_shapes(&x->plan, err)) > 0; n++) {
    int64_t bytes;
    if (executor_needs(x->executor, &x->plan.step, &bytes, err))
      return -1;
    if (bytes > *needed)
      *iteration = x->plan.step.iteration;
    *needed = int64_max(*needed, bytes);
  }
  return rc < 0 ? -1 : execute_plan_rewind(&x->plan, r->schedule, err);
}

/* Refuses a schedule that the device cannot hold, whose weights are allocated already. */
static int check_memory(struct execution *x, struct err *err) {
  const struct execution_request *r = x->request;
  int64_t needed, iteration = 0, held = executor_peak_bytes(x->executor);
  size_t has = (size_t)r->memory_bytes;
  bool host = x->device->kind->element == ELEMENT_FP32;
  if (r->options.is_virtual)
    return 0;
  if (needed_memory(x, &needed, &iteration, err))
    return -1;
  if (r->memory_bytes == 0) {
    if (device_memory(x->device, &has, err))
      return -1;
    has = host ? has / (size_t)launcher_local_ranks() : has + (size_t)held;
  }
  if ((size_t)needed <= has)
    return 0;
  return err_set(
      err,
      "execute: rank %d: schedule '%s' needs %lld bytes of device memory (%.4g GiB) in iteration %lld, %.4g GiB of "
      "them weights, gradients and optimizer, but %s has %zu (%.4g GiB)%s",
      x->world->rank, r->schedule, (long long)needed, (double)needed / GIB_BYTES, (long long)iteration,
      (double)held / GIB_BYTES, x->device->name, has, (double)has / GIB_BYTES,
      r->memory_bytes > 0 ? " (--memory-bytes)"
      : host              ? " for each rank (--memory-bytes sets another limit)"
                          : "");
}

/* Nothing starts before every rank can. */
static int meet(struct execution *x, struct err *err) {
  struct communicator_call call = {.op = COMMUNICATOR_BARRIER};
  return x->request->options.is_virtual ? 0 : communicator_run(x->world, &call, err);
}

static int open_all(struct execution *x, struct err *err) {
  const struct execution_request *r = x->request;
  bool cuda = strcmp(r->device, "cuda") == 0;
  if (device_open(&x->device, r->options.is_virtual ? "cpu" : r->device, cuda ? launcher_local_rank() : 0, err) ||
      open_world(x, err) || execute_plan_open(&x->plan, r->schedule, err))
    return -1;
  const struct schedule_header *h = &x->plan.reader.header;
  if (r->as_rank >= 0 && h->world != r->world)
    return err_set(err, "execute: schedule '%s' is for %d ranks, not --world %ld", r->schedule, h->world, r->world);
  if (h->world != x->world->ranks)
    return err_set(err, "execute: schedule '%s' is for %d rank%s, but %d process%s: mpirun -np %d dcpsim execute ...",
                   r->schedule, h->world, h->world == 1 ? "" : "s", x->world->ranks,
                   x->world->ranks == 1 ? " runs" : "es run", h->world);
  if (!r->options.is_virtual && strcmp(h->framework, "fused") != 0)
    return err_set(err, "execute: schedule '%s' has the operations of framework '%s'; those of 'fused' are played",
                   r->schedule, h->framework);
  struct execute_options options = r->options;
  options.zero = h->zero;
  options.shard_ranks = h->shard_node ? h->gpus_per_node : 0;
  if (executor_open(&x->executor, &x->plan.model, &options, x->world, err) || check_memory(x, err) ||
      executor_start(x->executor, err) || open_single(x, err) || meet(x, err) || open_csv(x, err))
    return -1;
  x->watchdog = watchdog_start(x->executor, x->world->rank, r->timeout_s);
  return 0;
}

static void close_all(struct execution *x) {
  watchdog_stop(x->watchdog);
  if (x->csv)
    fclose(x->csv);
  executor_close(x->single);
  executor_close(x->executor);
  if (x->plan.engine)
    execute_plan_close(&x->plan);
  communicator_close(x->world);
  device_close(x->device);
  timeline_release(&x->timeline);
  free(x->rows);
}

/* ---- verification ---- */

static void compare(struct execution_verification *v, const char *what, const char *tensor, const float *a,
                    const float *b, int64_t n) {
  double difference = 0, size = 0;
  for (int64_t i = 0; i < n; i++) {
    difference += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    size += (double)b[i] * b[i];
  }
  double error = size > 0 ? sqrt(difference / size) : sqrt(difference);
  v->checked++;
  if (!(error <= v->max_rel_error)) {
    v->max_rel_error = error;
    snprintf(v->worst, sizeof v->worst, "%s of %s", what, tensor);
  }
}

typedef int read_tensor(struct executor *x, int i, float *out, struct err *err);

/* All ranks read (together, where tensors are sharded); rank 0 compares. */
static int compare_all(struct execution *x, const char *what, read_tensor *read, struct err *err) {
  for (int i = 0; i < executor_tensors(x->executor); i++) {
    int64_t n;
    const char *name = executor_tensor(x->executor, i, &n);
    float *a = xmalloc(size_mul((size_t)n, 2 * sizeof *a)), *b = a + n;
    int rc = read(x->executor, i, a, err);
    if (rc == 0 && x->single) {
      rc = read(x->single, i, b, err);
      compare(&x->verified, what, name, a, b, n);
    }
    free(a);
    if (rc)
      return -1;
  }
  return 0;
}

static int verify(struct execution *x, const struct execute_result *result, struct err *err) {
  if (x->single) {
    struct execute_single single;
    struct execute_result alone = {0};
    execute_single_make(&single, &x->plan);
    int rc = executor_step(x->single, &single.step, NULL, &alone, err);
    execute_single_release(&single);
    if (rc)
      return -1;
    float a = (float)result->loss, b = (float)alone.loss;
    compare(&x->verified, "loss", "the iteration", &a, &b, 1);
  }
  return compare_all(x, "gradient", executor_gradient, err) || compare_all(x, "weights", executor_weight, err) ? -1 : 0;
}

/* ---- the run ---- */

static int keep_row(struct execution *x, const struct execute_result *r, struct err *err) {
  struct execution_row row = {x->plan.predicted_step_s, r->step_s};
  VEC_PUSH(x->rows, x->n_rows, x->rows_cap, row);
  if (x->csv && (fprintf(x->csv, "%lld,%.9g,%.9g,%lld,%.9g,%.9g\n", (long long)x->plan.line.iteration, row.predicted_s,
                         row.measured_s, (long long)x->plan.tokens, r->loss, r->grad_norm) < 0 ||
                 fflush(x->csv) != 0))
    return err_set(err, "execute: cannot write '%s'", x->request->csv);
  return 0;
}

static int play_one(struct execution *x, struct timeline *timeline, struct err *err) {
  struct execute_result result;
  return executor_step(x->executor, &x->plan.step, timeline, &result, err) ||
                 (x->request->verify && verify(x, &result, err)) || keep_row(x, &result, err)
             ? -1
             : 0;
}

static bool keeps_timeline(const struct execution *x) {
  const char *name = x->request->timeline;
  return name && (leads(x) || strstr(name, "{rank}"));
}

static int play(struct execution *x, struct err *err) {
  int64_t total = x->request->steps ? int64_min(x->request->steps, x->plan.iterations) : x->plan.iterations;
  struct progress bar = {.enabled = false};
  int rc = 0;
  if (leads(x))
    progress_start(&bar, "executing", total);
  for (int64_t n = 0; rc == 0 && n < total; n++) {
    rc = execute_plan_next(&x->plan, x->world->rank, err) < 0 ||
                 play_one(x, keeps_timeline(x) ? &x->timeline : NULL, err)
             ? -1
             : 0;
    progress_update(&bar, n + 1);
  }
  progress_finish(&bar);
  return rc;
}

/* ---- what came out ---- */

/* FILE with {rank} replaced. */
static char *timeline_path(const char *name, int rank) {
  const char *at = strstr(name, "{rank}");
  size_t size = strlen(name) + 16;
  char *path = xmalloc(size);
  if (at)
    snprintf(path, size, "%.*s%d%s", (int)(at - name), name, rank, at + strlen("{rank}"));
  else
    snprintf(path, size, "%s", name);
  return path;
}

static int write_timeline(struct execution *x, struct err *err) {
  const struct schedule_header *h = &x->plan.reader.header;
  if (!keeps_timeline(x))
    return 0;
  snprintf(x->timeline.policy, sizeof x->timeline.policy, "%s", h->policy);
  snprintf(x->timeline.run, sizeof x->timeline.run, "%s on %s, measured on %s", h->trace, h->model,
           x->request->options.is_virtual ? "the virtual device" : x->device->name);
  char *path = timeline_path(x->request->timeline, x->world->rank);
  int rc = timeline_write(&x->timeline, path, err);
  free(path);
  return rc;
}

static int print(struct execution *x, struct err *err) {
  struct output out;
  if (!leads(x))
    return 0;
  if (output_open(&out, "-", err))
    return -1;
  (x->request->json ? print_execution_json : print_execution)(out.file, x);
  if (output_commit(&out, err))
    return -1;
  if (x->request->verify && !(x->verified.max_rel_error <= VERIFY_TOLERANCE))
    return err_set(err, "execute: not the same as one rank alone: %s differs by %.2e (at most %.0e is rounding)",
                   x->verified.worst, x->verified.max_rel_error, VERIFY_TOLERANCE);
  return 0;
}

int cmd_execute(int argc, char **argv) {
  struct execution_request r = {.timeout_s = 60};
  struct execution x = {.request = &r};
  struct err err = {.set = false};
  bool want_help = false;
  if (parse(argc, argv, &r, &want_help, &err))
    cli_fail_of_ranks(&err);
  if (want_help) {
    help(stdout);
    return 0;
  }
  if (open_all(&x, &err) || play(&x, &err) || write_timeline(&x, &err) || print(&x, &err))
    cli_fail_of_ranks(&err);
  close_all(&x);
  return 0;
}
