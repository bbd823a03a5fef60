/* plot.h: the plots, one file and one table row each: `dcpsim plot KIND INPUT -o FILE.svg|png|pdf`. */
#ifndef SIM_REPORT_PLOT_H
#define SIM_REPORT_PLOT_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"
#include "sim/base/sample.h"
#include "sim/report/gnuplot.h"

/* What a plot is drawn from: a file that it reads itself, or a length trace that the caller has loaded. */
struct plot_input {
  const char *path;
  const char *second; /* of a plot that compares two files; else NULL */
  const char *trace_name;
  const struct sample *samples;
  int64_t n;
  bool is_2d;
};

struct plot {
  const char *name, *help;
  const char *input; /* what INPUT is, for help */
  bool of_trace;     /* INPUT is a length trace: the caller loads it */
  bool of_two;       /* INPUT may be followed by a second file */
  int (*draw)(const struct plot_input *in, struct gnuplot *g, struct err *err);
};

extern const struct plot *const plots[]; /* NULL-terminated: the whole registry, in plot.c */
/* NULL and a usage error that lists the valid names. */
const struct plot *plot_find(const char *name, struct err *err);
void plot_list(FILE *out);

/* The terminal for a file name ("svg", "png", "pdf"), by its suffix. NULL and a usage error otherwise. */
const char *plot_terminal(const char *out_path, struct err *err);

/* Draws into out_path, which is complete afterwards or untouched. */
int plot_draw(const struct plot *plot, const struct plot_input *in, const char *out_path, struct err *err);

#endif
