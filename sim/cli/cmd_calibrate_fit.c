/* dcpsim calibrate fit | check --leave-out | report */
#include "sim/cli/cmd_calibrate_fit.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "calib/check.h"
#include "calib/fit_params.h"
#include "calib/leave_out.h"
#include "calib/worst.h"
#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/base/progress.h"
#include "sim/base/share.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/report/plot.h"

#define SIBLINGS_MAX 16

struct arguments {
  const char *device, *out, *constants, *column, *params, *csv, *cluster;
  const char *siblings[SIBLINGS_MAX];
  size_t n_siblings;
  int threads;
  int worst; /* rows of each operation to list */
  bool json, help;
  char **files;
  size_t n_files;
};

struct subcommand {
  const char *name, *options; /* letters of those it takes, see options[] */
  int (*run)(const struct arguments *a, struct err *err);
  void (*help)(FILE *out);
};

/* ---- Rows and constants ---- */

struct input {
  struct rows *own, *sibling;
  struct fit_source source;
  struct json_doc constants, defaults;
};

static int read_files(struct rows **out, const char *const *paths, size_t n, struct err *err) {
  *out = xcalloc(n + 1, sizeof **out);
  for (size_t i = 0; i < n; i++)
    if (rows_read(&(*out)[i], paths[i], err))
      return -1;
  return 0;
}

static int read_input(struct input *in, const struct arguments *a, struct err *err) {
  if (!a->device)
    return err_usage(err, "--device is missing: the name that the parameters are for, as in h200_sxm");
  if (fit_constants_read(&in->constants, a->device, a->constants, err) ||
      read_files(&in->own, (const char *const *)a->files, a->n_files, err) ||
      read_files(&in->sibling, a->siblings, a->n_siblings, err))
    return -1;
  in->source = (struct fit_source){
      .device = a->device, .own = {in->own, a->n_files, NULL}, .sibling = {in->sibling, a->n_siblings, NULL}};
  return fit_source_describe(&in->source, err);
}

/* The parameter file that gives what the rows lack, and the device if it is not named. */
static int read_defaults(struct input *in, struct arguments *a, struct err *err) {
  char relative[128], path[4096];
  const char *name = a->params ? a->params : a->device;
  if (!name)
    return err_usage(err, "--params is missing: whose device and other sections to take");
  const bool is_path = strchr(name, '/') || (strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".json") == 0);
  snprintf(relative, sizeof relative, "calib/params/%.60s.json", name);
  if (!is_path && share_path(path, sizeof path, relative))
    return err_usage(err, "unknown parameters '%s'; valid: h200_sxm, h100_sxm, or a JSON file", name);
  if (json_doc_read(&in->defaults, "parameters", is_path ? name : path, "dcpsim.params/1", err))
    return -1;
  return a->device ? 0 : json_get_string(&in->defaults, in->defaults.root, "gpu", true, &a->device, err);
}

static void release_input(struct input *in, const struct arguments *a) {
  for (size_t i = 0; in->own && i < a->n_files; i++)
    rows_release(&in->own[i]);
  for (size_t i = 0; in->sibling && i < a->n_siblings; i++)
    rows_release(&in->sibling[i]);
  free(in->own);
  free(in->sibling);
  json_doc_release(&in->constants);
  json_doc_release(&in->defaults);
}

/* ---- fit ---- */

static int run_fit(const struct arguments *a, struct err *err) {
  struct arguments copy = *a; /* the device is not taken from the defaults */
  struct input in = {.own = NULL};
  struct output out = {0};
  int rc = -1;
  if (!a->out)
    return err_usage(err, "-o is missing: the parameter file to write");
  if ((a->params && read_defaults(&in, &copy, err)) || read_input(&in, a, err) || output_open(&out, a->out, err))
    goto out;
  in.source.defaults = in.defaults.root;
  rc = fit_write(out.file, &in.source, &in.constants, &cli_warnings, err);
  if (rc == 0)
    rc = output_commit(&out, err);
out:
  output_discard(&out);
  release_input(&in, a);
  return rc;
}

#define ROW_OPTIONS                                                                                                    \
  "  --device NAME     the device of the rows, as in h200_sxm ; rows whose column used_for does not name it\n"         \
  "                    are not used (fit: required; check: that of --params)\n"                                        \
  "  --sibling ROWS    rows of a device with the same compute units and ports and another memory; may be repeated.\n"  \
  "                    gemm: which kernel is picked for shapes without a row; collectives: sizes without a row\n"      \
  "  --constants FILE  constants that no row gives, with their sources (default: calib/data/constants_NAME.json)\n"

