/* dcpsim calibrate check --training | fit-training */
#include "sim/cli/cmd_calibrate_training.h"

#include <stdlib.h>
#include <string.h>

#include "calib/check_training.h"
#include "calib/fit_training.h"
#include "calib/text_file.h"
#include "sim/base/output.h"
#include "sim/base/sha256.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"

#define MAX_WRITES 8

struct arguments {
  bool is_fit; /* fit-training, else check --training */
  const char *command;
  const char *params, *csv, *ops, *writes[MAX_WRITES];
  int n_writes;
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

static void help_fit(FILE *out) {
  fprintf(out,
          "usage: dcpsim calibrate fit-training ROWS.csv... [--params FILE] [--write FILE]... [--json]\n\n"
          "Fits the in-step scalars of the framework classes, compute_derate and host_op_s (s), on the H100 rows of\n"
          "published training runs, and prints the error of every source under the fit and when it is left out.\n\n"
          "  --params FILE   of the H100, with everything else already fitted (default: h100_sxm)\n"
          "  --write FILE    puts the scalars into this parameter file; may be given up to %d times\n"
          "  --json          print dcpsim.fit_training/1 instead of the table\n",
          MAX_WRITES);
}

static int set_option(struct arguments *a, int code, struct err *err) {
  switch (code) {
  case 't':
    return 0;
  case 'P':
    a->params = optarg;
    return 0;
  case 'c':
    a->csv = optarg;
    return 0;
  case 'o':
    a->ops = optarg;
    return 0;
  case 'w':
    if (a->n_writes == MAX_WRITES)
      return err_usage(err, "calibrate %s: --write may be given %d times", a->command, MAX_WRITES);
    a->writes[a->n_writes++] = optarg;
    return 0;
  case 'j':
    a->json = true;
    return 0;
  case 'h':
    a->help = true;
    return 0;
  default: /* '?' */
    return -1;
  }
}

static int parse(struct arguments *a, int argc, char **argv, struct err *err) {
  static const struct option check_options[] = {{"training", no_argument, NULL, 't'},
                                                {"params", required_argument, NULL, 'P'},
                                                {"csv", required_argument, NULL, 'c'},
                                                {"json", no_argument, NULL, 'j'},
                                                {"ops", required_argument, NULL, 'o'},
                                                {"help", no_argument, NULL, 'h'},
                                                {0}};
  static const struct option fit_options[] = {{"params", required_argument, NULL, 'P'},
                                              {"write", required_argument, NULL, 'w'},
                                              {"json", no_argument, NULL, 'j'},
                                              {"help", no_argument, NULL, 'h'},
                                              {0}};
  int code;
  a->is_fit = strcmp(argv[0], "fit-training") == 0;
  a->command = a->is_fit ? "fit-training" : "check --training";
  char name[40];
  snprintf(name, sizeof name, "calibrate %s", a->command);
  while ((code = cli_option(name, argc, argv, ":h", a->is_fit ? fit_options : check_options, err)) != -1)
    if (set_option(a, code, err))
      return -1;
  a->files = argv + optind;
  a->n_files = argc - optind;
  if (!a->help && a->n_files < 1)
    return err_usage(err, "calibrate %s: no file of rows (dcpsim calibrate %s --help)", a->command, a->command);
  for (int i = 0; a->is_fit && i < a->n_files; i++)
    if (strcmp(a->files[i], "-") == 0) /* rows are read, and hashed */
      return err_usage(err, "calibrate %s: rows must be files", a->command);
  if (a->json && a->csv && strcmp(a->csv, "-") == 0)
    return err_usage(err, "calibrate %s: --json and --csv - both write to stdout", a->command);
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

/* SHA-256 of the files of rows, one after the other. */
static int hash_rows(const struct arguments *a, char hex[65], struct err *err) {
  char *all = NULL, *text;
  size_t size = 0, n;
  for (int i = 0; i < a->n_files; i++) {
    if (text_file_read("rows", a->files[i], &text, &n, err)) {
      free(all);
      return -1;
    }
    all = xrealloc(all, size + n + 1);
    memcpy(all + size, text, n);
    size += n;
    free(text);
  }
  sha256_hex(all, size, hex);
  free(all);
  return 0;
}

static int fit(const struct arguments *a, const struct training_check *check, const struct params *h100,
               struct err *err) {
  enum { CLASSES = 2 };
  struct training_fit *fits = xcalloc(CLASSES, sizeof *fits);
  struct output out = {0};
  char hex[65];
  int rc = -1;
  training_fit_run(&fits[0], "fused", check, h100);
  training_fit_run(&fits[1], "eager", check, h100);
  if (hash_rows(a, hex, err))
    goto out;
  for (int i = 0; i < a->n_writes; i++)
    if (training_fit_update_file(a->writes[i], fits, CLASSES, hex, err))
      goto out;
  if (output_open(&out, "-", err))
    goto out;
  if (a->json)
    training_fit_write_json(out.file, fits, CLASSES);
  else
    training_fit_write_table(out.file, fits, CLASSES);
  rc = output_commit(&out, err);
out:
  output_discard(&out);
  free(fits);
  return rc;
}

static int run(const struct arguments *a, struct err *err) {
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
  rc = a->is_fit ? fit(a, &check, params.h100, err) : write_all(a, &check, &params, err);
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
    if (a.is_fit)
      help_fit(stdout);
    else
      help_check(stdout);
    return 0;
  }
  return run(&a, &err) ? cli_fail(&err) : 0;
}
