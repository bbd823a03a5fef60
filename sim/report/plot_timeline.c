/* What every rank did in the first iterations. Ranks stand from top to bottom, time runs to the right; a group is a block
 * of its ranks. The block is coloured as the accounting counts: computation first, then exposed communication, then
 * waiting; a strip at its foot shows gradient synchronisation whether exposed or not. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/plan/timeline.h"
#include "sim/report/plot_kinds.h"

#define COLUMNS 400         /* time slices across the plot, two pixels each, so that no number of spans is too many */
#define MAX_ITERATIONS 4
#define STRIP 0.16          /* of a block's height */
#define NOTHING TIMELINE_CATEGORIES

static const unsigned colours[TIMELINE_CATEGORIES] = {
    [TIMELINE_CAT_COMPUTE] = COLOUR_BLUE,       [TIMELINE_CAT_RECOMPUTE] = COLOUR_GREEN,
    [TIMELINE_CAT_SP_EXCHANGE] = COLOUR_ORANGE, [TIMELINE_CAT_GRAD_SYNC] = COLOUR_VERMILLION,
    [TIMELINE_CAT_OPTIMIZER] = COLOUR_PURPLE,   [TIMELINE_CAT_HOST] = COLOUR_YELLOW,
    [TIMELINE_CAT_IDLE] = COLOUR_GREY,
};
static const char *const labels[TIMELINE_CATEGORIES] = {
    [TIMELINE_CAT_COMPUTE] = "compute",         [TIMELINE_CAT_RECOMPUTE] = "recompute",
    [TIMELINE_CAT_SP_EXCHANGE] = "SP exchange", [TIMELINE_CAT_GRAD_SYNC] = "gradient sync",
    [TIMELINE_CAT_OPTIMIZER] = "optimizer",     [TIMELINE_CAT_HOST] = "host",
    [TIMELINE_CAT_IDLE] = "idle",
};

/* A group in an iteration, and how much of each time slice each stream spends on each category (fraction of a slice). */
struct block {
  int32_t iteration, first_rank, sp;
  int64_t start_ns, end_ns;
  float (*used)[TIMELINE_STREAMS][TIMELINE_CATEGORIES]; /* COLUMNS of them */
};

struct picture {
  struct block *blocks;
  size_t n, cap;
  int world, iterations;
  int64_t end_ns;
  int64_t iteration_end_ns[MAX_ITERATIONS];
  bool seen[TIMELINE_CATEGORIES];
};

/* ---- What to show ------------------------------------------------------------------------------------------------- */

/* The window: whole iterations from the first on, while no more than MAX_ITERATIONS. */
static void choose_window(struct picture *p, const struct timeline *t) {
  for (size_t i = 0; i < t->n; i++) {
    const struct timeline_span *s = &t->spans[i];
    p->world = s->first_rank + s->sp > p->world ? s->first_rank + s->sp : p->world;
    if (s->iteration < 0 || s->iteration >= MAX_ITERATIONS)
      continue;
    p->iterations = s->iteration >= p->iterations ? s->iteration + 1 : p->iterations;
    p->iteration_end_ns[s->iteration] = int64_max(p->iteration_end_ns[s->iteration], s->end_ns);
  }
  for (int i = 0; i < p->iterations; i++)
    p->end_ns = int64_max(p->end_ns, p->iteration_end_ns[i]);
}

static struct block *block_of(struct picture *p, const struct timeline_span *s) {
  for (size_t i = p->n; i-- > 0 && p->blocks[i].iteration >= s->iteration - 1;)
    if (p->blocks[i].iteration == s->iteration && p->blocks[i].first_rank == s->first_rank && p->blocks[i].sp == s->sp)
      return &p->blocks[i];
  struct block b = {.iteration = s->iteration,
                    .first_rank = s->first_rank,
                    .sp = s->sp,
                    .start_ns = s->start_ns,
                    .used = xcalloc(COLUMNS, sizeof *b.used)};
  VEC_PUSH(p->blocks, p->n, p->cap, b);
  return &p->blocks[p->n - 1];
}

static void add_span(struct picture *p, const struct timeline_span *s) {
  struct block *b = block_of(p, s);
  double per_ns = COLUMNS / (double)p->end_ns;
  double from = (double)s->start_ns * per_ns, to = (double)s->end_ns * per_ns;
  b->start_ns = int64_min(b->start_ns, s->start_ns);
  b->end_ns = int64_max(b->end_ns, s->end_ns);
  p->seen[s->category] = true;
  for (int c = (int)from; c < COLUMNS && c < to; c++)
    b->used[c][s->stream][s->category] += (float)(fmin(to, c + 1) - fmax(from, c));
}

/* ---- Colours of slices -------------------------------------------------------------------------------------------- */

