/* dcpsim plot KIND INPUT... -o FILE */
#include <string.h>

#include "sim/cli/cli.h"
#include "sim/report/plot.h"
#include "traces/trace.h"

static void help(FILE *out) {
  fprintf(out, "usage: dcpsim plot KIND INPUT... -o FILE.svg|png|pdf\n\n"
               "Draws a picture of 900 x 500 with gnuplot; the suffix of FILE says which kind of picture.\n\n"
               "  -o, --output FILE    picture to write (required)\n"
               "  --published CSV      measured values to mark beside ours: columns case (a policy) and value (its\n"
               "                       speedup), others are ignored\n\nKINDs:\n");
  plot_list(out);
}

static int draw(const struct plot *plot, struct plot_input in, const char *out_path, struct err *err) {
  if (!(plot->takes & PLOT_TRACE))
    return plot_draw(plot, &in, out_path, err);
  struct trace trace;
  struct trace_options options = {.draws = 100000};
  if (!plot_terminal(out_path, err) || trace_load(&trace, in.path, &options, err) < 0)
    return -1;
  in = (struct plot_input){
      .path = in.path, .trace_name = trace.name, .samples = trace.samples, .n = trace.n, .is_2d = trace.is_2d};
  int status = plot_draw(plot, &in, out_path, err);
  trace_release(&trace);
  return status;
}

static int run(int argc, char **argv, struct err *err) {
  static const struct option options[] = {{"help", no_argument, NULL, 'h'},
                                          {"output", required_argument, NULL, 'o'},
                                          {"published", required_argument, NULL, 'p'},
                                          {0}};
  const char *out_path = NULL, *published = NULL;
  int code;
  while ((code = cli_option("plot", argc, argv, ":ho:", options, err)) != -1) {
    if (code == 'h') {
      help(stdout);
      return 0;
    }
    if (code == '?')
      return -1;
    *(code == 'o' ? &out_path : &published) = optarg;
  }
  const struct plot *plot = argc > optind ? plot_find(argv[optind], err) : NULL;
  if (argc > optind && !plot)
    return -1;
  int inputs = argc - optind - 1;
  if (inputs < 1 || (inputs > 1 && !(plot->takes & PLOT_SEVERAL) && !(plot->takes & PLOT_TWO && inputs == 2)))
    return err_usage(err, "plot: expected KIND and INPUT, got %d arguments (dcpsim plot --help)", argc - optind);
  if (published && !(plot->takes & PLOT_PUBLISHED))
    return err_usage(err, "plot: --published is for speedup, not for %s", plot->name);
  if (!out_path)
    return err_usage(err, "plot: -o FILE is missing (dcpsim plot --help)");
  struct plot_input in = {.path = argv[optind + 1],
                          .paths = (const char *const *)argv + optind + 1,
                          .n_paths = inputs,
                          .published = published};
  return draw(plot, in, out_path, err);
}

/* argv[0] is "plot". */
int cmd_plot(int argc, char **argv) {
  struct err err = {.set = false};
  return run(argc, argv, &err) == 0 ? 0 : cli_fail(&err);
}
