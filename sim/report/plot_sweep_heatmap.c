/* Which policy wins where, and by how much: the two swept fields with most values as a table of coloured cells. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/sorted.h"
#include "sim/base/units.h"
#include "sim/report/plot_kinds.h"
#include "sim/report/sweep_view.h"

#define LOW_COLOUR 0xF1F6FA
#define HIGH_COLOUR COLOUR_BLUE

/* The best policy at two values, by its median speedup over all other fields. */
struct cell {
  double speedup; /* NaN: no point has a result */
  int policy;
};

/* `rows`: those of the cell, all policies. */
static struct cell best_of(const struct sweep_view *v, const struct sweep_row *const *rows, size_t n, double *scratch) {
  struct cell best = {.speedup = NAN};
  for (int p = 0; p < v->n_policies; p++) {
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
      if (rows[i]->policy == p)
        scratch[k++] = rows[i]->speedup;
    if (k == 0)
      continue;
    sort_doubles(scratch, k);
    double median = (scratch[(k - 1) / 2] + scratch[k / 2]) / 2;
    if (isnan(best.speedup) || median > best.speedup)
      best = (struct cell){median, p};
  }
  return best;
}

/* x by y cells; the caller frees them. */
static struct cell *make_cells(const struct sweep_view *v, const int axes[2]) {
  size_t nx = v->fields[axes[0]].n, ny = v->fields[axes[1]].n;
  struct cell *cells = xmalloc(size_mul(size_mul(nx, ny), sizeof *cells));
  const struct sweep_row **rows = xmalloc(size_mul(v->n_rows, sizeof *rows));
  double *scratch = xmalloc(size_mul(v->n_rows, sizeof *scratch));
  for (size_t c = 0; c < nx * ny; c++) {
    size_t n = 0;
    for (size_t i = 0; i < v->n_rows; i++)
      if ((size_t)v->rows[i].value[axes[0]] == c % nx && (size_t)v->rows[i].value[axes[1]] == c / nx)
        rows[n++] = &v->rows[i];
    cells[c] = best_of(v, rows, n, scratch);
  }
  free(rows);
  free(scratch);
  return cells;
}

static void find_range(const struct cell *cells, size_t n, double *low, double *high) {
  *low = INFINITY;
  *high = -INFINITY;
  for (size_t i = 0; i < n; i++)
    if (!isnan(cells[i].speedup)) {
      *low = fmin(*low, cells[i].speedup);
      *high = fmax(*high, cells[i].speedup);
    }
  if (*high - *low < 1e-6 * *high)
    *low = *high - 1e-3 * fabs(*high) - 1e-9;
}

/* The colour between the two ends. */
static unsigned colour_at(double frac) {
  unsigned colour = 0;
  for (int shift = 16; shift >= 0; shift -= 8) {
    double low = LOW_COLOUR >> shift & 255, high = HIGH_COLOUR >> shift & 255;
    colour |= (unsigned)lround(low + frac * (high - low)) << shift;
  }
  return colour;
}

static void write_cells(struct gnuplot *g, const struct sweep_view *v, const struct cell *cells, size_t nx, size_t ny,
                        double low, double high) {
  bool names = nx <= 8 && ny <= 9, numbers = nx <= 16 && ny <= 18;
  char text[64];
  fputs("$cells << EOD\n", g->script);
  for (size_t c = 0; c < nx * ny; c++)
    if (!isnan(cells[c].speedup))
      fprintf(g->script, "%zu %zu %.3f %.3f %.3f %.3f %.9g\n", c % nx, c / nx, (double)(c % nx) - 0.48,
              (double)(c % nx) + 0.48, (double)(c / nx) - 0.48, (double)(c / nx) + 0.48, cells[c].speedup);
  fputs("EOD\n", g->script);
  for (size_t c = 0; c < nx * ny && numbers; c++) {
    if (isnan(cells[c].speedup))
      continue;
    unsigned ink = colour_is_light(colour_at((cells[c].speedup - low) / (high - low))) ? COLOUR_ON_LIGHT : 0xFFFFFF;
    snprintf(text, sizeof text, "%.2fx%s%.20s", cells[c].speedup, names ? " " : "",
             names ? v->policies[cells[c].policy] : "");
    gnuplot_label(g, (double)(c % nx), (double)(c / nx), "center", ink, text);
  }
}