static void help_fit(FILE *out) {
  fprintf(out,
          "usage: dcpsim calibrate fit ROWS.csv... --device NAME -o PARAMS.json [--sibling ROWS.csv]\n\n"
          "Fits a parameter file to measured rows (relative errors, outliers weigh less). The same rows give the\n"
          "same bytes. The file names its rows with their SHA-256, its error on them and their ranges.\n\n" ROW_OPTIONS
          "  --params P        a shipped name or a file: gives GEMM, attention or network where there are no rows of\n"
          "                    them at all, as where one GPU cannot measure collectives (default: all are needed)\n"
          "  -o FILE           parameter file to write, - for stdout (required)\n\n"
          "Rows of `calibrate run` are fitted without knowledge of the kernels behind them, on any device, and not\n"
          "together with others.\n");
}

/* ---- check --leave-out ---- */

static void show_progress(void *to, size_t done, size_t total) {
  struct progress *bar = to;
  if (bar->total != (int64_t)total)
    progress_start(bar, "refits", (int64_t)total);
  progress_update(bar, (int64_t)done);
}

static void leave_out_json(FILE *out, const struct leave_out *l, const struct arguments *a, const struct worst *worst) {
  struct json_writer w = {.file = out, .indent = true};
  json_begin_object(&w);
  json_key_str(&w, "schema", "dcpsim.check/1");
  json_key_str(&w, "device", a->device);
  json_key_str(&w, "leave_out", a->column);
  size_t rows = 0;
  for (size_t i = 0; i < l->n_groups; i++)
    rows += l->groups[i].rows;
  json_key_int(&w, "rows", (int64_t)rows);
  json_key_int(&w, "refits", (int64_t)l->refits);
  json_key(&w, "groups");
  json_begin_array(&w);
  for (size_t i = 0; i < l->n_groups; i++) {
    const struct leave_out_group *g = &l->groups[i];
    json_begin_object(&w);
    json_key_str(&w, "op", g->op);
    json_key_str(&w, "value", g->largest ? "largest" : "interior");
    json_key_int(&w, "values", (int64_t)g->values);
    json_key_int(&w, "rows", (int64_t)g->rows);
    json_key(&w, "abs_rel_error");
    json_begin_object(&w);
    json_key_double(&w, "median", g->median);
    json_key_double(&w, "p90", g->p90);
    json_key_double(&w, "max", g->max);
    json_key_double(&w, "mean", g->mean);
    json_end_object(&w);
    json_end_object(&w);
  }
  json_end_array(&w);
  if (a->worst > 0)
    worst_json(&w, worst);
  json_end_object(&w);
  fputc('\n', out);
}

static void leave_out_table(FILE *out, const struct leave_out *l, const struct arguments *a) {
  fprintf(out, "%s, each value of '%s' left out in turn: %zu refits\n\n", a->device, a->column, l->refits);
  fprintf(out, "error on the rows left out: |predicted - measured| / measured, %%\n%-26s %-14s %8s %8s %8s %8s %8s\n",
          "operation", "values", "rows", "median", "p90", "max", "mean");
  for (size_t i = 0; i < l->n_groups; i++) {
    const struct leave_out_group *g = &l->groups[i];
    char values[32];
    snprintf(values, sizeof values, g->largest ? "%zu largest" : "%zu interior", g->values);
    fprintf(out, "%-26s %-14s %8zu %8.2f %8.2f %8.2f %8.2f\n", g->op, values, g->rows, 100 * g->median, 100 * g->p90,
            100 * g->max, 100 * g->mean);
  }
}

/* Every scored row with the prediction of the refit that had not seen it. */
static int leave_out_rows(const struct leave_out *l, const struct input *in, const struct arguments *a,
                          struct err *err) {
  struct output out = {0};
  char number[32];
  if (output_open(&out, a->csv, err))
    return -1;
  fprintf(out.file, "file,line,op,%s,time_s,predicted_time_s,rel_error\n", a->column);
  for (size_t f = 0, at = 0; f < a->n_files; f++) {
    const struct table *t = &in->own[f].table;
    for (size_t i = 0; i < t->n_rows; i++, at++) {
      if (!(l->predicted_s[at] > 0))
        continue;
      table_put_field(out.file, t->path);
      fprintf(out.file, ",%lld,%s,%s", (long long)t->lines[i], row_op_name(in->own[f].v[i].op),
              table_field(t, i, table_column(t, a->column)));
      double_text(in->own[f].v[i].time_s, number);
      fprintf(out.file, ",%s", number);
      double_text(l->predicted_s[at], number);
      fprintf(out.file, ",%s", number);
      double_text(l->predicted_s[at] / in->own[f].v[i].time_s - 1, number);
      fprintf(out.file, ",%s\n", number);
    }
  }
  int rc = output_commit(&out, err);
  output_discard(&out);
  return rc;
}

