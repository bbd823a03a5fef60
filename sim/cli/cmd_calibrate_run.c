/* dcpsim calibrate run */
#include "sim/cli/cmd_calibrate_run.h"

#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "calib/calibration.h"
#include "calib/placement.h"
#include "sim/base/json.h"
#include "sim/base/launcher.h"
#include "sim/base/output.h"
#include "sim/base/progress.h"
#include "sim/cli/cli.h"

/* A CPU shared with others never comes to rest. */
#define CPU_BUDGET_S 60
#define GPU_BUDGET_S 300
#define CPU_CONFIDENCE_FRAC 0.05
#define GPU_CONFIDENCE_FRAC 0.02
#define CPU_SHAPE_LIMIT_S 0.1
#define GPU_SHAPE_LIMIT_S 0.5

struct arguments {
  const char *device, *model, *out, *ops;
  int64_t max_tokens, max_bytes, ranks_per_node;
  double budget_s, confidence_frac, shape_limit_s;
  bool warm, json, help;
};

/* ---- Ending early ---- */

static atomic_bool stop;

static void on_signal(int number) {
  (void)number;
  atomic_store(&stop, true); /* the handler was reset on entry: a second signal ends the program at once */
}

static void stop_on_signal(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  const struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaction(numbers[i], &act, NULL);
}

/* ---- What it prints ---- */

static void print_warning(void *to, const char *message) {
  (void)to;
  log_warn("%s", message);
}
static const struct warning_sink warnings = {print_warning, NULL};

static void show_progress(void *to, size_t done, size_t total) {
  struct progress *bar = to;
  if (bar->total != (int64_t)total)
    progress_start(bar, "shapes", (int64_t)total);
  progress_update(bar, (int64_t)done);
}

static const char *ending(const struct calibration *c) {
  if (c->stopped)
    return "stopped";
  return c->out_of_budget ? "budget spent" : "complete";
}

/* Sizes of the groups that were measured, by the nodes they are on. */
static void print_placements(FILE *out, const struct calibration *c) {
  struct placements all;
  int nodes = 0;
  bool at_once = false;
  placements_make(&all, c->nodes, c->ranks_per_node);
  for (size_t i = 0; i < all.n; i++)
    at_once = at_once || all.v[i].groups > 1;
  fprintf(out, "%d node%s of %d rank%s%s", c->nodes, c->nodes == 1 ? "" : "s", c->ranks_per_node,
          c->ranks_per_node == 1 ? "" : "s", at_once ? "; each group alone, and all disjoint ones at once" : "");
  for (size_t i = 0; i < all.n; i++) {
    const struct placement *p = &all.v[i];
    if (p->groups > 1)
      continue;
    if (p->nodes == nodes)
      fprintf(out, ", %d", p->ranks);
    else
      fprintf(out, "\n  on %d node%s: groups of %d", p->nodes, p->nodes == 1 ? "" : "s", p->ranks);
    nodes = p->nodes;
  }
  fprintf(out, "\n\n");
  placements_release(&all);
}

static void print_table(FILE *out, const struct calibration *c, const struct arguments *a) {
  fprintf(out, "%s: %zu of %zu shapes in %.1f s, %s; rows in %s\n\n", a->device, c->measured + c->had, c->planned,
          c->time_s, ending(c), a->out);
  if (c->nodes * c->ranks_per_node > 1)
    print_placements(out, c);
  fprintf(out, "%-26s %8s %8s %8s %8s %8s %10s\n", "operation", "planned", "measured", "had", "refused", "spread %",
          "check");
  for (int op = 0; op < ROW_OPS; op++) {
    const struct calibration_count *n = &c->ops[op];
    if (n->planned == 0)
      continue;
    fprintf(out, "%-26s %8zu %8zu %8zu %8zu ", row_op_name((enum row_op)op), n->planned, n->measured, n->had,
            n->refused);
    if (n->measured == 0)
      fprintf(out, "%8s %10s\n", "-", "-");
    else if (row_op_class((enum row_op)op) == ROW_COLLECTIVE)
      fprintf(out, "%8.1f %10s\n", 100 * n->spread_frac / (double)n->measured, "exact");
    else
      fprintf(out, "%8.1f %10.1e\n", 100 * n->spread_frac / (double)n->measured, n->worst_check);
  }
  if (c->measured + c->had + c->refused < c->planned)
    fprintf(out, "\nThe same command goes on where this one ended.\n");
}

