/* How the times of optimizer steps spread under every policy: each step a point, over them quartiles and median. The
 * schedule file is where a run keeps the time of every step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/number_text.h"
#include "sim/base/sorted.h"
#include "sim/base/units.h"
#include "sim/plan/schedule_read.h"
#include "sim/report/plot_kinds.h"
#include "sim/report/result_view.h"

#define MAX_SCHEDULES 16
#define MAX_POINTS 2000 /* drawn of a policy: more are evenly thinned, over the sorted times */

struct step_times {
  char policy[64], subtitle[256];
  double *s; /* ascending */
  size_t n, cap;
};

static void keep_first(void *context, const struct schedule_finding *f) {
  char *first = context;
  if (!*first)
    snprintf(first, 512, "%s", f->message);
}

static int read_schedule(struct step_times *t, const char *path, struct err *err) {
  struct schedule_reader *reader = xcalloc(1, sizeof *reader); /* holds a block of the file */
  struct schedule_step step = {0};
  char finding[512] = "";
  int rc = schedule_reader_open(reader, path, keep_first, finding, err);
  if (rc < 0) {
    free(reader);
    return -1;
  }
  while ((rc = schedule_reader_next(reader, &step, err)) == 1)
    if (step.predicted_time_s > 0)
      VEC_PUSH(t->s, t->n, t->cap, step.predicted_time_s);
  if (rc == 0 && *finding)
    rc = err_set(err, "schedule '%s': %s", path, finding);
  else if (rc == 0 && t->n == 0)
    rc = err_set(err, "schedule '%s': no iteration has a 'predicted_time_s', so there are no step times", path);
  snprintf(t->policy, sizeof t->policy, "%s", reader->header.policy);
  snprintf(t->subtitle, sizeof t->subtitle, "%.80s (%s samples) on %.48s, %.48s (%lld GPUs)", reader->header.trace,
           grouped_text(reader->header.samples_total).text, reader->header.model, reader->header.cluster,
           (long long)reader->header.world);
  schedule_step_release(&step);
  schedule_reader_close(reader);
  free(reader);
  if (rc == 0)
    sort_doubles(t->s, t->n);
  return rc;
}

static double quantile(const struct step_times *t, double p) {
  return t->s[(size_t)floor((double)(t->n - 1) * p + 0.5)];
}

static double row_of(int n, int i) { return n - 1 - i; }

/* Spreads points over a row's height by the fractional parts of multiples of the golden ratio: even, and the same on
 * every run. */
static double shift_of(size_t i) { return fmod((double)i * 0.6180339887498949, 1) - 0.5; }

static void write_points(struct gnuplot *g, const struct step_times *t, int n, double height) {
  fputs("$steps << EOD\n", g->script);
  for (int i = 0; i < n; i++) {
    size_t points = t[i].n < MAX_POINTS ? t[i].n : MAX_POINTS;
    for (size_t k = 0; k < points; k++) {
      size_t at = points == 1 ? 0 : k * (t[i].n - 1) / (points - 1);
      fprintf(g->script, "%.6g %.6g\n", t[i].s[at], row_of(n, i) + shift_of(k) * height);
    }
  }
  fputs("EOD\n", g->script);
}

static void write_boxes(struct gnuplot *g, const struct step_times *t, int n, double height) {
  fputs("$boxes << EOD\n", g->script);
  for (int i = 0; i < n; i++)
    fprintf(g->script, "%.9g %g %.9g %.9g %g %g\n", quantile(&t[i], 0.5), row_of(n, i), quantile(&t[i], 0.25),
            quantile(&t[i], 0.75), row_of(n, i) - height / 2, row_of(n, i) + height / 2);
  fputs("EOD\n$medians << EOD\n", g->script);
  for (int i = 0; i < n; i++)
    fprintf(g->script, "%.9g %g 0 %g\n", quantile(&t[i], 0.5), row_of(n, i) - height / 2, height);
  fputs("EOD\n$means << EOD\n", g->script);
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (size_t k = 0; k < t[i].n; k++)
      sum += t[i].s[k];
    fprintf(g->script, "%.9g %g\n", sum / (double)t[i].n, row_of(n, i));
  }
  fputs("EOD\n", g->script);
}