static void find_worst(struct worst *out, const struct leave_out *l, const struct input *in,
                       const struct arguments *a) {
  for (size_t f = 0, at = 0; f < a->n_files; f++)
    for (size_t i = 0; i < in->own[f].table.n_rows; i++, at++)
      if (l->predicted_s[at] > 0)
        worst_add(out, &in->own[f], i, l->predicted_s[at]);
  worst_keep(out, (size_t)a->worst);
}

static int run_leave_out(const struct arguments *given, struct err *err) {
  struct arguments copy = *given, *a = &copy;
  struct input in = {.own = NULL};
  struct leave_out result = {.n_groups = 0};
  struct worst worst = {0};
  struct progress bar = {.enabled = false};
  struct output out = {0};
  struct leave_out_options options = {a->column, a->threads, show_progress, &bar};
  int rc = -1;
  if (!a->column)
    return err_usage(err, "--leave-out is missing");
  if (read_defaults(&in, a, err) || read_input(&in, a, err))
    goto out;
  in.source.defaults = in.defaults.root;
  rc = leave_out_run(&result, &in.source, &in.constants, &options, err);
  if (bar.total > 0)
    progress_finish(&bar);
  if (rc || (a->csv && leave_out_rows(&result, &in, a, err)) || output_open(&out, "-", err)) {
    rc = -1;
    goto out;
  }
  if (a->worst > 0)
    find_worst(&worst, &result, &in, a);
  if (a->json)
    leave_out_json(out.file, &result, a, &worst);
  else
    leave_out_table(out.file, &result, a);
  if (a->worst > 0 && !a->json)
    worst_table(out.file, &worst);
  rc = output_commit(&out, err);
out:
  output_discard(&out);
  worst_release(&worst);
  leave_out_release(&result);
  release_input(&in, a);
  return rc;
}

static void help_leave_out(FILE *out) {
  fprintf(out,
          "usage: dcpsim calibrate check --leave-out COLUMN --params P ROWS.csv... [--sibling ROWS.csv] [--json]\n\n"
          "Refits without each interior value of a column in turn and prints the error on the rows left out: what a\n"
          "fit says of shapes that it has not seen. Apart, the two largest values are left out together.\n\n"
          "  --leave-out COLUMN  gemm m, n, k; attention seqlen, batch, heads; collectives bytes\n"
          "  --params P        a shipped name or a file: its device, and what the rows do not refit "
          "(required)\n" ROW_OPTIONS
          "  --worst N         also list the N rows of each operation that are furthest off, of interior values\n"
          "  --csv FILE        also write every row left out with its prediction (s)\n"
          "  --json            print dcpsim.check/1 instead of a table; errors as fractions\n"
          "  -j N              refits at a time (default: the number of processors)\n");
}

/* ---- report ---- */

static int draw(const char *dir, const char *name, const char *csv, struct err *err) {
  static const char *const suffixes[] = {"svg", "png"};
  const struct plot *plot = plot_find(name, err);
  const struct plot_input in = {.path = csv};
  for (size_t i = 0; plot && i < sizeof suffixes / sizeof *suffixes; i++) {
    char path[4200];
    snprintf(path, sizeof path, "%s/%s.%s", dir, name, suffixes[i]);
    if (plot_draw(plot, &in, path, err))
      return -1;
  }
  return plot ? 0 : -1;
}

static int load_cluster(struct cluster *cluster, const struct arguments *a, const struct params *params,
                        struct err *err) {
  char name[64];
  const char *gpu = params_gpu(params);
  snprintf(name, sizeof name, "%.*s_8x1", (int)strcspn(gpu, "_"), gpu);
  return cluster_load(cluster, a->cluster ? a->cluster : name, err);
}

static int run_report(const struct arguments *a, struct err *err) {
  struct params *params = NULL;
  struct cluster cluster;
  struct rows *files = NULL;
  struct output out = {0};
  char csv[4200];
  int rc = -1;
  if (!a->params || !a->out)
    return err_usage(err, "%s is missing", a->params ? "-o (the folder to write)" : "--params");
  if (mkdir(a->out, 0777) && errno != EEXIST)
    return err_set(err, "cannot create folder '%s': %s", a->out, strerror(errno));
  if (params_load(&params, a->params, err) || load_cluster(&cluster, a, params, err) ||
      read_files(&files, (const char *const *)a->files, a->n_files, err))
    goto out;
  const struct row_predictor predictor = {params, &cluster};
  snprintf(csv, sizeof csv, "%s/residuals.csv", a->out);
  if (output_open(&out, csv, err))
    goto out;
  check_write_rows(out.file, &predictor, files, a->n_files, NULL);
  rc = output_commit(&out, err);
  if (rc == 0)
    rc = draw(a->out, "residuals", csv, err);
out:
  output_discard(&out);
  for (size_t i = 0; files && i < a->n_files; i++)
    rows_release(&files[i]);
  free(files);
  params_free(params);
  return rc;
}