static void write_values(struct gnuplot *g, const struct swept_field *f, bool vertical) {
  size_t every = 1 + (f->n - 1) / 16;
  for (size_t i = 0; i < f->n; i += every) {
    fputs("set label ", g->script);
    gnuplot_text(g->script, f->values[i], vertical ? 16 : 96 / (int)(f->n < 16 ? f->n + 1 : 16));
    if (vertical)
      fprintf(g->script, " at graph 0, first %zu right offset -0.6,0 textcolor rgb '#%06X'\n", i, COLOUR_TEXT);
    else
      fprintf(g->script, " at first %zu, graph 0 center offset 0,-1 textcolor rgb '#%06X'\n", i, COLOUR_TEXT);
  }
}

static size_t longest_value(const struct swept_field *f) {
  size_t longest = 0;
  for (size_t i = 0; i < f->n; i++)
    longest = strlen(f->values[i]) > longest ? strlen(f->values[i]) : longest;
  return longest < 16 ? longest : 16;
}

static void draw_view(struct gnuplot *g, const struct sweep_view *v, const int axes[2]) {
  const struct swept_field *x = &v->fields[axes[0]], *y = &v->fields[axes[1]];
  struct cell *cells = make_cells(v, axes);
  bool others = false;
  double low, high;
  char title[160];
  find_range(cells, x->n * y->n, &low, &high);
  for (int i = 0; i < v->n_fields; i++)
    others = others || (i != axes[0] && i != axes[1] && v->fields[i].n > 1);
  snprintf(title, sizeof title, "Best policy over %.30s and %.30s", x->name, y->name);
  gnuplot_title(g, title,
                others ? "speedup over the baseline of the policy that gains most, median over the other swept fields"
                       : "speedup over the baseline of the policy that gains most");
  write_cells(g, v, cells, x->n, y->n, low, high);
  write_values(g, x, false);
  write_values(g, y, true);
  fprintf(g->script,
          "set palette defined (0 '#%06X', 1 '#%06X')\nset cbrange [%.9g:%.9g]\nset format cb '%%.2fx'\n"
          "set xrange [-0.5:%zu.5]\nset yrange [-0.5:%zu.5]\nunset grid\nunset border\nunset xtics\nunset ytics\n"
          "set tmargin screen 0.83\nset bmargin 4.2\nset lmargin %zu\nset rmargin 11\nset xlabel ",
          LOW_COLOUR, HIGH_COLOUR, low, high, x->n - 1, y->n - 1, longest_value(y) + 5);
  gnuplot_text(g->script, x->name, 40);
  fputs(" offset 0,-1.3\nset ylabel ", g->script);
  gnuplot_text(g->script, y->name, 40);
  fprintf(g->script, " offset -%zu,0\nplot $cells using 1:2:3:4:5:6:7 with boxxyerror lc palette\n", longest_value(y));
  free(cells);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct sweep_view v;
  int axes[2], rc = 0;
  if (sweep_view_read(&v, in->path, err) < 0)
    return -1;
  sweep_view_axes(&v, axes);
  if (axes[1] < 0)
    rc = err_set(err, "'%s': a heat map needs two swept fields with two values or more (plot sweep_curves needs one)",
                 in->path);
  else if (v.fields[axes[0]].n * v.fields[axes[1]].n > 10000)
    rc = err_set(err, "'%s': '%s' and '%s' make more than 10000 cells, too many to draw", in->path,
                 v.fields[axes[0]].name, v.fields[axes[1]].name);
  else
    draw_view(g, &v, axes);
  sweep_view_release(&v);
  return rc;
}

const struct plot plot_sweep_heatmap = {
    .name = "sweep_heatmap",
    .help = "which policy wins where: the two swept fields with most values",
    .input = "the table of dcpsim sweep",
    .draw = draw,
};
