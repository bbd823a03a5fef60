/* dcpsim report RESULT... -o FILE.html */
#include <stdio.h>

#include "sim/cli/cli.h"
#include "sim/report/page.h"

static void help(FILE *out) {
  fprintf(
      out,
      "usage: dcpsim report RESULT... -o FILE.html\n\n"
      "Puts a study into one HTML file to send around: what is fastest and why, tables that sort, plots, all inputs,\n"
      "ranges of the speedups, what is known about the errors of the parameters, the commands that make it again.\n"
      "The file loads nothing and needs no network. Plots need gnuplot.\n\n"
      "  RESULT             a file of dcpsim simulate --result (or --json), or the table of dcpsim sweep; several are\n"
      "                     compared, up to %d\n"
      "  -o, --output FILE  page to write, or - (required)\n\n"
      "Example: dcpsim simulate --trace prolong --model llama2-7b --cluster h200_8x4 --result a.json\n"
      "         dcpsim report a.json -o a.html\n"
      "Exit code: 0 ok, 1 failure, 2 usage.\n",
      PAGE_MAX_INPUTS);
}

static int run(int argc, char **argv, struct err *err) {
  static const struct option options[] = {
      {"help", no_argument, NULL, 'h'}, {"output", required_argument, NULL, 'o'}, {0}};
  const char *out_path = NULL;
  int code;
  while ((code = cli_option("report", argc, argv, ":ho:", options, err)) != -1) {
    if (code == 'h') {
      help(stdout);
      return 0;
    }
    if (code == '?')
      return -1;
    out_path = optarg;
  }
  if (optind == argc)
    return err_usage(err, "report: expected at least one RESULT (dcpsim report --help)");
  if (argc - optind > PAGE_MAX_INPUTS)
    return err_usage(err, "report: up to %d RESULTs, got %d", PAGE_MAX_INPUTS, argc - optind);
  if (!out_path)
    return err_usage(err, "report: -o FILE is missing (dcpsim report --help)");
  return page_write((const char *const *)argv + optind, argc - optind, out_path, err);
}

int cmd_report(int argc, char **argv) {
  struct err err = {.set = false};
  return run(argc, argv, &err) < 0 ? cli_fail(&err) : 0;
}
