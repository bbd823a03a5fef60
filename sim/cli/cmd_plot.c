/* dcpsim plot KIND INPUT -o FILE */
#include <getopt.h>
#include <string.h>

#include "sim/report/plot.h"
#include "traces/trace.h"

int cmd_plot(int argc, char **argv);

static void help(FILE *out) {
  fprintf(out, "usage: dcpsim plot KIND INPUT [INPUT] -o FILE.svg|png|pdf\n\n"
               "Draws a picture of 900 x 500 with gnuplot; the suffix of FILE says which kind of picture.\n\n"
               "  -o, --output FILE  picture to write (required)\n\nKINDs:\n");
  plot_list(out);
}

static int draw(const struct plot *plot, const char *input, const char *second, const char *out_path, struct err *err) {
  struct plot_input in = {.path = input, .second = second};
  if (!plot->of_trace)
    return plot_draw(plot, &in, out_path, err);
  struct trace trace;
  struct trace_options options = {.draws = 100000};
  if (!plot_terminal(out_path, err) || trace_load(&trace, input, &options, err) < 0)
    return -1;
  in = (struct plot_input){
      .path = input, .trace_name = trace.name, .samples = trace.samples, .n = trace.n, .is_2d = trace.is_2d};
  int status = plot_draw(plot, &in, out_path, err);
  trace_release(&trace);
  return status;
}

static int run(int argc, char **argv, struct err *err) {
  static const struct option options[] = {
      {"help", no_argument, NULL, 'h'}, {"output", required_argument, NULL, 'o'}, {0}};
  const char *out_path = NULL;
  int code;
  opterr = 0;
  optind = 0; /* GNU: scan anew */
  while ((code = getopt_long(argc, argv, ":ho:", options, NULL)) != -1) {
    if (code == 'h') {
      help(stdout);
      return 0;
    }
    if (code != 'o')
      return err_usage(err, "plot: %s '%s' (dcpsim plot --help)",
                       code == ':' ? "a value is missing after" : "no such option", argv[optind - 1]);
    out_path = optarg;
  }
  const struct plot *plot = argc > optind ? plot_find(argv[optind], err) : NULL;
  if (argc > optind && !plot)
    return -1;
  if (argc - optind != 2 && !(argc - optind == 3 && plot->of_two))
    return err_usage(err, "plot: expected KIND and INPUT, got %d arguments (dcpsim plot --help)", argc - optind);
  if (!out_path)
    return err_usage(err, "plot: -o FILE is missing (dcpsim plot --help)");
  return draw(plot, argv[optind + 1], argc - optind == 3 ? argv[optind + 2] : NULL, out_path, err);
}

/* argv[0] is "plot". */
int cmd_plot(int argc, char **argv) {
  struct err err = {.set = false};
  if (run(argc, argv, &err) == 0)
    return 0;
  fprintf(stderr, "dcpsim: %s\n", err.msg);
  return err.usage ? 2 : 1;
}
