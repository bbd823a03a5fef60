/* Throughput of every policy with its speedup, and beside it where the time of its GPUs went. */
#include <math.h>
#include <string.h>

#include "sim/report/plot_kinds.h"
#include "sim/report/published.h"
#include "sim/report/result_view.h"

#define LABEL_FROM 0.055 /* narrower shares carry no number */

/* Policies stand from top to bottom in the order of the result. */
static double row_of(const struct result_view *v, int i) { return v->n - 1 - i; }

/* A scale for tokens/s that leaves one to four digits before the point. */
static double choose_scale(double max, const char **unit) {
  static const struct {
    double scale;
    const char *unit;
  } scales[] = {{1e9, "billion tokens/s"}, {1e6, "million tokens/s"}, {1e3, "thousand tokens/s"}};
  for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
    if (max < scales[i].scale)
      continue;
    *unit = scales[i].unit;
    return scales[i].scale;
  }
  *unit = "tokens/s";
  return 1;
}

/* Half a bar's height, in rows: few policies do not make fat bars. */
static double half_bar(const struct result_view *v) { return 0.36 * fmin(1, v->n / 4.0); }

/* The end of the whisker, or else of the bar, in bars. */
static double reach_of(const struct result_policy *p) {
  return p->speedup > 0 ? fmax(1, p->speedup_high / p->speedup) : 1;
}

static void write_box(FILE *f, double x0, double x1, double row, double half, unsigned colour) {
  fprintf(f, "%.9g %.9g %.9g %.9g %.9g %.9g %u\n", (x0 + x1) / 2, row, x0, x1, row - half, row + half, colour);
}

static void write_policy_names(FILE *f, const struct result_view *v) {
  for (int i = 0; i < v->n; i++) {
    fputs("set label ", f);
    gnuplot_text(f, v->policies[i].name, 20);
    fprintf(f, " at graph 0, first %g right offset -1,0 textcolor rgb '#%06X'\n", row_of(v, i), COLOUR_TEXT);
  }
}

/* Measured speedups stand at the throughput that they would make of the simulated baseline's. */
static double published_tokens_per_s(const struct result_view *v, const struct published *p) {
  const struct result_policy *policy = &v->policies[p->policy];
  return policy->speedup > 0 ? p->value * policy->tokens_per_s / policy->speedup : 0;
}

static void draw_throughput(struct gnuplot *g, const struct result_view *v, const struct published *published,
                            int n_published) {
  double max = 0;
  const char *unit;
  char text[32];
  for (int i = 0; i < v->n; i++)
    max = fmax(max, v->policies[i].tokens_per_s * reach_of(&v->policies[i]));
  for (int i = 0; i < n_published; i++)
    max = fmax(max, published_tokens_per_s(v, &published[i]));
  double scale = choose_scale(max, &unit);
  bool whiskers = false;
  fputs("$bars << EOD\n", g->script);
  for (int i = 0; i < v->n; i++)
    write_box(g->script, 0, v->policies[i].tokens_per_s / scale, row_of(v, i), half_bar(v), COLOUR_BLUE);
  fputs("EOD\n$whiskers << EOD\n", g->script);
  for (int i = 0; i < v->n; i++) {
    const struct result_policy *p = &v->policies[i];
    if (!(p->speedup_low < p->speedup_high) || !(p->speedup > 0))
      continue;
    double unit_speedup = p->tokens_per_s / p->speedup / scale;
    fprintf(g->script, "%.9g %.9g %.9g %.9g\n", p->tokens_per_s / scale, row_of(v, i), p->speedup_low * unit_speedup,
            p->speedup_high * unit_speedup);
    whiskers = true;
  }
  fputs("EOD\n", g->script);
  fputs("$published << EOD\n", g->script);
  for (int i = 0; i < n_published; i++)
    fprintf(g->script, "%.9g %.9g\n", published_tokens_per_s(v, &published[i]) / scale, row_of(v, published[i].policy));
  fputs("EOD\n", g->script);
  for (int i = 0; i < v->n; i++) {
    const struct result_policy *p = &v->policies[i];
    double end = p->tokens_per_s * reach_of(p) / scale;
    int n = snprintf(text, sizeof text, "%.2f\xc3\x97", p->speedup);
    for (int k = 0; k < n_published; k++) {
      if (published[k].policy != i)
        continue;
      end = fmax(end, published_tokens_per_s(v, &published[k]) / scale);
      snprintf(text + n, sizeof text - (size_t)n, " (%.2f)", published[k].value); /* the last one given */
    }
    gnuplot_label(g, end + max / scale * 0.025, row_of(v, i), "left", COLOUR_TEXT, text);
  }
  fprintf(g->script, "set xrange [0:%.9g]\nset xlabel '%s  (\xc3\x97 speedup)'\n",
          max > 0 ? max / scale * (n_published > 0 ? 1.45 : 1.2) : 1, unit);
  fputs("plot $bars using 1:2:3:4:5:6:7 with boxxyerror lc rgb variable", g->script);
  if (whiskers)
    fprintf(g->script, ", $whiskers using 1:2:3:4 with xerrorbars pt 0 lw 1.5 lc rgb '#%06X'", COLOUR_TEXT);
  if (n_published > 0)
    fprintf(g->script,
            ", $published using 1:2 with points pt 13 ps 1.6 lc rgb '#%06X'"
            ", $published using 1:2 with points pt 13 ps 1.0 lc rgb '#%06X'",
            COLOUR_TEXT, COLOUR_YELLOW);
  fputs("\nunset label\n", g->script);
}