static void help_report(FILE *out) {
  fprintf(out, "usage: dcpsim calibrate report --params P ROWS.csv... -o DIR\n\n"
               "Writes into folder DIR residuals.csv, every row with its prediction, and residuals.svg and .png: the\n"
               "error of every row by operation and measured time.\n\n"
               "  --params P      a shipped name (h200_sxm, h100_sxm) or a file (required)\n"
               "  -o DIR          folder, made if it is not there (required)\n"
               "  --cluster NAME  ports of the network that collectives ran on (default: as in h200_8x1)\n");
}

/* ---- arguments ---- */

static const struct subcommand subcommands[] = {
    {"fit", "doskP", run_fit, help_fit},
    {"check", "dlskcjtPw", run_leave_out, help_leave_out},
    {"report", "PoC", run_report, help_report},
};

static const struct option options[] = {
    {"help", no_argument, NULL, 'h'},
    {"device", required_argument, NULL, 'd'},
    {"output", required_argument, NULL, 'o'},
    {"sibling", required_argument, NULL, 's'},
    {"constants", required_argument, NULL, 'k'},
    {"leave-out", required_argument, NULL, 'l'},
    {"csv", required_argument, NULL, 'c'},
    {"json", no_argument, NULL, 'j'},
    {"threads", required_argument, NULL, 't'},
    {"worst", required_argument, NULL, 'w'},
    {"params", required_argument, NULL, 'P'},
    {"cluster", required_argument, NULL, 'C'},
    {0},
};

static int set_option(struct arguments *a, int code, struct err *err) {
  const char **const places[] = {
      ['d'] = &a->device, ['o'] = &a->out,    ['k'] = &a->constants, ['l'] = &a->column,
      ['c'] = &a->csv,    ['P'] = &a->params, ['C'] = &a->cluster,
  };
  switch (code) {
  case 's':
    if (a->n_siblings == SIBLINGS_MAX)
      return err_usage(err, "--sibling: at most %d files", SIBLINGS_MAX);
    a->siblings[a->n_siblings++] = optarg;
    return 0;
  case 't':
    a->threads = (int)row_integer(optarg);
    return a->threads >= 1 && a->threads <= 64 ? 0
                                               : err_usage(err, "-j must be an integer from 1 to 64, got '%s'", optarg);
  case 'w': {
    const int64_t n = row_integer(optarg);
    if (n < 1 || n > 1 << 20)
      return err_usage(err, "--worst must be an integer from 1 to %d, got '%s'", 1 << 20, optarg);
    a->worst = (int)n;
    return 0;
  }
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

static int parse_arguments(struct arguments *a, const struct subcommand *command, int argc, char **argv,
                           struct err *err) {
  int code;
  *a = (struct arguments){.threads = (int)int64_max(1, int64_min(64, sysconf(_SC_NPROCESSORS_ONLN)))};
  opterr = 0;
  optind = 0; /* GNU: scan anew */
  while ((code = getopt_long(argc, argv, ":ho:j:", options, NULL)) != -1) {
    if (code == '?' || code == ':')
      return err_usage(err, "%s '%s'", code == ':' ? "a value is missing after" : "no such option", argv[optind - 1]);
    if (code == 'j' && optarg)
      code = 't';
    if (code != 'h' && !strchr(command->options, code))
      return err_usage(err, "no option '%s' here", argv[optind - 1]);
    if (set_option(a, code, err))
      return -1;
  }
  a->files = argv + optind;
  a->n_files = (size_t)(argc - optind);
  if (!a->help && a->n_files == 0)
    return err_usage(err, "expected at least one file of rows");
  return 0;
}

int cmd_calibrate_fit(int argc, char **argv) {
  struct err err = {.set = false};
  struct arguments a;
  const struct subcommand *command = subcommands;
  while (strcmp(command->name, argv[0]) != 0)
    command++;
  int rc = parse_arguments(&a, command, argc, argv, &err);
  if (rc == 0 && a.help) {
    command->help(stdout);
    return 0;
  }
  if (rc == 0)
    rc = command->run(&a, &err);
  if (rc == 0)
    return 0;
  err_prefix(&err, "calibrate %s", command->name);
  return cli_fail(&err);
}