/* Fractions of a slice by category, as the accounting counts: the compute stream, then exchanges and synchronisation that
 * it leaves exposed; the rest is nothing. */
static void count_slice(const float used[TIMELINE_STREAMS][TIMELINE_CATEGORIES], float out[NOTHING + 1]) {
  float left = 1;
  memset(out, 0, (NOTHING + 1) * sizeof *out);
  for (int stream = 0; stream < TIMELINE_STREAMS; stream++) {
    for (int c = 0; c < TIMELINE_CATEGORIES; c++) {
      float part = used[stream][c] < left ? used[stream][c] : left;
      out[c] += part;
      left -= part;
    }
  }
  out[NOTHING] = left;
}

static void strip_slice(const float used[TIMELINE_STREAMS][TIMELINE_CATEGORIES], float out[NOTHING + 1]) {
  memset(out, 0, (NOTHING + 1) * sizeof *out);
  float sync = used[TIMELINE_SYNC][TIMELINE_CAT_GRAD_SYNC];
  out[TIMELINE_CAT_GRAD_SYNC] = sync < 1 ? sync : 1;
  out[NOTHING] = 1 - out[TIMELINE_CAT_GRAD_SYNC];
}

/* ---- Drawing ------------------------------------------------------------------------------------------------------ */

static void write_box(FILE *f, double x0, double x1, double y0, double y1, unsigned colour) {
  fprintf(f, "%.9g %.9g %.9g %.9g %.9g %.9g %u\n", (x0 + x1) / 2, (y0 + y1) / 2, x0, x1, y0, y1, colour);
}

/* The slices from..to of a block, which are alike: its categories one above the other, heights in proportion to time. */
static void write_stack(FILE *f, const float slice[NOTHING + 1], double x0, double x1, double top, double height) {
  double y = top;
  for (int c = 0; c < NOTHING; c++) {
    if (slice[c] > 0.002F)
      write_box(f, x0, x1, y, y + height * slice[c], colours[c]);
    y += height * slice[c];
  }
}

static bool alike(const float a[NOTHING + 1], const float b[NOTHING + 1]) {
  for (int c = 0; c <= NOTHING; c++)
    if (fabsf(a[c] - b[c]) > 0.005F)
      return false;
  return true;
}

static void write_runs(FILE *f, const struct block *b, double slice_s, bool strip) {
  float run_slice[NOTHING + 1], slice[NOTHING + 1];
  double top = strip ? b->first_rank + b->sp * (1 - STRIP) : b->first_rank, height = b->sp * (strip ? STRIP : 1);
  int run = 0;
  for (int c = 0; c <= COLUMNS; c++) {
    if (c < COLUMNS)
      (strip ? strip_slice : count_slice)(b->used[c], slice);
    if (c > 0 && c < COLUMNS && alike(run_slice, slice))
      continue;
    if (c > 0)
      write_stack(f, run_slice, run * slice_s, c * slice_s, top, height);
    run = c;
    memcpy(run_slice, slice, sizeof slice);
  }
}

static void write_boxes(struct gnuplot *g, const struct picture *p, double unit_s) {
  double slice_s = s_from_ns(p->end_ns) / unit_s / COLUMNS;
  fputs("$boxes << EOD\n", g->script);
  write_box(g->script, 0, slice_s * COLUMNS, 0, p->world, COLOUR_GREY);
  for (size_t i = 0; i < p->n; i++) {
    write_runs(g->script, &p->blocks[i], slice_s, false);
    write_runs(g->script, &p->blocks[i], slice_s, true);
  }
  fputs("EOD\n$outlines << EOD\n", g->script);
  for (size_t i = 0; i < p->n; i++) {
    const struct block *b = &p->blocks[i];
    write_box(g->script, s_from_ns(b->start_ns) / unit_s, s_from_ns(b->end_ns) / unit_s, b->first_rank,
              b->first_rank + b->sp, 0xFFFFFF);
  }
  fputs("EOD\n", g->script);
}

/* "SP 8" in blocks with room for it, on the colour that lies there. */
static void write_block_labels(struct gnuplot *g, const struct picture *p, double unit_s) {
  char text[16];
  for (size_t i = 0; i < p->n; i++) {
    const struct block *b = &p->blocks[i];
    bool wide = (double)(b->end_ns - b->start_ns) > 0.05 * (double)p->end_ns, high = b->sp > 0.045 * p->world;
    if (!wide || !high)
      continue;
    snprintf(text, sizeof text, " SP %d ", b->sp);
    fputs("set label ", g->script);
    gnuplot_text(g->script, text, 0);
    fprintf(g->script, " at %.9g,%.9g center front boxed textcolor rgb '#%06X'\n",
            s_from_ns(b->start_ns + b->end_ns) / 2 / unit_s, b->first_rank + b->sp * (1 - STRIP) / 2, COLOUR_TEXT);
  }
}

