/* Throughput over the swept field with most values, a curve per policy; the other swept fields make a band. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/sorted.h"
#include "sim/base/units.h"
#include "sim/report/plot_kinds.h"
#include "sim/report/sweep_view.h"

static const unsigned colours[] = {COLOUR_BLUE,   COLOUR_VERMILLION, COLOUR_GREEN, COLOUR_ORANGE,
                                   COLOUR_PURPLE, COLOUR_SKY,        COLOUR_FAINT, COLOUR_YELLOW};
enum { COLOURS = sizeof colours / sizeof *colours };

/* One value of the field under one policy, over all other fields. */
struct spread {
  double low, median, high;
  size_t n;
};

/* `scratch`: one per row. */
static struct spread spread_of(const struct sweep_view *v, int field, int value, int policy, double *scratch) {
  struct spread s = {0};
  for (size_t i = 0; i < v->n_rows; i++)
    if (v->rows[i].policy == policy && v->rows[i].value[field] == value)
      scratch[s.n++] = v->rows[i].tokens_per_s;
  if (s.n == 0)
    return s;
  sort_doubles(scratch, s.n);
  s.low = scratch[0];
  s.high = scratch[s.n - 1];
  s.median = (scratch[(s.n - 1) / 2] + scratch[s.n / 2]) / 2;
  return s;
}

static double place_of(const struct swept_field *f, size_t value) {
  return f->numbers ? f->numbers[value] : (double)value;
}

/* Numbers over more than a decade and a half are drawn by their logarithm. */
static bool is_wide(const struct swept_field *f) {
  return f->numbers && f->numbers[0] > 0 && f->numbers[f->n - 1] > 30 * f->numbers[0];
}

/* Tokens per second in units that leave up to four digits. */
static double unit_of(const struct sweep_view *v, const char **name) {
  double max = 0;
  for (size_t i = 0; i < v->n_rows; i++)
    max = fmax(max, v->rows[i].tokens_per_s);
  *name = max >= 1e7 ? "million tokens/s" : max >= 1e4 ? "thousand tokens/s" : "tokens/s";
  return max >= 1e7 ? 1e6 : max >= 1e4 ? 1e3 : 1;
}

/* A data block per policy; whether any value has a band. */
static bool write_data(struct gnuplot *g, const struct sweep_view *v, int field, double unit) {
  const struct swept_field *f = &v->fields[field];
  double *scratch = xmalloc(size_mul(v->n_rows, sizeof *scratch));
  bool bands = false;
  for (int p = 0; p < v->n_policies; p++) {
    fprintf(g->script, "$policy%d << EOD\n", p);
    for (size_t i = 0; i < f->n; i++) {
      struct spread s = spread_of(v, field, (int)i, p, scratch);
      if (s.n > 0)
        fprintf(g->script, "%.9g %.9g %.9g %.9g\n", place_of(f, i), s.median / unit, s.low / unit, s.high / unit);
      bands = bands || s.high > s.low;
    }
    fputs("EOD\n", g->script);
  }
  free(scratch);
  return bands;
}

static void write_axis(struct gnuplot *g, const struct swept_field *f) {
  double first = place_of(f, 0), last = place_of(f, f->n - 1);
  size_t every = 1 + (f->n - 1) / 12;
  if (is_wide(f))
    fprintf(g->script, "set logscale x\nset xrange [%.12g:%.12g]\n", first * pow(last / first, -0.03),
            last * pow(last / first, 0.03));
  else
    fprintf(g->script, "set xrange [%.12g:%.12g]\n", first - 0.03 * (last - first), last + 0.03 * (last - first));
  if (f->numbers && f->n <= 12) {
    fputs("set xtics (", g->script);
    for (size_t i = 0; i < f->n; i++)
      fprintf(g->script, "%s'%.6g' %.12g", i ? ", " : "", f->numbers[i], f->numbers[i]);
    fputs(")\n", g->script);
  }
  if (f->numbers)
    return;
  fputs("unset xtics\n", g->script);
  for (size_t i = 0; i < f->n; i += every) {
    fputs("set label ", g->script);
    gnuplot_text(g->script, f->values[i], 60 / (int)(f->n < 12 ? f->n : 12));
    fprintf(g->script, " at first %zu, graph 0 center offset 0,-1 textcolor rgb '#%06X'\n", i, COLOUR_TEXT);
  }
}

/* "seed, max_gas": the fields with several values besides `field`. */
static void other_fields(const struct sweep_view *v, int field, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = '\0';
  for (int i = 0; i < v->n_fields && at < size; i++)
    if (i != field && v->fields[i].n > 1)
      at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : "", v->fields[i].name);
}

static void write_titles(struct gnuplot *g, const struct sweep_view *v, int field, bool bands, const char *unit) {
  struct legend_entry legend[SWEEP_VIEW_POLICIES];
  char title[128], others[120], subtitle[256];
  for (int p = 0; p < v->n_policies; p++)
    legend[p] = (struct legend_entry){colours[p % COLOURS], v->policies[p]};
  gnuplot_legend(g, legend, v->n_policies, 0.07, 0.815, false);
  other_fields(v, field, others, sizeof others);
  snprintf(title, sizeof title, "Throughput over %.60s", v->fields[field].name);
  snprintf(subtitle, sizeof subtitle, bands ? "median and range over %s" : "%s", bands ? others : "one run per point");
  gnuplot_title(g, title, subtitle);
  fprintf(g->script, "set ylabel '%s'\nset xlabel ", unit);
  gnuplot_text(g->script, v->fields[field].name, 40);
  fputs(v->fields[field].numbers ? "\n" : " offset 0,-1.3\n", g->script);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct sweep_view v;
  int axes[2];
  const char *unit_name;
  if (sweep_view_read(&v, in->path, err) < 0)
    return -1;
  sweep_view_axes(&v, axes);
  if (axes[0] < 0) {
    sweep_view_release(&v);
    return err_set(err, "'%s': no swept field has two values or more, so there is no curve", in->path);
  }
  double unit = unit_of(&v, &unit_name);
  bool bands = write_data(g, &v, axes[0], unit);
  write_titles(g, &v, axes[0], bands, unit_name);
  write_axis(g, &v.fields[axes[0]]);
  fputs("set yrange [0:*]\nset tmargin screen 0.765\nset bmargin 4.2\nset rmargin 3\nplot ", g->script);
  for (int p = 0; p < v.n_policies && bands; p++)
    fprintf(g->script, "$policy%d using 1:3:4 with filledcurves fs transparent solid 0.15 noborder lc rgb '#%06X', ", p,
            colours[p % COLOURS]);
  for (int p = 0; p < v.n_policies; p++)
    fprintf(g->script, "%s$policy%d using 1:2 with linespoints lw 2 pt 7 ps 0.6 lc rgb '#%06X'", p ? ", " : "", p,
            colours[p % COLOURS]);
  fputs("\n", g->script);
  sweep_view_release(&v);
  return 0;
}

const struct plot plot_sweep_curves = {
    .name = "sweep_curves",
    .help = "throughput of every policy over the swept field with most values",
    .input = "the table of dcpsim sweep",
    .draw = draw,
};