static void write_share_boxes(struct gnuplot *g, const struct result_view *v) {
  fputs("$shares << EOD\n", g->script);
  for (int i = 0; i < v->n; i++) {
    double left = 0;
    for (int s = 0; s < SHARES; s++) {
      double width = 100 * v->policies[i].share[s];
      if (width > 0)
        write_box(g->script, left, left + width, row_of(v, i), half_bar(v), share_styles[s].colour);
      left += width;
    }
  }
  fputs("EOD\n", g->script);
}

static void write_share_labels(struct gnuplot *g, const struct result_view *v) {
  char text[16];
  for (int i = 0; i < v->n; i++) {
    double left = 0;
    for (int s = 0; s < SHARES; s++) {
      double share = v->policies[i].share[s];
      snprintf(text, sizeof text, "%.0f", 100 * share);
      if (share >= LABEL_FROM)
        gnuplot_label(g, 100 * (left + share / 2), row_of(v, i), "center",
                      colour_is_light(share_styles[s].colour) ? COLOUR_ON_LIGHT : 0xFFFFFF, text);
      left += share;
    }
  }
}

static bool has_share(const struct result_view *v, int s) {
  for (int i = 0; i < v->n; i++)
    if (v->policies[i].share[s] >= 0.0005)
      return true;
  return false;
}

static void draw_shares(struct gnuplot *g, const struct result_view *v) {
  write_share_boxes(g, v);
  write_share_labels(g, v);
  fputs("set xrange [0:100]\nset xtics 0,20,100\nset xlabel 'share of GPU time (%)'\n"
        "plot $shares using 1:2:3:4:5:6:7 with boxxyerror fs solid 1.0 border rgb '#ffffff' lc rgb variable\n",
        g->script);
}

static void draw_legend(struct gnuplot *g, const struct result_view *v) {
  struct legend_entry entries[SHARES];
  int n = 0;
  for (int s = 0; s < SHARES; s++)
    if (has_share(v, s))
      entries[n++] = (struct legend_entry){share_styles[s].colour, share_styles[s].label};
  gnuplot_legend(g, entries, n, 0.5, 0.06, true);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct result_view v;
  struct published published[PUBLISHED_MAX];
  int n_published = 0;
  if (result_view_read(&v, in->path, err) < 0 ||
      (in->published && published_read(published, &n_published, in->published, &v, err) < 0))
    return -1;
  double names = 0.04 + 0.0088 * fmin(20, (double)v.longest_name);
  double middle = names + (0.97 - names) * 0.44;
  fputs("set multiplot\n", g->script);
  gnuplot_title(g, "Throughput by policy, and where the GPUs' time goes", v.subtitle);
  fprintf(
      g->script,
      "set yrange [-0.6:%g]\nunset ytics\nset grid noytics xtics\nset bmargin screen 0.245\nset tmargin screen 0.82\n",
      v.n - 0.4);
  write_policy_names(g->script, &v);
  fprintf(g->script, "set lmargin screen %.4f\nset rmargin screen %.4f\n", names, middle);
  draw_throughput(g, &v, published, n_published);
  fprintf(g->script, "set lmargin screen %.4f\nset rmargin screen 0.97\n", middle + 0.03);
  draw_legend(g, &v);
  if (n_published > 0)
    fprintf(
        g->script,
        "set label '\xe2\x97\x86 published, \xc3\x97 in brackets' at screen %.4f,0.842 right textcolor rgb '#%06X'\n",
        middle, COLOUR_FAINT);
  draw_shares(g, &v);
  fputs("unset multiplot\n", g->script);
  return 0;
}

const struct plot plot_speedup = {
    .name = "speedup",
    .help = "tokens/s and speedup of every policy, and the shares of its GPUs' time",
    .input = "a result of dcpsim simulate --json",
    .takes = PLOT_PUBLISHED,
    .draw = draw,
};
