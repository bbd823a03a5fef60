/* dcpsim calibrate import | check */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "calib/check.h"
#include "calib/import_csv.h"
#include "calib/import_nccl_tests.h"
#include "calib/rows.h"
#include "calib/worst.h"
#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/cmd_calibrate_fit.h"
#include "sim/cli/cmd_calibrate_run.h"
#include "sim/cli/cmd_calibrate_training.h"

struct arguments {
  const char *csv, *map, *op, *params, *cluster, *by;
  int ranks, nodes;
  int worst; /* rows of each operation to list */
  bool json, help;
  char **files;
  int n_files;
};

struct subcommand {
  const char *name;    /* "import csv" */
  const char *options; /* letters of those it takes, see options[] */
  int min_files, max_files;
  int (*run)(const struct arguments *a, struct err *err);
  void (*help)(FILE *out);
};

/* ---- import nccl-tests ---- */

static int run_import_nccl_tests(const struct arguments *a, struct err *err) {
  struct nccl_options options = {.op = a->op, .ranks = a->ranks, .nodes = a->nodes, .warnings = &cli_warnings};
  struct nccl_rows rows = {.v = NULL};
  struct output out = {0};
  int rc = -1;
  for (int i = 0; i < a->n_files; i++)
    if (import_nccl_read(&rows, a->files[i], &options, err))
      goto out;
  if (output_open(&out, a->csv, err))
    goto out;
  import_nccl_write(out.file, &rows);
  rc = output_commit(&out, err);
out:
  output_discard(&out);
  nccl_rows_release(&rows);
  return rc;
}

static void help_import_nccl_tests(FILE *out) {
  char ops[300];
  import_nccl_list_ops(ops, sizeof ops);
  fprintf(
      out,
      "usage: dcpsim calibrate import nccl-tests LOG... [--csv OUT] [--op NAME] [--ranks N] [--nodes N]\n\n"
      "Reads logs of nccl-tests (- is stdin) into measured rows, one for the out-of-place and one for the in-place\n"
      "columns of every line. Prefixes of mpirun and srun, lines of launchers, cut logs, and tables that people\n"
      "shortened are understood; lines that could not be read are warned of.\n\n"
      "  --csv OUT   file to write, - for stdout (default -); columns op,dtype,ranks,nodes,bytes,time_s,\n"
      "              busbw_bytes_per_s,in_place: bytes as nccl-tests counts size, seconds, bytes per second, 0 or 1\n"
      "  --op NAME   the collective (default: from the log's header, command line or file name):\n"
      "              %s\n"
      "  --ranks N   GPUs that took part (default: from the device list, the bandwidths or the file name)\n"
      "  --nodes N   nodes they were on (default: from the device list or the file name, as in x_2n16g_y.txt)\n",
      ops);
}

/* ---- import csv ---- */

static int run_import_csv(const struct arguments *a, struct err *err) {
  struct import_csv_options options = {.map = a->map, .warnings = &cli_warnings};
  struct import_csv_result result;
  struct output out = {0};
  if (output_open(&out, a->csv, err))
    return -1;
  int rc = import_csv(a->files[0], out.file, &options, &result, err);
  if (rc == 0)
    rc = output_commit(&out, err);
  if (rc == 0)
    fprintf(stderr, "dcpsim: %zu rows written, %zu of them with a time from TFLOP/s; %zu left out\n", result.rows,
            result.rows_from_flops, result.rows_left_out);
  output_discard(&out);
  return rc;
}

static void help_import_csv(FILE *out) {
  char names[400];
  import_csv_list_names(names, sizeof names);
  fprintf(
      out,
      "usage: dcpsim calibrate import csv IN [--csv OUT] [--map COLUMN=NAME,...]\n\n"
      "Turns another table of kernel times (- is stdin) into measured rows. A row with TFLOP/s and no time gets its\n"
      "time in seconds from the FLOPs that such tables count: gemm 2mnk; attention forward 4 batch heads seqlen^2\n"
      "head_dim, half of it if causal; backward 2.5 times, both 3.5 times the forward. Rows that cannot be\n"
      "converted are left out and counted by reason.\n\n"
      "  --csv OUT   file to write, - for stdout (default -)\n"
      "  --map COLUMN=NAME,...\n"
      "              what columns of other names are (default: by name only). Names:\n"
      "              %s\n"
      "              (time_ms, time_us, time_ns in those units; tflops in TFLOP/s; sizes in elements, bytes in "
      "bytes)\n",
      names);
}

