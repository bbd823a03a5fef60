/* What every policy loses to waiting for the slowest rank and to padding. */
#include <math.h>

#include "sim/report/plot_kinds.h"
#include "sim/report/result_view.h"

/* A bar's width, of the distance between policies: few policies do not make fat bars. */
static double bar_width(const struct result_view *v) { return 0.34 * fmin(1, v->n / 4.0); }

static double bar_left(const struct result_view *v, int i, bool padding) {
  return padding ? i + 0.02 : i - 0.02 - bar_width(v);
}

static void write_bars(struct gnuplot *g, const char *name, const struct result_view *v, bool padding) {
  char text[16];
  fprintf(g->script, "$%s << EOD\n", name);
  for (int i = 0; i < v->n; i++) {
    double percent = 100 * (padding ? v->policies[i].padding_frac : v->policies[i].imbalance_frac);
    double left = bar_left(v, i, padding), right = left + bar_width(v);
    fprintf(g->script, "%.9g %.9g %.9g %.9g 0 %.9g\n", (left + right) / 2, percent / 2, left, right, percent);
  }
  fputs("EOD\n", g->script);
  for (int i = 0; i < v->n; i++) {
    double percent = 100 * (padding ? v->policies[i].padding_frac : v->policies[i].imbalance_frac);
    snprintf(text, sizeof text, "%.1f", percent);
    fputs("set label ", g->script);
    gnuplot_text(g->script, text, 0);
    fprintf(g->script, " at %.9g,%.9g center offset 0,0.6 textcolor rgb '#%06X'\n",
            bar_left(v, i, padding) + bar_width(v) / 2, percent, COLOUR_TEXT);
  }
}

static double largest_percent(const struct result_view *v) {
  double max = 0;
  for (int i = 0; i < v->n; i++)
    max = fmax(max, 100 * fmax(v->policies[i].padding_frac, v->policies[i].imbalance_frac));
  return max;
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct result_view v;
  if (result_view_read(&v, in->path, err) < 0)
    return -1;
  static const struct legend_entry legend[] = {{COLOUR_VERMILLION, "imbalance (of step time)"},
                                               {COLOUR_SKY, "padding (of tokens processed)"}};
  double max = largest_percent(&v);
  gnuplot_legend(g, legend, 2, 0.07, 0.815, false);
  gnuplot_title(g, "Imbalance and padding by policy", v.subtitle);
  write_bars(g, "imbalance", &v, false);
  write_bars(g, "padding", &v, true);
  fprintf(g->script,
          "set xrange [-0.6:%g]\nset yrange [0:%.9g]\nset grid noxtics ytics\nset tmargin screen 0.765\n"
          "set bmargin 2\nset ylabel 'percent'\nunset xtics\n",
          v.n - 0.4, max > 0 ? max * 1.12 : 1);
  for (int i = 0; i < v.n; i++) {
    fputs("set label ", g->script);
    gnuplot_text(g->script, v.policies[i].name, 20);
    fprintf(g->script, " at first %d, graph 0 center offset 0,-1 textcolor rgb '#%06X'\n", i, COLOUR_TEXT);
  }
  fprintf(g->script,
          "plot $imbalance using 1:2:3:4:5:6 with boxxyerror lc rgb '#%06X',"
          " $padding using 1:2:3:4:5:6 with boxxyerror lc rgb '#%06X'\n",
          COLOUR_VERMILLION, COLOUR_SKY);
  return 0;
}

const struct plot plot_imbalance = {
    .name = "imbalance",
    .help = "time lost to the slowest rank and tokens lost to padding, by policy",
    .input = "a result of dcpsim simulate --json",
    .draw = draw,
};
