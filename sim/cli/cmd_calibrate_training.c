/* dcpsim calibrate check --training */
#include "sim/cli/cmd_calibrate_training.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "calib/check_training.h"
#include "sim/base/output.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"

struct arguments {
  const char *params, *csv, *ops;
  bool json, help;
  char **files;
  int n_files;
};

static void help_check(FILE *out) {
  fprintf(out,
          "usage: dcpsim calibrate check --training ROWS.csv... [--params FILE] [--csv FILE] [--json] [--ops ID]\n\n"
          "Predicts published training runs (columns of calib/data/training_throughput.csv; - is stdin): step time\n"
          "and peak memory, error by source, ranking of configurations within a source, and the rows that cannot\n"
          "be predicted with the reason. Throughput and memory are compared as stated; FLOP/s only by their\n"
          "stated convention.\n\n"
          "  --params FILE   used instead of the shipped file of its GPU (default: h100_sxm and h200_sxm)\n"
          "  --csv FILE      also write every row with the parts of its predicted step; - for stdout, instead of\n"
          "                  the table\n"
          "  --json          print dcpsim.check_training/1 instead of the table; errors as fractions\n"
          "  --ops ID        print the predicted step of one row by operation (s), alone and without overlap\n");
}

static int parse(struct arguments *a, int argc, char **argv, struct err *err) {
  static const struct option options[] = {{"training", no_argument, NULL, 't'},
                                          {"params", required_argument, NULL, 'P'},
                                          {"csv", required_argument, NULL, 'c'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"ops", required_argument, NULL, 'o'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  int code;
  opterr = 0;
  optind = 0; /* GNU: scan anew */
  while ((code = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
    switch (code) {
    case 't':
      break;
    case 'P':
      a->params = optarg;
      break;
    case 'c':
      a->csv = optarg;
      break;
    case 'o':
      a->ops = optarg;
      break;
    case 'j':
      a->json = true;
      break;
    case 'h':
      a->help = true;
      break;
    default:
      return err_usage(err, "calibrate check --training: %s '%s' (dcpsim calibrate check --training --help)",
                       code == ':' ? "a value is missing after" : "no such option", argv[optind - 1]);
    }
  }
  a->files = argv + optind;
  a->n_files = argc - optind;
  if (!a->help && a->n_files < 1)
    return err_usage(err, "calibrate check --training: no file of rows (dcpsim calibrate check --training --help)");
  if (a->json && a->csv && strcmp(a->csv, "-") == 0)
    return err_usage(err, "calibrate check --training: --json and --csv - both write to stdout");
  return 0;
}

static int write_ops(FILE *out, const struct training_check *check, const struct training_params *params,
                     const char *id, struct err *err) {
  for (size_t i = 0; i < check->n_rows; i++) {
    const struct training_case *c = &check->rows[i].c;
    size_t n;
    if (strcmp(c->id, id) != 0)
      continue;
    if (c->why_no_time)
      return err_set(err, "row '%s' is not predicted: %s", id, c->why_no_time);
    struct training_op *ops = training_ops(c, training_params_of(params, c), &n);
    double sum = 0;
    for (size_t k = 0; k < n; k++)
      sum += ops[k].seconds;
    fprintf(out, "row %s, %s: measured %.6g s, predicted %.6g s; operations alone, without overlap %.6g s\n", id,
            c->model.name, c->measured_step_s, check->rows[i].p.step_s, sum);
    for (size_t k = 0; k < n; k++)
      fprintf(out, "%-24s %12.6f s %6.2f %%\n", ops[k].name, ops[k].seconds, 100 * ops[k].seconds / sum);
    free(ops);
    return 0;
  }
  return err_usage(err, "--ops: no row has the id '%s'", id);
}

static int write_all(const struct arguments *a, const struct training_check *check,
                     const struct training_params *params, struct err *err) {
  struct output rows = {0}, out = {0};
  int rc = -1;
  if (a->csv && output_open(&rows, a->csv, err))
    return -1;
  if (a->csv)
    training_check_write_csv(rows.file, check);
  if (output_open(&out, "-", err))
    goto out;
  if (a->ops) {
    if (write_ops(out.file, check, params, a->ops, err))
      goto out;
  } else if (a->json) {
    training_check_write_json(out.file, check);
  } else if (!a->csv || strcmp(a->csv, "-") != 0) {
    training_check_write_table(out.file, check);
  }
  rc = a->csv ? output_commit(&rows, err) : 0;
  if (rc == 0)
    rc = output_commit(&out, err);
out:
  output_discard(&rows);
  output_discard(&out);
  return rc;
}

static int run_check(const struct arguments *a, struct err *err) {
  struct table *tables = xcalloc((size_t)a->n_files, sizeof *tables);
  struct training_params params = {0};
  struct training_check check = {0};
  int rc = -1;
  if (training_params_load(&params, a->params, err))
    goto out;
  for (int i = 0; i < a->n_files; i++)
    if (table_read(&tables[i], "rows", a->files[i], err))
      goto out;
  if (training_check_run(&check, tables, (size_t)a->n_files, &params, err))
    goto out;
  rc = write_all(a, &check, &params, err);
out:
  training_check_release(&check);
  training_params_release(&params);
  for (int i = 0; i < a->n_files; i++)
    table_release(&tables[i]);
  free(tables);
  return rc;
}

int cmd_calibrate_training(int argc, char **argv) {
  struct err err = {.set = false};
  struct arguments a = {0};
  if (parse(&a, argc, argv, &err))
    return cli_fail(&err);
  if (a.help) {
    help_check(stdout);
    return 0;
  }
  return run_check(&a, &err) ? cli_fail(&err) : 0;
}