static void write_iterations(struct gnuplot *g, const struct picture *p, double unit_s) {
  char text[32];
  int64_t start_ns = 0;
  for (int i = 0; i < p->iterations; i++) {
    double end = s_from_ns(p->iteration_end_ns[i]) / unit_s, start = s_from_ns(start_ns) / unit_s;
    snprintf(text, sizeof text, p->iterations > 2 ? "%d" : "iteration %d", i);
    fputs("set label ", g->script);
    gnuplot_text(g->script, text, 0);
    fprintf(g->script, " at first %.9g, graph 1.025 center textcolor rgb '#%06X'\n", (start + end) / 2, COLOUR_FAINT);
    if (i + 1 < p->iterations)
      fprintf(g->script, "set arrow from first %.9g, graph 0 to first %.9g, graph 1.04 nohead front lw 1.5 lc rgb '#%06X'\n",
              end, end, COLOUR_TEXT);
    start_ns = p->iteration_end_ns[i];
  }
}

static void write_axes(struct gnuplot *g, const struct picture *p, double unit_s, const char *unit) {
  int step = 1;
  while (p->world / step > 16)
    step *= 2;
  fprintf(g->script,
          "set xrange [0:%.9g]\nset yrange [%d:0]\nset ytics 0,%d,%d\nunset grid\nset xlabel 'time (%s)'\n"
          "set ylabel 'rank'\nset lmargin screen 0.075\nset rmargin screen 0.97\nset tmargin screen 0.80\n"
          "set bmargin screen 0.235\n",
          s_from_ns(p->end_ns) / unit_s, p->world, step, p->world, unit);
  fputs("set style textbox opaque fillcolor rgb '#ffffff' noborder margins 0.3,0.3\n",
        g->script);
}

static void write_plot(struct gnuplot *g) {
  fputs("plot $boxes using 1:2:3:4:5:6:7 with boxxyerror lc rgb variable, "
        "$outlines using 1:2:3:4:5:6 with boxxyerror lc rgb '#ffffff' lw 1 fs empty border\n",
        g->script);
}

static void draw_legend(struct gnuplot *g, const struct picture *p) {
  struct legend_entry entries[TIMELINE_CATEGORIES];
  int n = 0;
  for (int c = 0; c < TIMELINE_CATEGORIES; c++)
    if (p->seen[c] || c == TIMELINE_CAT_IDLE)
      entries[n++] = (struct legend_entry){colours[c], labels[c]};
  gnuplot_legend(g, entries, n, 0.52, 0.06, true);
}

static void draw_picture(struct gnuplot *g, const struct picture *p, const struct timeline *t) {
  char title[96], subtitle[320];
  double unit_s = p->end_ns >= 1000000000 ? 1 : p->end_ns >= 1000000 ? 1e-3 : 1e-6;
  if (p->iterations == 1)
    snprintf(title, sizeof title, "Timeline of %.32s, iteration 0", t->policy);
  else
    snprintf(title, sizeof title, "Timeline of %.32s, iterations 0 to %d", t->policy, p->iterations - 1);
  snprintf(subtitle, sizeof subtitle, "%.160s%s%d ranks; strip at the foot of a group: gradient sync, hidden or not", t->run,
           t->run[0] ? "; " : "", p->world);
  gnuplot_title(g, title, subtitle);
  draw_legend(g, p);
  write_axes(g, p, unit_s, unit_s == 1 ? "s" : unit_s == 1e-3 ? "ms" : "\xc2\xb5s");
  write_boxes(g, p, unit_s);
  write_block_labels(g, p, unit_s);
  write_iterations(g, p, unit_s);
  write_plot(g);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct timeline t;
  struct picture p = {0};
  if (timeline_read(&t, in->path, err) < 0)
    return -1;
  choose_window(&p, &t);
  for (size_t i = 0; p.end_ns > 0 && i < t.n; i++)
    if (t.spans[i].iteration >= 0 && t.spans[i].iteration < p.iterations)
      add_span(&p, &t.spans[i]);
  int status = p.n > 0 ? 0 : err_set(err, "timeline '%s' holds no spans", in->path);
  if (status == 0)
    draw_picture(g, &p, &t);
  for (size_t i = 0; i < p.n; i++)
    free(p.blocks[i].used);
  free(p.blocks);
  timeline_release(&t);
  return status;
}

const struct plot plot_timeline = {
    .name = "timeline",
    .help = "what every group of ranks does over time, first iterations",
    .input = "a timeline of dcpsim simulate --timeline FILE",
    .draw = draw,
};
