/* gnuplot.h: a gnuplot script built in memory and run by gnuplot as a process.
 *
 * The script goes to gnuplot's standard input and the picture comes from its standard output, so no file name ever
 * stands in gnuplot code; text of the user's (names of traces, policies) stands there only through gnuplot_text(). */
#ifndef SIM_REPORT_GNUPLOT_H
#define SIM_REPORT_GNUPLOT_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

/* Okabe-Ito: told apart by colour-blind readers, and in print. */
#define COLOUR_BLUE 0x0072B2
#define COLOUR_SKY 0x56B4E9
#define COLOUR_GREEN 0x009E73
#define COLOUR_ORANGE 0xE69F00
#define COLOUR_VERMILLION 0xD55E00
#define COLOUR_PURPLE 0xCC79A7
#define COLOUR_YELLOW 0xF0E442
#define COLOUR_GREY 0xD0D0D0
#define COLOUR_TEXT 0x222222
#define COLOUR_ON_LIGHT 0x202020 /* inside light bars: told from COLOUR_TEXT where a page recolours a picture */
#define COLOUR_FAINT 0x666666

struct gnuplot {
  FILE *script; /* write gnuplot commands here */
  char *text;
  size_t size;
  int title_points;
};

/* Starts a script for a terminal ("svg", "png", "pdf") with the style that all plots share. */
void gnuplot_begin(struct gnuplot *g, const char *terminal);
void gnuplot_release(struct gnuplot *g);

/* Writes `text` as one gnuplot string, quotes included, in which nothing is special: control characters and broken
 * UTF-8 become '?', ' becomes a typographic quote, more than `max_chars` characters (0: no limit) end in an ellipsis.
 * For labels only: a tic's label is a format. */
void gnuplot_text(FILE *out, const char *text, int max_chars);

/* The title line, and under it, fainter, what the data are. */
void gnuplot_title(struct gnuplot *g, const char *title, const char *subtitle);

/* A label in plot coordinates. `align`: "left", "center" or "right". */
void gnuplot_label(struct gnuplot *g, double x, double y, const char *align, unsigned colour, const char *text);

/* A row of coloured squares with their meaning. `y` is the middle, in fractions of the picture; it starts at `x`, or is
 * centred on it. */
struct legend_entry {
  unsigned colour;
  const char *text;
};
void gnuplot_legend(struct gnuplot *g, const struct legend_entry *entries, int n, double x, double y, bool centred);

/* Whether black reads better on this colour than white. */
bool colour_is_light(unsigned colour);

/* Runs the script; the picture is appended to `out`. */
int gnuplot_run(struct gnuplot *g, FILE *out, struct err *err);

#endif
