/* dcpsim list KIND */
#include <stdio.h>
#include <string.h>

#include "models/hardware.h"
#include "models/params.h"
#include "models/transformer.h"
#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/cli/cli.h"
#include "sim/policy/policy.h"
#include "sim/report/plot.h"
#include "traces/trace.h"

static void list_policies(FILE *out) {
  for (int i = 0; policies[i]; i++)
    fprintf(out, "%-26s %s\n", policies[i]->name, policies[i]->help);
}

static const struct {
  const char *name;
  void (*list)(FILE *out);
} kinds[] = {{"policies", list_policies}, {"models", transformer_list}, {"clusters", cluster_list},
             {"traces", trace_list},      {"params", params_list},      {"formats", trace_formats_list},
             {"plots", plot_list}};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static void help(FILE *out) {
  fprintf(out, "usage: dcpsim list policies|models|clusters|traces|params|formats|plots\n\n"
               "What there is of a kind, one line each with its source.\n");
}

static int run(int argc, char **argv, struct err *err) {
  const char *names[N_KINDS + 1] = {NULL}, *kind = argc > 1 ? argv[1] : "";
  struct output out;
  if (strcmp(kind, "--help") == 0 || strcmp(kind, "-h") == 0) {
    help(stdout);
    return 0;
  }
  if (argc != 2)
    return err_usage(err, "list: expected one of policies, models, clusters, traces, params, formats, plots");
  for (int i = 0; i < N_KINDS; i++) {
    names[i] = kinds[i].name;
    if (strcmp(kinds[i].name, kind) != 0)
      continue;
    if (output_open(&out, "-", err) < 0)
      return -1;
    kinds[i].list(out.file);
    return output_commit(&out, err);
  }
  const char *nearest = nearest_word(kind, names);
  return err_usage(err, "list: unknown kind '%.60s'%s%s%s", kind,
                   nearest ? ", did you mean '"
                           : " (valid: policies, models, clusters, traces, params, formats, plots)",
                   nearest ? nearest : "", nearest ? "'?" : "");
}

int cmd_list(int argc, char **argv) {
  struct err err = {.set = false};
  return run(argc, argv, &err) < 0 ? cli_fail(&err) : 0;
}
