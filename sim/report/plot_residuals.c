/* Errors of predicted kernel times against measured ones: one panel per operation, by measured time. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/sorted.h"
#include "sim/base/units.h"
#include "sim/report/csv_line.h"
#include "sim/report/plot_kinds.h"

#define COLUMNS_MAX 64
#define OUTSIDE_PERCENT 40.0 /* drawn on the edge */

struct panel {
  const char *title;
  unsigned colour;
  double *time_s, *error;
  size_t n, cap, error_cap;
};
enum { GEMM, CAUSAL, FULL, PLAIN, COLLECTIVE, OTHER, PANELS };

static int panel_of(char **fields, const int *at) {
  static const char *const collectives[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"};
  const char *op = fields[at[0]];
  if (strcmp(op, "gemm") == 0)
    return GEMM;
  for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
    if (strcmp(op, collectives[i]) == 0)
      return COLLECTIVE;
  if (strcmp(op, "attention_forward") == 0)
    return at[3] >= 0 && strcmp(fields[at[3]], "1") == 0 ? CAUSAL : FULL;
  return strncmp(op, "attention", 9) == 0 ? PLAIN : OTHER;
}

static int find_columns(char **fields, int n, int *at, const char *path, struct err *err) {
  static const char *const names[] = {"op", "time_s", "rel_error", "causal"};
  for (int k = 0; k < 4; k++) {
    at[k] = -1;
    for (int i = 0; i < n; i++)
      if (strcmp(fields[i], names[k]) == 0)
        at[k] = i;
    if (at[k] < 0 && k < 3)
      return err_set(err, "rows '%s': no column '%s' (is it the --csv of calibrate check?)", path, names[k]);
  }
  return 0;
}

static int read_row(struct panel *panels, char **fields, const int *at, const char *path, int line, struct err *err) {
  double time_s, error;
  if (!*fields[at[2]])
    return 0; /* not predicted */
  if (!csv_number(fields[at[1]], &time_s) || !(time_s > 0) || !csv_number(fields[at[2]], &error) || !isfinite(error))
    return err_set(err, "rows '%s' line %d: 'time_s' and 'rel_error' must be numbers", path, line);
  struct panel *p = &panels[panel_of(fields, at)];
  size_t count = p->n;
  VEC_PUSH(p->time_s, count, p->cap, time_s);
  VEC_PUSH(p->error, p->n, p->error_cap, error);
  return 0;
}

static int read_lines(FILE *in, struct panel *panels, const char *path, struct err *err) {
  char *line = NULL, *fields[COLUMNS_MAX];
  size_t cap = 0;
  int at[4], columns = 0, number = 0, rc = 0;
  while (rc == 0 && getline(&line, &cap, in) > 0) {
    int n = csv_split(line, fields, COLUMNS_MAX);
    number++;
    if (n > COLUMNS_MAX)
      rc = err_set(err, "rows '%s' line %d: more than %d fields", path, number, COLUMNS_MAX);
    else if (number == 1)
      rc = find_columns(fields, columns = n, at, path, err);
    else if (n != columns)
      rc = err_set(err, "rows '%s' line %d: not as many fields as the header", path, number);
    else
      rc = read_row(panels, fields, at, path, number, err);
  }
  free(line);
  if (rc == 0 && !feof(in))
    return err_set(err, "cannot read rows '%s': %s", path, strerror(errno));
  return rc == 0 && number == 0 ? err_set(err, "rows '%s' are empty", path) : rc;
}

static int read_rows(struct panel *panels, const char *path, struct err *err) {
  FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
  if (!in)
    return err_set(err, "cannot read rows '%s': %s", path, strerror(errno));
  int rc = read_lines(in, panels, path, err);
  if (in != stdin)
    fclose(in);
  return rc;
}

/* "median 2.1 %, p90 7.4 %, 9000 rows" */
static void summarize(const struct panel *p, char *text, size_t size) {
  double *sorted = xcalloc(p->n, sizeof *sorted);
  for (size_t i = 0; i < p->n; i++)
    sorted[i] = fabs(p->error[i]);
  sort_doubles(sorted, p->n);
  snprintf(text, size, "median %.1f %%, p90 %.1f %%, %zu rows",
           100 * sorted[(size_t)floor((double)(p->n - 1) * 0.5 + 0.5)],
           100 * sorted[(size_t)floor((double)(p->n - 1) * 0.9 + 0.5)], p->n);
  free(sorted);
}

static void draw_panel(const struct panel *p, int index, struct gnuplot *g) {
  char text[96];
  summarize(p, text, sizeof text);
  fprintf(g->script, "$rows%d << EOD\n", index);
  for (size_t i = 0; i < p->n; i++)
    fprintf(g->script, "%.5g %.4g\n", p->time_s[i], fmax(-OUTSIDE_PERCENT, fmin(OUTSIDE_PERCENT, 100 * p->error[i])));
  fputs("EOD\nset label ", g->script);
  gnuplot_text(g->script, p->title, 0);
  fprintf(g->script, " at graph 0, graph 1.19 textcolor rgb '#%06X'\nset label ", COLOUR_TEXT);
  gnuplot_text(g->script, text, 0);
  fprintf(g->script,
          " at graph 0, graph 1.07 textcolor rgb '#%06X'\n"
          "plot 0 lc rgb '#%06X' lw 1, $rows%d using 1:2 with points pt 7 ps 0.12 lc rgb '#%06X'\nunset label\n",
          COLOUR_FAINT, COLOUR_TEXT, index, p->colour);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct panel panels[PANELS] = {[GEMM] = {.title = "gemm", .colour = COLOUR_BLUE},
                                 [CAUSAL] = {.title = "causal attention", .colour = COLOUR_VERMILLION},
                                 [FULL] = {.title = "full attention", .colour = COLOUR_ORANGE},
                                 [PLAIN] = {.title = "attention backward", .colour = COLOUR_PURPLE},
                                 [COLLECTIVE] = {.title = "collectives", .colour = COLOUR_GREEN},
                                 [OTHER] = {.title = "other", .colour = COLOUR_SKY}};
  int shown = 0, rc = read_rows(panels, in->path, err);
  for (int i = 0; i < PANELS; i++)
    shown += panels[i].n > 0;
  if (rc == 0 && shown == 0)
    rc = err_set(err, "rows '%s' hold no predicted row", in->path);
  if (rc == 0) {
    gnuplot_title(g, "Predicted against measured kernel times",
                  "error of every row, predicted over measured less 1; beyond 40 percent on the edge");
    fprintf(g->script,
            "set multiplot layout %d,%d margins screen 0.07,0.98,0.11,0.76 spacing 0.07,0.21\n"
            "set logscale x\nset format x '1e%%T'\nset yrange [-%g:%g]\nset ytics 20\nset grid xtics ytics\n"
            "set key off\nset xlabel 'measured time, s' offset 0,0.6\nset ylabel 'error, percent' offset 1,0\n",
            shown > 2 ? 2 : 1, shown > 2 ? (shown + 1) / 2 : shown, OUTSIDE_PERCENT, OUTSIDE_PERCENT);
    for (int i = 0, index = 0; i < PANELS; i++)
      if (panels[i].n > 0)
        draw_panel(&panels[i], index++, g);
    fputs("unset multiplot\n", g->script);
  }
  for (int i = 0; i < PANELS; i++) {
    free(panels[i].time_s);
    free(panels[i].error);
  }
  return rc;
}

const struct plot plot_residuals = {
    .name = "residuals",
    .help = "error of every measured row, by operation and measured time",
    .input = "the --csv of dcpsim calibrate check",
    .draw = draw,
};
