#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/libraries.h"
#include "sim/base/output.h"
#include "sim/cli/build_info.h"
#include "sim/cli/cli.h"

struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *help;
};

static const struct command commands[] = {
    {"simulate", cmd_simulate, "policies on a trace, model and cluster: the comparison table"},
    {"plan", cmd_plan, "a policy's plan without simulating, from the models or from measured bucket times"},
    {"check", cmd_check, "validate a schedule"},
    {"execute", cmd_execute, "play a schedule on real devices and compare with its prediction"},
    {"sweep", cmd_sweep, "many experiments: any fields over lists and ranges, on threads and machines"},
    {"trace", cmd_trace, "describe, convert and generate length traces"},
    {"plot", cmd_plot, "draw results, timelines and traces"},
    {"report", cmd_report, "results as one HTML page to send around: tables, plots, inputs, how far to trust them"},
    {"calibrate", cmd_calibrate, "measure a machine, import rows, fit parameter files and check how far they are off"},
    {"list", cmd_list, "policies, models, clusters, traces, params, formats and plots that there are"},
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void help(FILE *out) {
  fprintf(out, "usage: dcpsim COMMAND [options]\n\n"
               "Simulates how GPU clusters train transformers on sequences of very different lengths, under several\n"
               "scheduling policies.\n\n");
  for (int i = 0; i < N_COMMANDS; i++)
    fprintf(out, "  %-11s%s\n", commands[i].name, commands[i].help);
  fprintf(out, "\n  --version   the version, the commit and options of this build\n"
               "  --help      this text; dcpsim COMMAND --help: all options with units and defaults\n\n"
               "Example: dcpsim simulate --trace prolong --model llama2-7b --cluster h200_8x4\n"
               "Exit code: 0 ok, 1 failure, 2 usage.\n");
}

static int unknown_command(const char *name) {
  const char *names[N_COMMANDS + 1] = {NULL};
  char valid[200] = "";
  struct err err = {.set = false};
  for (int i = 0; i < N_COMMANDS; i++) {
    size_t at = strlen(valid);
    names[i] = commands[i].name;
    snprintf(valid + at, sizeof valid - at, "%s%s", i ? ", " : "", names[i]);
  }
  const char *nearest = nearest_word(name, names);
  if (nearest)
    err_usage(&err, "unknown command '%.60s', did you mean '%s'?", name, nearest);
  else
    err_usage(&err, "unknown command '%.60s' (valid: %s; dcpsim --help)", name, valid);
  return cli_fail(&err);
}

int main(int argc, char **argv) {
  libraries_begin();
  signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error like any other: exit code 1, no file left */
  signal(SIGXFSZ, SIG_IGN); /* so is the largest size that a file may have (ulimit -f) */
  output_remove_on_signal();
  const char *name = argc > 1 ? argv[1] : "";
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
    help(stdout);
    return 0;
  }
  if (strcmp(name, "--version") == 0) {
    printf("dcpsim %s\n%s", DCPSIM_VERSION, build_info);
    return 0;
  }
  for (int i = 0; i < N_COMMANDS; i++)
    if (strcmp(commands[i].name, name) == 0)
      return commands[i].run(argc - 1, argv + 1);
  if (*name)
    return unknown_command(name);
  help(stderr);
  return 2;
}
