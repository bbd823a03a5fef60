/* dcpsim sweep SPEC -o FILE */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/launcher.h"
#include "sim/cli/cli.h"
#include "sim/experiment/options.h"
#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_spec.h"

static void help(FILE *out) {
  fprintf(
      out,
      "usage: dcpsim sweep SPEC.json -o FILE.csv [-j N]\n"
      "       mpirun -np RANKS dcpsim sweep SPEC.json -o FILE.csv [-j N]\n\n"
      "Runs an experiment for every combination of values of its fields and appends a row per point and policy to\n"
      "FILE.csv: the swept fields, then the columns of simulate --csv. A sweep that was stopped goes on when the same\n"
      "command is given again; what is in FILE.csv is not run twice. A point that fails is a row with its error.\n\n"
      "  -o, --output FILE  table to append to, or - (required)\n"
      "  -j, --threads N    threads of each process, up to %d; never changes a row (default: its processors)\n\n"
      "SPEC.json, any experiment field in each part, lists or ranges in grid (all combinations) and zip (together):\n"
      "  {\"schema\": \"dcpsim.sweep/1\",\n"
      "   \"base\": {\"trace\": \"wikipedia\", \"model\": \"llama2-7b\", \"steps\": 100},\n"
      "   \"grid\": {\"cluster\": [\"h200_8x4\", \"h200_8x8\"],\n"
      "            \"seed\": {\"from\": 0, \"to\": 4, \"step\": 1},\n"
      "            \"max_length\": {\"from\": 8192, \"to\": 131072, \"factor\": 2}},\n"
      "   \"zip\": {\"zero\": [1, 3], \"shard\": [\"world\", \"node\"]}}\n\n"
      "Limits: %d points, %d swept fields. Exit code: 0 ok, 1 failure (also when every point failed), 2 usage.\n",
      MAX_THREADS, SWEEP_MAX_POINTS, SWEEP_MAX_FIELDS);
}

static int parse_threads(const char *text, int *out, struct err *err) {
  char *end;
  long v = strtol(text, &end, 10);
  if (end == text || *end || *text == ' ' || v < 1 || v > MAX_THREADS)
    return err_usage(err, "sweep: -j must be an integer from 1 to %d, got '%.60s'", MAX_THREADS, text);
  *out = (int)v;
  return 0;
}

static int parse(int argc, char **argv, struct sweep_request *r, bool *want_help, struct err *err) {
  static const struct option options[] = {{"help", no_argument, NULL, 'h'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"threads", required_argument, NULL, 'j'},
                                          {0}};
  int code;
  while (!*want_help && (code = cli_option("sweep", argc, argv, ":ho:j:", options, err)) != -1) {
    if (code == 'h')
      *want_help = true;
    else if (code == 'o')
      r->out_path = optarg;
    else if (code == '?' || parse_threads(optarg, &r->threads, err) < 0)
      return -1;
  }
  if (*want_help)
    return 0;
  if (argc - optind != 1)
    return err_usage(err, "sweep: expected one SPEC.json, got %d arguments (dcpsim sweep --help)", argc - optind);
  if (!r->out_path)
    return err_usage(err, "sweep: -o FILE is missing (dcpsim sweep --help)");
  r->spec_path = argv[optind];
  return 0;
}

/* ---- Ending early: every row is in the file already, so that this only says so ---- */

static char stopped[400];

static void on_signal(int number) {
  (void)!write(STDERR_FILENO, stopped, strlen(stopped));
  raise(number); /* the handler was reset on entry: the process ends by the signal when it returns */
}

static void speak_when_stopped(const char *path) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  const struct sigaction act = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  if (strcmp(path, "-") == 0 || launcher_started()) /* of ranks each would */
    return;
  snprintf(stopped, sizeof stopped,
           "%sdcpsim: sweep: stopped; the points so far are in '%.200s', and the same command goes on\n",
           isatty(STDERR_FILENO) ? "\n" : "", path);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaction(numbers[i], &act, NULL);
}

static int report(const struct sweep_request *r, const struct sweep_summary *s, struct err *err) {
  fprintf(stderr, "%lld points in '%s'", (long long)s->points, r->out_path);
  if (s->done_before > 0)
    fprintf(stderr, ", %lld of them were there already", (long long)s->done_before);
  if (s->failed > 0)
    fprintf(stderr, ", %lld failed (column error)", (long long)s->failed);
  fprintf(stderr, "\n");
  return s->failed < s->points ? 0
                               : err_set(err, "sweep: every point failed: see the column error of '%s'", r->out_path);
}

int cmd_sweep(int argc, char **argv) {
  struct sweep_request request = {0};
  struct sweep_summary summary;
  struct err err = {.set = false};
  bool want_help = false;
  if (parse(argc, argv, &request, &want_help, &err) < 0)
    return cli_fail(&err);
  if (want_help) {
    help(stdout);
    return 0;
  }
  speak_when_stopped(request.out_path);
  int rc = sweep_run(&request, &summary, &err);
  if (rc == 0 && summary.writer)
    rc = report(&request, &summary, &err);
  if (rc == 0)
    return 0;
  return err.set ? cli_fail(&err) : 1;
}