static void write_names(struct gnuplot *g, const struct step_times *t, int n) {
  char text[48];
  for (int i = 0; i < n; i++) {
    fputs("set label ", g->script);
    gnuplot_text(g->script, t[i].policy, 20);
    fprintf(g->script, " at graph 0, first %g right offset -1,0.45 textcolor rgb '#%06X'\n", row_of(n, i), COLOUR_TEXT);
    snprintf(text, sizeof text, "%s step%s", grouped_text((int64_t)t[i].n).text, t[i].n == 1 ? "" : "s");
    fputs("set label ", g->script);
    gnuplot_text(g->script, text, 0);
    fprintf(g->script, " at graph 0, first %g right offset -1,-0.6 textcolor rgb '#%06X'\n", row_of(n, i),
            COLOUR_FAINT);
  }
}

static void write_plot(struct gnuplot *g, const struct step_times *t, int n) {
  static const struct legend_entry legend[] = {
      {COLOUR_SKY, "a step"}, {COLOUR_BLUE, "middle half, median"}, {COLOUR_VERMILLION, "mean"}};
  double low = t[0].s[0], high = low, half = fmin(1, n / 4.0);
  size_t longest = 9; /* "999 steps" */
  for (int i = 0; i < n; i++) {
    low = fmin(low, t[i].s[0]);
    high = fmax(high, t[i].s[t[i].n - 1]);
    longest = strlen(t[i].policy) > longest ? strlen(t[i].policy) : longest;
  }
  bool wide = high > 20 * low;
  gnuplot_title(g, "Time of optimizer steps by policy", t[0].subtitle);
  gnuplot_legend(g, legend, 3, 0.5, 0.06, true);
  write_points(g, t, n, 0.62 * half);
  write_boxes(g, t, n, 0.34 * half);
  write_names(g, t, n);
  fprintf(g->script, wide ? "set logscale x\nset xrange [%.9g:%.9g]\n" : "set xrange [%.9g:%.9g]\n",
          wide ? low / 1.3 : 0.0, wide ? high * 1.3 : high * 1.05);
  fprintf(g->script,
          "set yrange [-0.6:%g]\nunset ytics\nset grid xtics noytics\nset xlabel 'time of a step (s)'\n"
          "set format x '%%g'\nset lmargin screen %.4f\nset rmargin screen 0.97\nset bmargin screen 0.245\n"
          "set tmargin screen 0.82\n",
          n - 0.4, 0.045 + 0.0088 * fmin(20, (double)longest));
  fprintf(g->script,
          "plot $steps using 1:2 with points pt 7 ps 0.3 lc rgb '#%06X',"
          " $boxes using 1:2:3:4:5:6 with boxxyerror fs transparent solid 0.25 border rgb '#%06X' lc rgb '#%06X',"
          " $medians using 1:2:3:4 with vectors nohead lw 3 lc rgb '#%06X',"
          " $means using 1:2 with points pt 13 ps 0.8 lc rgb '#%06X'\n",
          COLOUR_SKY, COLOUR_BLUE, COLOUR_BLUE, COLOUR_BLUE, COLOUR_VERMILLION);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct step_times t[MAX_SCHEDULES] = {0};
  int rc = 0;
  if (in->n_paths > MAX_SCHEDULES)
    return err_usage(err, "plot: step_times takes up to %d schedules, got %d", MAX_SCHEDULES, in->n_paths);
  for (int i = 0; rc == 0 && i < in->n_paths; i++)
    rc = read_schedule(&t[i], in->paths[i], err);
  if (rc == 0)
    write_plot(g, t, in->n_paths);
  for (int i = 0; i < in->n_paths; i++)
    free(t[i].s);
  return rc;
}

const struct plot plot_step_times = {
    .name = "step_times",
    .help = "how the times of optimizer steps spread, a row per policy",
    .input = "one or more schedules of dcpsim simulate --schedule '{policy}.jsonl'",
    .takes = PLOT_SEVERAL,
    .draw = draw,
};
