/* Imbalance of every policy against the number of GPUs, from the table of a sweep or from results at several sizes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/report/input_kind.h"
#include "sim/report/plot_kinds.h"
#include "sim/report/result_view.h"
#include "sim/report/sweep_view.h"

static const unsigned colours[] = {COLOUR_BLUE,   COLOUR_VERMILLION, COLOUR_GREEN, COLOUR_ORANGE,
                                   COLOUR_PURPLE, COLOUR_SKY,        COLOUR_FAINT, COLOUR_YELLOW};
enum { COLOURS = sizeof colours / sizeof *colours };

struct point {
  int policy;
  int64_t gpus;
  double percent;
};

struct points {
  char *policies[RESULT_MAX_POLICIES]; /* as they appear */
  int n_policies;
  struct point *v;
  size_t n, cap;
};

static int add(struct points *p, const char *policy, int64_t gpus, double imbalance_frac, const char *path,
               struct err *err) {
  int i = 0;
  while (i < p->n_policies && strcmp(p->policies[i], policy) != 0)
    i++;
  if (i == RESULT_MAX_POLICIES)
    return err_set(err, "'%s': more than %d policies, too many to draw", path, RESULT_MAX_POLICIES);
  if (i == p->n_policies)
    p->policies[p->n_policies++] = xstrdup(policy);
  VEC_PUSH(p->v, p->n, p->cap, ((struct point){i, gpus, 100 * imbalance_frac}));
  return 0;
}

static int add_result(struct points *p, const char *path, struct err *err) {
  struct result_view v;
  if (result_view_read(&v, path, err) < 0)
    return -1;
  for (int i = 0; i < v.n; i++)
    if (add(p, v.policies[i].name, v.gpus, v.policies[i].imbalance_frac, path, err) < 0)
      return -1;
  return 0;
}

static int add_sweep(struct points *p, const char *path, struct err *err) {
  struct sweep_view v;
  int rc = 0;
  if (sweep_view_read(&v, path, err) < 0)
    return -1;
  for (size_t i = 0; rc == 0 && i < v.n_rows; i++) {
    const struct sweep_row *row = &v.rows[i];
    if (row->imbalance_frac < 0 || row->gpus == 0)
      rc = err_set(err, "'%s': no column '%s', which this plot needs", path,
                   row->imbalance_frac < 0 ? "imbalance_frac" : "tokens_per_s_per_gpu");
    else
      rc = add(p, v.policies[row->policy], row->gpus, row->imbalance_frac, path, err);
  }
  sweep_view_release(&v);
  return rc;
}

static int read_points(struct points *p, const struct plot_input *in, struct err *err) {
  for (int i = 0; i < in->n_paths; i++) {
    enum input_kind kind;
    if (input_kind_read(&kind, in->paths[i], err) < 0 ||
        (kind == INPUT_RESULT ? add_result : add_sweep)(p, in->paths[i], err) < 0)
      return -1;
  }
  int64_t low = p->v[0].gpus, high = low;
  for (size_t i = 1; i < p->n; i++) {
    low = int64_min(low, p->v[i].gpus);
    high = int64_max(high, p->v[i].gpus);
  }
  if (low == high)
    return err_set(err,
                   "'%s': all runs are of %lld GPUs; this plot needs a sweep over 'cluster', or results at two sizes",
                   in->path, (long long)low);
  return 0;
}

static int by_place(const void *a, const void *b) {
  const struct point *x = a, *y = b;
  if (x->policy != y->policy)
    return x->policy - y->policy;
  if (x->gpus != y->gpus)
    return x->gpus < y->gpus ? -1 : 1;
  return (x->percent > y->percent) - (x->percent < y->percent);
}

/* A block of gpus, median, low, high per policy; `p` sorted. Whether any place has a band. */
static bool write_data(struct gnuplot *g, const struct points *p) {
  bool bands = false;
  size_t i = 0;
  for (int policy = 0; policy < p->n_policies; policy++) {
    fprintf(g->script, "$policy%d << EOD\n", policy);
    while (i < p->n && p->v[i].policy == policy) {
      size_t end = i + 1;
      while (end < p->n && p->v[end].policy == policy && p->v[end].gpus == p->v[i].gpus)
        end++;
      double median = (p->v[(i + end - 1) / 2].percent + p->v[(i + end) / 2].percent) / 2;
      fprintf(g->script, "%lld %.9g %.9g %.9g\n", (long long)p->v[i].gpus, median, p->v[i].percent,
              p->v[end - 1].percent);
      bands = bands || p->v[end - 1].percent > p->v[i].percent;
      i = end;
    }
    fputs("EOD\n", g->script);
  }
  return bands;
}

/* A tic at every size that was run. */
static void write_axis(struct gnuplot *g, const struct points *p) {
  int64_t low = p->v[0].gpus, high = low;
  fputs("set logscale x\nset xtics (", g->script);
  for (size_t i = 0; i < p->n; i++) {
    low = int64_min(low, p->v[i].gpus);
    high = int64_max(high, p->v[i].gpus);
    fprintf(g->script, "%s'%lld' %lld", i ? ", " : "", (long long)p->v[i].gpus, (long long)p->v[i].gpus);
  }
  double margin = pow((double)high / (double)low, 0.04);
  fprintf(g->script, ")\nset xrange [%.9g:%.9g]\nset xlabel 'GPUs'\nset ylabel 'imbalance (%% of step time)'\n",
          (double)low / margin, (double)high * margin);
}

static void write_plot(struct gnuplot *g, struct points *p) {
  struct legend_entry legend[RESULT_MAX_POLICIES];
  qsort(p->v, p->n, sizeof *p->v, by_place);
  bool bands = write_data(g, p);
  for (int i = 0; i < p->n_policies; i++)
    legend[i] = (struct legend_entry){colours[i % COLOURS], p->policies[i]};
  gnuplot_title(g, "Imbalance against the number of GPUs",
                bands ? "time lost to the slowest rank; median and range of the runs at a size"
                      : "time lost to the slowest rank; one run at a size");
  gnuplot_legend(g, legend, p->n_policies, 0.07, 0.815, false);
  write_axis(g, p);
  fputs("set yrange [0:*]\nset tmargin screen 0.765\nset bmargin 4.2\nset rmargin 3\nplot ", g->script);
  for (int i = 0; i < p->n_policies && bands; i++)
    fprintf(g->script, "$policy%d using 1:3:4 with filledcurves fs transparent solid 0.15 noborder lc rgb '#%06X', ", i,
            colours[i % COLOURS]);
  for (int i = 0; i < p->n_policies; i++)
    fprintf(g->script, "%s$policy%d using 1:2 with linespoints lw 2 pt 7 ps 0.6 lc rgb '#%06X'", i ? ", " : "", i,
            colours[i % COLOURS]);
  fputs("\n", g->script);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct points p = {0};
  int rc = read_points(&p, in, err);
  if (rc == 0)
    write_plot(g, &p);
  for (int i = 0; i < p.n_policies; i++)
    free(p.policies[i]);
  free(p.v);
  return rc;
}

const struct plot plot_imbalance_gpus = {
    .name = "imbalance_gpus",
    .help = "time lost to the slowest rank against the number of GPUs, a curve per policy",
    .input = "the table of dcpsim sweep over cluster, or several results of dcpsim simulate --json",
    .takes = PLOT_SEVERAL,
    .draw = draw,
};