static void print_json(FILE *out, const struct calibration *c, const struct arguments *a) {
  struct json_writer w = {.file = out, .indent = true};
  json_begin_object(&w);
  json_key_str(&w, "schema", "dcpsim.calibration/1");
  json_key_str(&w, "device", a->device);
  json_key_str(&w, "out", a->out);
  json_key_str(&w, "ending", ending(c));
  json_key_int(&w, "nodes", c->nodes);
  json_key_int(&w, "ranks_per_node", c->ranks_per_node);
  json_key_int(&w, "planned", (int64_t)c->planned);
  json_key_int(&w, "measured", (int64_t)c->measured);
  json_key_int(&w, "had", (int64_t)c->had);
  json_key_int(&w, "refused", (int64_t)c->refused);
  json_key_int(&w, "repaired", (int64_t)c->repaired);
  json_key_double(&w, "time_s", c->time_s);
  json_key(&w, "ops");
  json_begin_array(&w);
  for (int op = 0; op < ROW_OPS; op++) {
    const struct calibration_count *n = &c->ops[op];
    if (n->planned == 0)
      continue;
    json_begin_object(&w);
    json_key_str(&w, "op", row_op_name((enum row_op)op));
    json_key_int(&w, "planned", (int64_t)n->planned);
    json_key_int(&w, "measured", (int64_t)n->measured);
    json_key_int(&w, "had", (int64_t)n->had);
    json_key_int(&w, "refused", (int64_t)n->refused);
    json_key_double(&w, "spread_frac", n->measured ? n->spread_frac / (double)n->measured : 0);
    json_key_double(&w, "check", n->worst_check);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}

static int print_result(const struct calibration *c, const struct arguments *a, struct err *err) {
  struct output out = {0};
  if (c->repaired)
    log_warn("%zu file%s ended inside a line, as after a kill: that line was cut off", c->repaired,
             c->repaired == 1 ? "" : "s");
  if (output_open(&out, "-", err))
    return -1;
  (a->json ? print_json : print_table)(out.file, c, a);
  int rc = output_commit(&out, err);
  output_discard(&out);
  return rc;
}

/* ---- The run ---- */

static int run(const struct arguments *a, struct err *err) {
  struct device *device = NULL;
  struct communicator *world = NULL;
  struct transformer model;
  struct calibration result;
  struct progress bar = {.enabled = false};
  struct calibration_options options = {
      .out = a->out,
      .ops = a->ops,
      .model = a->model ? &model : NULL,
      .max_tokens = a->max_tokens,
      .ranks_per_node = a->ranks_per_node,
      .max_bytes = a->max_bytes,
      .budget_s = a->budget_s,
      .measure = {.confidence_frac = a->confidence_frac, .shape_limit_s = a->shape_limit_s, .stop = &stop},
      .warm = a->warm,
      .warnings = &warnings,
      .progress = show_progress,
      .progress_to = &bar};
  const bool is_cpu = strcmp(a->device, "cpu") == 0;
  int rc = -1;
  if (options.budget_s == 0)
    options.budget_s = is_cpu ? CPU_BUDGET_S : GPU_BUDGET_S;
  if (options.measure.confidence_frac == 0)
    options.measure.confidence_frac = is_cpu ? CPU_CONFIDENCE_FRAC : GPU_CONFIDENCE_FRAC;
  if (options.measure.shape_limit_s == 0)
    options.measure.shape_limit_s = is_cpu ? CPU_SHAPE_LIMIT_S : GPU_SHAPE_LIMIT_S;
  if ((a->model && transformer_load(&model, a->model, err)) ||
      device_open(&device, a->device, is_cpu ? 0 : launcher_local_rank(), err) ||
      communicator_open(&world, NULL, device, err))
    goto out;
  stop_on_signal();
  rc = calibration_run(&result, device, world, &options, err);
  if (bar.total > 0)
    progress_finish(&bar);
  if (rc && world->ranks > 1 && !err->usage) {
    err_prefix(err, "calibrate run");
    cli_fail_of_ranks(err);
  }
  if (rc == 0 && world->rank == 0)
    rc = print_result(&result, a, err);
  if (rc == 0 && result.stopped && world->rank == 0)
    rc = err_set(err, "stopped; the rows so far are kept, and the same command goes on from there");
  if (rc == 0 && result.wrong > 0 && world->rank == 0)
    rc = err_set(err, "wrong results: %zu shapes have no row", result.wrong);
out:
  communicator_close(world);
  device_close(device);
  return rc;
}

static void help(FILE *out) {
  fprintf(
      out,
      "usage: dcpsim calibrate run -o DIR [--device cpu|cuda] [--model NAME] [--ops LIST] [--budget-s N]\n"
      "       mpirun -np N dcpsim calibrate run -o DIR [--device cpu|cuda] [--max-bytes N]\n\n"
      "Measures this machine and appends rows to DIR/attention.csv, gemm.csv, memory.csv (one process) and\n"
      "collective.csv (several processes), for `calibrate fit` and `calibrate check`. Each kernel is first compared\n"
      "with its reference in double precision on a small shape, each collective with exact numbers: rows of one that\n"
      "computes wrong are not written, and the exit status is 1 in the end. Shapes come coarse to fine, so that a run\n"
      "that ends early covers everything.\n"
      "Several processes measure groups of them as they lie over nodes: 1, 2, 4, ... and all nodes, with 1, 2, 4, ...\n"
      "and all ranks of each; one such group alone, and all at once (column groups). The ranks of a host are a node.\n"
      "Run again to go on: shapes that DIR has from this device are not measured again. Ctrl-C ends cleanly; a kill\n"
      "loses at most the row in flight.\n\n"
      "  -o, --output DIR   folder of the rows, made if it is not there (required)\n"
      "  --device NAME      cpu (fp32) or cuda (bf16; under mpirun each process takes the GPU of its local rank)\n"
      "                     (default cpu)\n"
      "  --model NAME       shapes of this model: a preset or a JSON file (default: a grid of usual sizes)\n"
      "  --max-tokens N     tokens of a micro-batch on one rank, at most (default: cpu 2048, cuda 32768)\n"
      "  --max-bytes N      bytes of a collective, at most (default: cpu 16777216, cuda 1073741824)\n"
      "  --ops LIST         operations, or classes attention, gemm, memory, collective, with commas (default: all\n"
      "                     kernels; under mpirun all collectives)\n"
      "  --ranks-per-node N every N ranks that follow each other are a node (default: those of one host), for hosts\n"
      "                     that share a name, and for tests: on one host it says nothing of a network\n"
      "  --budget-s N       begin no shape after so many seconds (default: cpu %d, cuda %d)\n"
      "  --confidence F     repeat until half the 95 %% interval of the median is this fraction of it\n"
      "                     (default: cpu %g, cuda %g)\n"
      "  --shape-limit-s S  seconds of repeating one shape, at most (default: cpu %g, cuda %g)\n"
      "  --warm             leave the arrays in the cache between repetitions (default: overwrite it)\n"
      "  --json             print dcpsim.calibration/1 instead of a table\n",
      CPU_BUDGET_S, GPU_BUDGET_S, CPU_CONFIDENCE_FRAC, GPU_CONFIDENCE_FRAC, CPU_SHAPE_LIMIT_S, GPU_SHAPE_LIMIT_S);
}

/* ---- Arguments ---- */

static const struct option options[] = {
    {"help", no_argument, NULL, 'h'},
    {"output", required_argument, NULL, 'o'},
    {"device", required_argument, NULL, 'd'},
    {"model", required_argument, NULL, 'm'},
    {"max-tokens", required_argument, NULL, 't'},
    {"max-bytes", required_argument, NULL, 'y'},
    {"ops", required_argument, NULL, 'p'},
    {"ranks-per-node", required_argument, NULL, 'r'},
    {"budget-s", required_argument, NULL, 'b'},
    {"confidence", required_argument, NULL, 'c'},
    {"shape-limit-s", required_argument, NULL, 'l'},
    {"warm", no_argument, NULL, 'w'},
    {"json", no_argument, NULL, 'j'},
    {0},
};

static int positive(const char *option, const char *text, double most, double *out, struct err *err) {
  *out = row_positive(text);
  if (*out > 0 && *out <= most)
    return 0;
  return err_usage(err, "%s must be a number above 0 and at most %g, got '%s'", option, most, text);
}

static int set_option(struct arguments *a, int code, struct err *err) {
  const char **const places[128] = {['o'] = &a->out, ['d'] = &a->device, ['m'] = &a->model, ['p'] = &a->ops};
  switch (code) {
  case 't':
    a->max_tokens = row_integer(optarg);
    if (a->max_tokens >= 64 && a->max_tokens <= 1 << 22)
      return 0;
    return err_usage(err, "--max-tokens must be an integer from 64 to %d, got '%s'", 1 << 22, optarg);
  case 'r':
    a->ranks_per_node = row_integer(optarg);
    if (a->ranks_per_node >= 1 && a->ranks_per_node <= 1 << 16)
      return 0;
    return err_usage(err, "--ranks-per-node must be an integer from 1 to %d, got '%s'", 1 << 16, optarg);
  case 'y':
    a->max_bytes = row_integer(optarg);
    if (a->max_bytes >= 64 && a->max_bytes <= INT64_C(1) << 40)
      return 0;
    return err_usage(err, "--max-bytes must be an integer from 64 to %lld, got '%s'", 1LL << 40, optarg);
  case 'b':
    return positive("--budget-s", optarg, 1e6, &a->budget_s, err);
  case 'c':
    return positive("--confidence", optarg, 1, &a->confidence_frac, err);
  case 'l':
    return positive("--shape-limit-s", optarg, 1e4, &a->shape_limit_s, err);
  case 'w':
    a->warm = true;
    return 0;
  case 'j':
    a->json = true;
    return 0;
  case 'h':
    a->help = true;
    return 0;
  default:
    *places[code] = optarg;
    return 0;
  }
}

static int parse_arguments(struct arguments *a, int argc, char **argv, struct err *err) {
  int code;
  *a = (struct arguments){.device = "cpu"};
  opterr = 0;
  optind = 0; /* GNU: scan anew */
  while ((code = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
    if (code == '?' || code == ':')
      return err_usage(err, "%s '%s' (dcpsim calibrate run --help)",
                       code == ':' ? "a value is missing after" : "no such option", argv[optind - 1]);
    if (set_option(a, code, err))
      return -1;
  }
  if (a->help)
    return 0;
  if (optind < argc)
    return err_usage(err, "it takes no file, got '%s' (dcpsim calibrate run --help)", argv[optind]);
  return a->out ? 0 : err_usage(err, "-o is missing: the folder of the rows");
}

int cmd_calibrate_run(int argc, char **argv) {
  struct err err = {.set = false};
  struct arguments a;
  int rc = parse_arguments(&a, argc, argv, &err);
  if (rc == 0 && a.help) {
    help(stdout);
    return 0;
  }
  if (rc == 0)
    rc = run(&a, &err);
  if (rc == 0)
    return 0;
  err_prefix(&err, "calibrate run");
  return cli_fail(&err);
}