/* ---- check ---- */

static void check_json(FILE *out, const struct check *check, const struct params *params, const char *by,
                       const struct worst *worst) {
  struct json_writer w = {.file = out, .indent = true};
  json_begin_object(&w);
  json_key_str(&w, "schema", "dcpsim.check/1");
  json_key(&w, "params");
  json_begin_object(&w);
  json_key_str(&w, "file", params_name(params));
  json_key_str(&w, "sha256", params_sha256(params));
  json_end_object(&w);
  json_key_int(&w, "rows", (int64_t)check->rows);
  json_key_int(&w, "rows_not_predicted", (int64_t)check->rows_left_out);
  if (by)
    json_key_str(&w, "by", by);
  json_key(&w, "groups");
  json_begin_array(&w);
  for (size_t i = 0; i < check->n_groups; i++) {
    const struct check_group *g = &check->groups[i];
    json_begin_object(&w);
    json_key_str(&w, "op", row_op_name(g->op));
    if (g->at_once)
      json_key_bool(&w, "at_once", true);
    if (g->value)
      json_key_str(&w, "value", g->value);
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
  if (worst)
    worst_json(&w, worst);
  json_end_object(&w);
  fputc('\n', out);
}

static const char *shown_value(const struct check_group *g) { return *g->value ? g->value : "(empty)"; }

static void check_table(FILE *out, const struct check *check, const struct params *params, const char *by) {
  int width = by ? (int)strlen(by) : 0; /* of the column of values */
  int name_width = 27;
  char name[64];
  for (size_t i = 0; i < check->n_groups; i++) {
    if (by)
      width = (int)int64_max(width, (int64_t)strlen(shown_value(&check->groups[i])));
    if (check->groups[i].at_once)
      name_width = 33; /* all_to_all_uneven, groups at once */
  }
  fprintf(out, "parameters %s (sha256 %.12s), %zu rows", params_name(params), params_sha256(params), check->rows);
  if (check->rows_left_out)
    fprintf(out, ", %zu not predicted", check->rows_left_out);
  fprintf(out, "\n\nerror: |predicted - measured| / measured, %%\n%-*s ", name_width, "operation");
  if (by)
    fprintf(out, "%-*s ", width, by);
  fprintf(out, "%8s %8s %8s %8s %8s\n", "rows", "median", "p90", "max", "mean");
  for (size_t i = 0; i < check->n_groups; i++) {
    const struct check_group *g = &check->groups[i];
    snprintf(name, sizeof name, "%s%s", row_op_name(g->op), g->at_once ? ", groups at once" : "");
    fprintf(out, "%-*s ", name_width, name);
    if (by)
      fprintf(out, "%-*s ", width, shown_value(g));
    fprintf(out, "%8zu %8.2f %8.2f %8.2f %8.2f\n", g->rows, 100 * g->median, 100 * g->p90, 100 * g->max, 100 * g->mean);
  }
}

/* The cluster whose ports the rows were measured on: of the parameters' own GPU, unless one is given. */
static int load_cluster(struct cluster *cluster, const struct arguments *a, const struct params *params,
                        struct err *err) {
  char name[64];
  const char *gpu = params_gpu(params);
  if (a->cluster)
    return cluster_load(cluster, a->cluster, err);
  snprintf(name, sizeof name, "%.*s_8x1", (int)strcspn(gpu, "_"), gpu);
  if (cluster_load(cluster, name, err) == 0)
    return 0;
  return err_prefix(err, "parameters '%s' are for '%s'; --cluster names the cluster", params_name(params), gpu);
}

static void find_worst(struct worst *out, const struct row_predictor *p, const struct rows *files, size_t n_files,
                       size_t most) {
  const char *why_not;
  for (size_t f = 0; f < n_files; f++)
    for (size_t i = 0; i < files[f].table.n_rows; i++) {
      const double predicted_s = row_predict_s(p, &files[f], i, &why_not);
      if (!why_not)
        worst_add(out, &files[f], i, predicted_s);
    }
  worst_keep(out, most);
}

static int write_check(const struct arguments *a, const struct check *check, const struct row_predictor *p,
                       const struct rows *files, struct err *err) {
  struct output rows = {0}, out = {0};
  struct worst worst = {0};
  int rc = -1;
  if (a->worst > 0)
    find_worst(&worst, p, files, (size_t)a->n_files, (size_t)a->worst);
  if (a->csv) {
    if (output_open(&rows, a->csv, err))
      goto out;
    check_write_rows(rows.file, p, files, (size_t)a->n_files, a->by);
  }
  if (output_open(&out, "-", err))
    goto out;
  if (a->csv && strcmp(a->csv, "-") == 0) {
    /* the rows are what was asked for on stdout */
  } else if (a->json) {
    check_json(out.file, check, p->params, a->by, a->worst > 0 ? &worst : NULL);
  } else {
    check_table(out.file, check, p->params, a->by);
    if (a->worst > 0)
      worst_table(out.file, &worst);
  }
  rc = a->csv ? output_commit(&rows, err) : 0;
  if (rc == 0)
    rc = output_commit(&out, err);
out:
  worst_release(&worst);
  output_discard(&rows);
  output_discard(&out);
  return rc;
}

static int run_check(const struct arguments *a, struct err *err) {
  struct params *params = NULL;
  struct cluster cluster;
  struct rows *files = xcalloc((size_t)a->n_files, sizeof *files);
  struct check check = {0};
  struct check_options options = {.by = a->by, .warnings = &cli_warnings};
  int rc = -1;
  if (!a->params) {
    err_usage(err, "calibrate check: --params is missing (dcpsim calibrate check --help)");
    goto out;
  }
  if ((a->json || a->worst > 0) && a->csv && strcmp(a->csv, "-") == 0) {
    err_usage(err, "calibrate check: %s and --csv - both write to stdout", a->json ? "--json" : "--worst");
    goto out;
  }
  if (params_load(&params, a->params, err) || load_cluster(&cluster, a, params, err))
    goto out;
  for (int i = 0; i < a->n_files; i++)
    if (rows_read(&files[i], a->files[i], err))
      goto out;
  const struct row_predictor predictor = {params, &cluster};
  if (check_run(&check, &predictor, files, (size_t)a->n_files, &options, err))
    goto out;
  rc = write_check(a, &check, &predictor, files, err);
out:
  check_release(&check);
  for (int i = 0; i < a->n_files; i++)
    rows_release(&files[i]);
  free(files);
  params_free(params);
  return rc;
}

static void help_check(FILE *out) {
  fprintf(
      out,
      "usage: dcpsim calibrate check --params P ROWS.csv... [--by COLUMN] [--worst N] [--csv FILE] [--json]\n\n"
      "Predicts every measured row (- is stdin) with a parameter file and prints the error by operation:\n"
      "|predicted - measured| / measured, its median, 90th percentile, maximum and mean.\n\n"
      "  --params P      a shipped name (h200_sxm, h100_sxm) or a file (required)\n"
      "  --by COLUMN     split the groups by the values of a column (default: by operation only)\n"
      "  --worst N       also list the N rows of each operation that are furthest off (1 to 1048576)\n"
      "  --csv FILE      also write every row with predicted_time_s (s) and rel_error (predicted/measured - 1);\n"
      "                  - for stdout, instead of the table\n"
      "  --json          print dcpsim.check/1 instead of a table; errors as fractions\n"
      "  --cluster NAME  ports of the network that collectives ran on (default: 8 GPUs per node of the parameters'\n"
      "                  GPU, as in h200_8x1)\n\n"
      "Attention forward rows that name a library or device are compared with the training kernel, others with what\n"
      "the shipped tables measured (causal: the write of keys and values into a cache included). Collectives of\n"
      "several groups at once (column groups) are predicted as if each rank had ports of its own and all shared the\n"
      "core: their error says whether that holds on the network measured.\n");
}

/* ---- arguments ---- */

static const struct subcommand subcommands[] = {
    {"import nccl-tests", "copn", 1, 1000000, run_import_nccl_tests, help_import_nccl_tests},
    {"import csv", "cm", 1, 1, run_import_csv, help_import_csv},
    {"check", "cPCbwj", 1, 1000000, run_check, help_check},
};
enum { SUBCOMMANDS = sizeof subcommands / sizeof *subcommands };

/* `val` is the letter of the option in struct subcommand. */
static const struct option options[] = {
    {"help", no_argument, NULL, 'h'},         {"csv", required_argument, NULL, 'c'},
    {"op", required_argument, NULL, 'o'},     {"ranks", required_argument, NULL, 'p'},
    {"nodes", required_argument, NULL, 'n'},  {"map", required_argument, NULL, 'm'},
    {"params", required_argument, NULL, 'P'}, {"cluster", required_argument, NULL, 'C'},
    {"by", required_argument, NULL, 'b'},     {"worst", required_argument, NULL, 'w'},
    {"json", no_argument, NULL, 'j'},         {0},
};

static int parse_count(const char *option, const char *text, int *out, struct err *err) {
  int64_t v = row_integer(text);
  if (v < 1 || v > 1 << 20)
    return err_usage(err, "%s must be an integer from 1 to %d, got '%s'", option, 1 << 20, text);
  *out = (int)v;
  return 0;
}

static int set_option(struct arguments *a, int code, struct err *err) {
  char list[300];
  switch (code) {
  case 'h':
    a->help = true;
    return 0;
  case 'c':
    a->csv = optarg;
    return 0;
  case 'o':
    a->op = import_nccl_op(optarg);
    if (a->op)
      return 0;
    import_nccl_list_ops(list, sizeof list);
    return err_usage(err, "--op: no collective '%s'; valid: %s", optarg, list);
  case 'p':
    return parse_count("--ranks", optarg, &a->ranks, err);
  case 'n':
    return parse_count("--nodes", optarg, &a->nodes, err);
  case 'm':
    a->map = optarg;
    return 0;
  case 'P':
    a->params = optarg;
    return 0;
  case 'C':
    a->cluster = optarg;
    return 0;
  case 'b':
    a->by = optarg;
    return 0;
  case 'w':
    return parse_count("--worst", optarg, &a->worst, err);
  default:
    a->json = true;
    return 0;
  }
}

static const char *option_name(int code) {
  int i = 0;
  while (options[i].val != code)
    i++;
  return options[i].name;
}

static int parse_arguments(struct arguments *a, const struct subcommand *command, int argc, char **argv,
                           struct err *err) {
  int code;
  *a = (struct arguments){.csv = strchr(command->options, 'j') ? NULL : "-"};
  char name[40];
  snprintf(name, sizeof name, "calibrate %s", command->name);
  while ((code = cli_option(name, argc, argv, ":h", options, err)) != -1) {
    if (code == '?')
      return -1;
    if (code != 'h' && !strchr(command->options, code))
      return err_usage(err, "calibrate %s: no option --%s (dcpsim calibrate %s --help)", command->name,
                       option_name(code), command->name);
    if (set_option(a, code, err))
      return -1;
  }
  if (a->help)
    return 0;
  a->files = argv + optind;
  a->n_files = argc - optind;
  if (a->n_files < command->min_files || a->n_files > command->max_files)
    return err_usage(err, "calibrate %s: expected %s, got %d (dcpsim calibrate %s --help)", command->name,
                     command->max_files > 1 ? "at least one file" : "one file", a->n_files, command->name);
  return 0;
}

static void help_calibrate(FILE *out) {
  fprintf(out,
          "usage: dcpsim calibrate run -o DIR                        measure this machine\n"
          "       dcpsim calibrate import nccl-tests LOG...        logs of nccl-tests to measured rows\n"
          "       dcpsim calibrate import csv IN                  other tables of kernel times to measured rows\n"
          "       dcpsim calibrate fit ROWS.csv... --device NAME -o PARAMS.json\n"
          "                                                       a parameter file from measured rows\n"
          "       dcpsim calibrate check --params P ROWS.csv...   error of a parameter file on measured rows\n"
          "       dcpsim calibrate check --leave-out COLUMN --params P ROWS.csv...\n"
          "                                                       error of refits on the values they had not seen\n"
          "       dcpsim calibrate report --params P ROWS.csv... -o DIR\n"
          "                                                       plots of the errors\n"
          "       dcpsim calibrate check --training ROWS.csv...   predicted against published training runs\n"
          "       dcpsim calibrate fit-training ROWS.csv...       scalars of a training step, from published runs\n\n"
          "Each of them has --help.\n");
}

/* Words of the command line that name the subcommand: 1 or 2; 0 if they do not. */
static int matches(const struct subcommand *command, int argc, char **argv) {
  const char *space = strchr(command->name, ' ');
  size_t first = space ? (size_t)(space - command->name) : strlen(command->name);
  if (argc < 2 || strlen(argv[1]) != first || strncmp(argv[1], command->name, first) != 0)
    return 0;
  if (!space)
    return 1;
  return argc > 2 && strcmp(argv[2], space + 1) == 0 ? 2 : 0;
}

static bool is_help(const char *s) { return strcmp(s, "--help") == 0 || strcmp(s, "-h") == 0; }

static int unknown(int argc, char **argv, struct err *err) {
  const char *name = argc > 1 ? argv[1] : "", *kind = argc > 2 ? argv[2] : "";
  if (!*name)
    return err_usage(err,
                     "calibrate: a command is missing (run, import, fit, check or report; dcpsim calibrate --help)");
  if (strcmp(name, "import") != 0)
    return err_usage(err, "calibrate: no command '%s' (run, import, fit, check or report; dcpsim calibrate --help)",
                     name);
  if (!*kind)
    return err_usage(err, "calibrate import: what is it? (nccl-tests or csv; dcpsim calibrate --help)");
  return err_usage(err, "calibrate import: no format '%s' (nccl-tests or csv; dcpsim calibrate --help)", kind);
}

static int run(int argc, char **argv, struct err *err) {
  struct arguments a;
  for (int i = 0; i < SUBCOMMANDS; i++) {
    int words = matches(&subcommands[i], argc, argv);
    if (!words)
      continue;
    if (parse_arguments(&a, &subcommands[i], argc - words, argv + words, err))
      return -1;
    if (!a.help)
      return subcommands[i].run(&a, err);
    subcommands[i].help(stdout);
    return 0;
  }
  bool asks_import = argc > 2 && strcmp(argv[1], "import") == 0;
  if (argc > 1 && is_help(argv[asks_import ? 2 : 1])) {
    help_calibrate(stdout);
    return 0;
  }
  return unknown(argc, argv, err);
}

/* Published training runs instead of kernels: a command of its own, and an option of check. */
static bool asks_training(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "check") != 0)
    return argc > 1 && strcmp(argv[1], "fit-training") == 0;
  for (int i = 2; i < argc; i++)
    if (strcmp(argv[i], "--training") == 0)
      return true;
  return false;
}

/* Fits: commands of their own, and an option of check. */
static bool asks_fit(int argc, char **argv) {
  if (argc < 2 || strcmp(argv[1], "check") != 0)
    return argc > 1 && (strcmp(argv[1], "fit") == 0 || strcmp(argv[1], "report") == 0);
  for (int i = 2; i < argc; i++)
    if (strncmp(argv[i], "--leave-out", 11) == 0)
      return true;
  return false;
}

/* argv[0] is "calibrate". */
int cmd_calibrate(int argc, char **argv) {
  struct err err = {.set = false};
  if (argc > 1 && strcmp(argv[1], "run") == 0)
    return cmd_calibrate_run(argc - 1, argv + 1);
  if (asks_fit(argc, argv))
    return cmd_calibrate_fit(argc - 1, argv + 1);
  if (asks_training(argc, argv))
    return cmd_calibrate_training(argc - 1, argv + 1);
  return run(argc, argv, &err) == 0 ? 0 : cli_fail(&err);
}
