/* plot.h: the plots, one file and one table row each: `dcpsim plot KIND INPUT... -o FILE.svg|png|pdf`. */
#ifndef SIM_REPORT_PLOT_H
#define SIM_REPORT_PLOT_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"
#include "sim/base/sample.h"
#include "sim/report/gnuplot.h"

/* What a plot is drawn from: files that it reads itself, or a length trace that the caller has loaded. */
struct plot_input {
  const char *path;         /* the file, or the first of several */
  const char *const *paths; /* all of them, for plots that take several */
  int n_paths;
  const char *published; /* PLOT_PUBLISHED: measured values to mark, CSV (published.h); NULL: none */
  const char *trace_name;
  const struct sample *samples;
  int64_t n;
  bool is_2d;
};

enum plot_takes {
  PLOT_TRACE = 1,     /* INPUT is a length trace: the caller loads it */
  PLOT_SEVERAL = 2,   /* more than one INPUT */
  PLOT_PUBLISHED = 4, /* --published */
  PLOT_TWO = 8,       /* one INPUT or two */
};

struct plot {
  const char *name, *help;
  const char *input; /* what INPUT is, for help */
  unsigned takes;    /* enum plot_takes */
  int (*draw)(const struct plot_input *in, struct gnuplot *g, struct err *err);
};

extern const struct plot *const plots[]; /* NULL-terminated: the whole registry, in plot.c */
/* NULL and a usage error that lists the valid names. */
const struct plot *plot_find(const char *name, struct err *err);
void plot_list(FILE *out);

/* The terminal for a file name ("svg", "png", "pdf"), by its suffix. NULL and a usage error otherwise. */
const char *plot_terminal(const char *out_path, struct err *err);

/* Draws for a terminal; the picture is appended to `out`. */
int plot_write(const struct plot *plot, const struct plot_input *in, const char *terminal, FILE *out, struct err *err);
/* Draws into out_path, which is complete afterwards or untouched. */
int plot_draw(const struct plot *plot, const struct plot_input *in, const char *out_path, struct err *err);

#endif
