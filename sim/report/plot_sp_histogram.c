/* At which SP degrees every policy runs its tokens: a stacked bar per policy. */
#include <math.h>

#include "sim/report/plot_kinds.h"
#include "sim/report/result_view.h"

#define LABEL_FROM 0.04 /* narrower parts carry no number */

/* From white-blue (SP 1) to dark blue: more is darker, in print too. */
static unsigned colour_of(int at, int n) {
  static const unsigned light[3] = {0xD6, 0xE8, 0xF5}, dark[3] = {0x08, 0x3A, 0x63};
  unsigned colour = 0;
  for (int i = 0; i < 3; i++) {
    double part = n > 1 ? (double)at / (n - 1) : 0.5;
    colour = colour << 8 | (unsigned)lround(light[i] + part * ((double)dark[i] - light[i]));
  }
  return colour;
}

static double row_of(const struct result_view *v, int i) { return v->n - 1 - i; }

/* The degrees that any policy uses, ascending, as log2. */
static int used_degrees(const struct result_view *v, int *degrees) {
  int n = 0;
  for (int d = 0; d < RESULT_MAX_SPS; d++)
    for (int i = 0; i < v->n; i++)
      if (v->policies[i].sp_frac[d] > 0) {
        degrees[n++] = d;
        break;
      }
  return n;
}

static void write_bars(struct gnuplot *g, const struct result_view *v, const int *degrees, int n) {
  double half = 0.36 * fmin(1, v->n / 4.0);
  fputs("$parts << EOD\n", g->script);
  for (int i = 0; i < v->n; i++) {
    double left = 0;
    for (int k = 0; k < n; k++) {
      double right = left + 100 * v->policies[i].sp_frac[degrees[k]];
      if (right > left)
        fprintf(g->script, "%.9g %g %.9g %.9g %g %g %u\n", (left + right) / 2, row_of(v, i), left, right,
                row_of(v, i) - half, row_of(v, i) + half, colour_of(k, n));
      left = right;
    }
  }
  fputs("EOD\n", g->script);
}

static void write_labels(struct gnuplot *g, const struct result_view *v, const int *degrees, int n) {
  char text[16];
  for (int i = 0; i < v->n; i++) {
    double left = 0, frac;
    for (int k = 0; k < n; k++, left += 100 * frac) {
      frac = v->policies[i].sp_frac[degrees[k]];
      snprintf(text, sizeof text, "%.0f", 100 * frac);
      if (frac >= LABEL_FROM)
        gnuplot_label(g, left + 50 * frac, row_of(v, i), "center",
                      colour_is_light(colour_of(k, n)) ? COLOUR_ON_LIGHT : 0xFFFFFF, text);
    }
    fputs("set label ", g->script);
    gnuplot_text(g->script, v->policies[i].name, 20);
    fprintf(g->script, " at graph 0, first %g right offset -1,0 textcolor rgb '#%06X'\n", row_of(v, i), COLOUR_TEXT);
  }
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct result_view v;
  struct legend_entry legend[RESULT_MAX_SPS];
  int degrees[RESULT_MAX_SPS];
  char names[RESULT_MAX_SPS][24];
  if (result_view_read(&v, in->path, err) < 0)
    return -1;
  int n = used_degrees(&v, degrees);
  if (n == 0)
    return err_set(err, "'%s': no policy has an 'sp_histogram', so there are no SP degrees to draw", in->path);
  for (int k = 0; k < n; k++) {
    snprintf(names[k], sizeof names[k], "SP %d", 1 << degrees[k]);
    legend[k] = (struct legend_entry){colour_of(k, n), names[k]};
  }
  gnuplot_title(g, "Sequence-parallel degree by policy", v.subtitle);
  gnuplot_legend(g, legend, n, 0.5, 0.06, true);
  write_bars(g, &v, degrees, n);
  write_labels(g, &v, degrees, n);
  fprintf(g->script,
          "set xrange [0:100]\nset yrange [-0.6:%g]\nset xtics 0,20,100\nunset ytics\nset grid xtics noytics\n"
          "set xlabel 'share of real tokens (%%)'\nset lmargin screen %.4f\nset rmargin screen 0.97\n"
          "set bmargin screen 0.245\nset tmargin screen 0.82\n"
          "plot $parts using 1:2:3:4:5:6:7 with boxxyerror fs solid 1.0 border rgb '#ffffff' lc rgb variable\n",
          v.n - 0.4, 0.04 + 0.0088 * fmin(20, (double)v.longest_name));
  return 0;
}

const struct plot plot_sp_histogram = {
    .name = "sp_histogram",
    .help = "share of the tokens that every policy runs at each SP degree",
    .input = "a result of dcpsim simulate --json",
    .draw = draw,
};
