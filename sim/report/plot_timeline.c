/* What every rank did in the first iterations. Ranks stand from top to bottom, time runs to the right; a group is a
 * block of its ranks. Time is cut in narrow slices; in each, categories lie one below the other with heights in
 * proportion to their time, as the accounting counts it (computation, then exposed communication, then waiting), so
 * that operations far shorter than a pixel still show true. A lane of its own below the ranks shows gradient
 * synchronisation, hidden or not. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/plan/timeline.h"
#include "sim/report/plot_kinds.h"

#define COLUMNS 400 /* time slices across the plot, two pixels each, so that no number of spans is too many */
#define MAX_ITERATIONS 4
#define MAX_RANKS 128   /* shown: two pixels each are the least that can be read */
#define MAX_BLOCKS 4096 /* groups that so many ranks can form in so many iterations, with room to spare */
#define LANE 0.06       /* height of the synchronisation lane, of all ranks' */
#define LANE_GAP 0.015
#define NOTHING TIMELINE_CATEGORIES

static const unsigned colours[TIMELINE_CATEGORIES] = {
    [TIMELINE_CAT_COMPUTE] = COLOUR_BLUE,       [TIMELINE_CAT_RECOMPUTE] = COLOUR_GREEN,
    [TIMELINE_CAT_SP_EXCHANGE] = COLOUR_ORANGE, [TIMELINE_CAT_GRAD_SYNC] = COLOUR_VERMILLION,
    [TIMELINE_CAT_OPTIMIZER] = COLOUR_PURPLE,   [TIMELINE_CAT_HOST] = COLOUR_YELLOW,
    [TIMELINE_CAT_IDLE] = COLOUR_GREY,
};
static const char *const labels[TIMELINE_CATEGORIES] = {
    [TIMELINE_CAT_COMPUTE] = "compute",
    [TIMELINE_CAT_RECOMPUTE] = "recompute",
    [TIMELINE_CAT_SP_EXCHANGE] = "SP exchange",
    [TIMELINE_CAT_GRAD_SYNC] = "gradient sync",
    [TIMELINE_CAT_OPTIMIZER] = "optimizer",
    [TIMELINE_CAT_HOST] = "host",
    [TIMELINE_CAT_IDLE] = "idle",
};

/* A group in an iteration, and how much of each time slice each stream spends on each category (fraction of a slice).
 */
struct block {
  int32_t iteration, first_rank, sp, height; /* height: of its ranks, those that are shown */
  bool works;                                /* runs micro-batches; else it only takes part in collectives */
  int64_t start_ns, end_ns;
  float (*used)[TIMELINE_STREAMS][TIMELINE_CATEGORIES]; /* COLUMNS of them */
};

struct picture {
  struct block *blocks;
  size_t n, cap;
  int world, ranks, iterations; /* ranks: shown, of the world */
  int64_t end_ns;
  int64_t iteration_end_ns[MAX_ITERATIONS];
  bool seen[TIMELINE_CATEGORIES];
};

/* ---- What to show -------------------------------------------------------------------------------------------------
 */

/* The window: whole iterations and ranks from the first on. */
static void choose_window(struct picture *p, const struct timeline *t) {
  for (size_t i = 0; i < t->n; i++) {
    const struct timeline_span *s = &t->spans[i];
    p->world = s->first_rank + s->sp > p->world ? s->first_rank + s->sp : p->world;
    if (s->iteration < 0 || s->iteration >= MAX_ITERATIONS)
      continue;
    p->iterations = s->iteration >= p->iterations ? s->iteration + 1 : p->iterations;
    p->iteration_end_ns[s->iteration] = int64_max(p->iteration_end_ns[s->iteration], s->end_ns);
  }
  if (t->left_out > 0 && p->iterations > 1 && t->spans[t->n - 1].iteration < p->iterations)
    p->iterations--; /* the record ends somewhere in the last one */
  p->ranks = p->world < MAX_RANKS ? p->world : MAX_RANKS;
  for (int i = 0; i < p->iterations; i++)
    p->end_ns = int64_max(p->end_ns, p->iteration_end_ns[i]);
}

/* NULL when there are more than a timeline of ours can hold. */
static struct block *block_of(struct picture *p, const struct timeline_span *s) {
  for (size_t i = p->n; i-- > 0;)
    if (p->blocks[i].iteration == s->iteration && p->blocks[i].first_rank == s->first_rank && p->blocks[i].sp == s->sp)
      return &p->blocks[i];
  if (p->n == MAX_BLOCKS)
    return NULL;
  int32_t room = p->ranks - s->first_rank;
  struct block b = {.iteration = s->iteration,
                    .first_rank = s->first_rank,
                    .sp = s->sp,
                    .height = s->sp < room ? s->sp : room,
                    .start_ns = s->start_ns,
                    .used = xcalloc(COLUMNS, sizeof *b.used)};
  VEC_PUSH(p->blocks, p->n, p->cap, b);
  return &p->blocks[p->n - 1];
}

static int add_span(struct picture *p, const struct timeline_span *s) {
  struct block *b = block_of(p, s);
  if (!b)
    return -1;
  double per_ns = COLUMNS / (double)p->end_ns;
  double from = (double)s->start_ns * per_ns, to = (double)s->end_ns * per_ns;
  b->start_ns = int64_min(b->start_ns, s->start_ns);
  b->end_ns = int64_max(b->end_ns, s->end_ns);
  b->works |= s->micro_batch >= 0;
  p->seen[s->category] = true;
  for (int c = (int)from; c < COLUMNS && c < to; c++)
    b->used[c][s->stream][s->category] += (float)(fmin(to, c + 1) - fmax(from, c));
  return 0;
}

static bool shown(const struct picture *p, const struct timeline_span *s) {
  return s->iteration >= 0 && s->iteration < p->iterations && s->first_rank < p->ranks;
}

static int add_spans(struct picture *p, const struct timeline *t, const char *path, struct err *err) {
  for (size_t i = 0; p->end_ns > 0 && i < t->n; i++)
    if (shown(p, &t->spans[i]) && add_span(p, &t->spans[i]) < 0)
      return err_set(err, "timeline '%s' holds more than %d groups in its first iterations", path, MAX_BLOCKS);
  return p->n > 0 ? 0 : err_set(err, "timeline '%s' holds no spans", path);
}

static void add_used(struct block *to, const struct block *from) {
  for (int i = 0; i < COLUMNS; i++)
    for (int s = 0; s < TIMELINE_STREAMS; s++)
      for (int c = 0; c < TIMELINE_CATEGORIES; c++)
        to->used[i][s][c] += from->used[i][s][c];
}

/* A block of the ranks from..to-1 that does what `all` does and nothing else. */
static void add_idle_ranks(struct picture *p, size_t all, int from, int to) {
  struct block b = p->blocks[all];
  b.first_rank = from;
  b.sp = b.height = to - from;
  b.used = xcalloc(COLUMNS, sizeof *b.used);
  add_used(&b, &p->blocks[all]);
  VEC_PUSH(p->blocks, p->n, p->cap, b);
}

/* Collectives of all ranks are recorded once, as one block of the world: they are handed to the groups of the iteration
 * and to the ranks without a group, and the block itself is not drawn. */
static void spread_block(struct picture *p, size_t all) {
  bool taken[MAX_RANKS] = {false};
  size_t n = p->n;
  for (size_t i = 0; i < n; i++) {
    struct block *b = &p->blocks[i];
    if (b->iteration != p->blocks[all].iteration || !b->works)
      continue;
    add_used(b, &p->blocks[all]);
    memset(taken + b->first_rank, true, (size_t)b->height);
  }
  for (int from = 0, to; from < p->ranks; from = to + 1) {
    for (to = from; to < p->ranks && !taken[to]; to++)
      ;
    if (to > from)
      add_idle_ranks(p, all, from, to);
  }
  p->blocks[all].height = 0;
}

static void spread_collectives(struct picture *p) {
  size_t n = p->n;
  for (size_t i = 0; i < n; i++)
    if (!p->blocks[i].works && p->blocks[i].first_rank == 0 && p->blocks[i].sp == p->world)
      spread_block(p, i);
}

/* ---- Time slices ------------------------------------------------------------------------------------------------- */

/* Fractions of a slice by category, as the accounting counts: the compute stream, then exchanges and synchronisation
 * that it leaves exposed; the rest is nothing. */
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

/* The height, of the block's, down to which category c reaches when categories lie one below the other; 0 where the
 * slice has none of it. */
static float layer_depth(const struct block *b, int column, int c) {
  float slice[NOTHING + 1], depth = 0;
  count_slice(b->used[column], slice);
  for (int i = 0; i <= c; i++)
    depth += slice[i];
  return slice[c] > 0.002F ? depth : 0;
}

/* How much of a slice is spent on gradient synchronisation by the group that spends most. */
static float sync_depth(const struct picture *p, int column) {
  float most = 0;
  for (size_t i = 0; i < p->n; i++)
    most = fmaxf(most, p->blocks[i].used[column][TIMELINE_SYNC][TIMELINE_CAT_GRAD_SYNC]);
  return most > 0.002F ? fminf(most, 1) : 0;
}

/* ---- Drawing ------------------------------------------------------------------------------------------------------
 */

/* What a shape is drawn in: x of a slice, y of depth 0 and 1. */
struct frame {
  double slice_s, top, height;
};

static void write_point(FILE *f, const struct frame *frame, int column, float depth) {
  fprintf(f, "%.9g %.9g\n", column * frame->slice_s, frame->top + frame->height * (double)depth);
}

/* The columns from..to-1, all deeper than 0, as one polygon: its stepped lower side, then back along the top. */
static void write_polygon(FILE *f, const struct frame *frame, const float *depths, int from, int to) {
  write_point(f, frame, from, depths[from]);
  for (int c = from + 1; c < to; c++) {
    if (fabsf(depths[c] - depths[c - 1]) < 0.002F)
      continue;
    write_point(f, frame, c, depths[c - 1]);
    write_point(f, frame, c, depths[c]);
  }
  write_point(f, frame, to, depths[to - 1]);
  write_point(f, frame, to, 0);
  write_point(f, frame, from, 0);
  fputc('\n', f);
}

/* Everything that is deeper than 0. Polygons, not boxes: adjoining boxes show seams. depths[COLUMNS] is 0. */
static void write_depths(FILE *f, const struct frame *frame, const float *depths) {
  int from = 0;
  for (int i = 0; i <= COLUMNS; i++) {
    if (depths[i] > 0)
      continue;
    if (i > from)
      write_polygon(f, frame, depths, from, i);
    from = i + 1;
  }
}

/* Categories are drawn from the deepest to the first, so that each covers the upper part of the one below it. */
static void write_layers(struct gnuplot *g, const struct picture *p, double slice_s) {
  float depths[COLUMNS + 1] = {0};
  for (int c = 0; c < TIMELINE_CATEGORIES; c++) {
    if (!p->seen[c])
      continue;
    fprintf(g->script, "$layer%d << EOD\n", c);
    for (size_t i = 0; i < p->n; i++) {
      const struct block *b = &p->blocks[i];
      const struct frame frame = {slice_s, b->first_rank, b->height};
      for (int column = 0; column < COLUMNS; column++)
        depths[column] = layer_depth(b, column, c);
      if (b->height > 0)
        write_depths(g->script, &frame, depths);
    }
    fputs("EOD\n", g->script);
  }
}

static void write_sync_lane(struct gnuplot *g, const struct picture *p, double slice_s) {
  float depths[COLUMNS + 1] = {0};
  const struct frame frame = {slice_s, p->ranks * (1 + LANE_GAP), p->ranks * LANE};
  for (int i = 0; i < COLUMNS; i++)
    depths[i] = sync_depth(p, i);
  fputs("$sync << EOD\n", g->script);
  write_depths(g->script, &frame, depths);
  fprintf(g->script,
          "EOD\nset object rectangle from graph 0, first %.9g to graph 1, first %.9g behind fs solid 1.0 noborder"
          " fc rgb '#ffffff'\nset label 'sync' at graph 0, first %.9g right offset -1,0 textcolor rgb '#%06X'\n",
          (double)p->ranks, frame.top, frame.top + frame.height / 2, COLOUR_TEXT);
}

static void write_outlines(struct gnuplot *g, const struct picture *p, double unit_s) {
  fputs("$outlines << EOD\n", g->script);
  for (size_t i = 0; i < p->n; i++) {
    const struct block *b = &p->blocks[i];
    if (!b->works)
      continue;
    double x0 = s_from_ns(b->start_ns) / unit_s, x1 = s_from_ns(b->end_ns) / unit_s;
    fprintf(g->script, "%.9g %.9g %.9g %.9g %d %d\n", (x0 + x1) / 2, b->first_rank + b->height / 2.0, x0, x1,
            b->first_rank, b->first_rank + b->sp);
  }
  fputs("EOD\n", g->script);
}

/* "SP 8" at the upper left of blocks with room for it. */
static void write_block_labels(struct gnuplot *g, const struct picture *p, double unit_s) {
  char text[16];
  for (size_t i = 0; i < p->n; i++) {
    const struct block *b = &p->blocks[i];
    bool wide = (double)(b->end_ns - b->start_ns) > 0.05 * (double)p->end_ns, high = b->height > 0.07 * p->ranks;
    if (!b->works || !wide || !high)
      continue;
    snprintf(text, sizeof text, "SP %d", b->sp);
    fputs("set label ", g->script);
    gnuplot_text(g->script, text, 0);
    fprintf(g->script, " at %.9g,%.9g left offset 0.8,-0.75 front boxed textcolor rgb '#%06X'\n",
            s_from_ns(b->start_ns) / unit_s, (double)b->first_rank, COLOUR_TEXT);
  }
}

static void write_iteration_label(struct gnuplot *g, double x, const char *text) {
  fputs("set label ", g->script);
  gnuplot_text(g->script, text, 0);
  fprintf(g->script, " at first %.9g, graph 1 center offset 0,0.5 textcolor rgb '#%06X'\n", x, COLOUR_FAINT);
}

static void write_iterations(struct gnuplot *g, const struct picture *p, double unit_s) {
  char text[32];
  int64_t start_ns = 0;
  for (int i = 0; i < p->iterations; i++) {
    double end = s_from_ns(p->iteration_end_ns[i]) / unit_s, start = s_from_ns(start_ns) / unit_s;
    bool wide = end - start > 0.12 * s_from_ns(p->end_ns) / unit_s;
    snprintf(text, sizeof text, wide ? "iteration %d" : "%d", i);
    if (end - start > 0.02 * s_from_ns(p->end_ns) / unit_s)
      write_iteration_label(g, (start + end) / 2, text);
    if (i + 1 < p->iterations)
      fprintf(g->script,
              "set arrow from first %.9g, graph 0 to first %.9g, graph 1.04 nohead front lw 1.5 lc rgb '#%06X'\n", end,
              end, COLOUR_TEXT);
    start_ns = p->iteration_end_ns[i];
  }
}

/* Where a timeline is drawn, in fractions of the picture. */
struct panel {
  double top, bottom;
};

static void write_axes(struct gnuplot *g, const struct picture *p, const struct panel *where, double unit_s,
                       const char *unit) {
  int step = 1;
  while (p->ranks / step > 16)
    step *= 2;
  fprintf(g->script,
          "set xrange [0:%.9g]\nset yrange [%.9g:0]\nset ytics 0,%d,%d\nunset grid\nset xlabel 'time (%s)'\n"
          "set ylabel 'rank'\nset lmargin screen 0.075\nset rmargin screen 0.97\nset tmargin screen %.9g\n"
          "set bmargin screen %.9g\n"
          "set object rectangle from graph 0,0 to graph 1,1 behind fs solid 1.0 noborder fc rgb '#%06X'\n",
          s_from_ns(p->end_ns) / unit_s, p->ranks * (p->seen[TIMELINE_CAT_GRAD_SYNC] ? 1 + LANE_GAP + LANE : 1), step,
          p->ranks - 1, unit, where->top, where->bottom, COLOUR_GREY);
  fputs("set style textbox opaque fillcolor rgb '#ffffff' noborder margins 0.3,0.3\n", g->script);
}

static void write_plot(struct gnuplot *g, const struct picture *p) {
  fputs("plot ", g->script);
  for (int c = TIMELINE_CATEGORIES - 1; c >= 0; c--)
    if (p->seen[c])
      fprintf(g->script, "$layer%d using 1:2 with filledcurves closed fc rgb '#%06X', ", c, colours[c]);
  if (p->seen[TIMELINE_CAT_GRAD_SYNC])
    fprintf(g->script, "$sync using 1:2 with filledcurves closed fc rgb '#%06X', ", colours[TIMELINE_CAT_GRAD_SYNC]);
  fputs("$outlines using 1:2:3:4:5:6 with boxxyerror lc rgb '#ffffff' lw 1 fs empty border\n", g->script);
}

static void draw_legend(struct gnuplot *g, const struct picture *p) {
  struct legend_entry entries[TIMELINE_CATEGORIES];
  int n = 0;
  for (int c = 0; c < TIMELINE_CATEGORIES; c++)
    if (p->seen[c] || c == TIMELINE_CAT_IDLE)
      entries[n++] = (struct legend_entry){colours[c], labels[c]};
  gnuplot_legend(g, entries, n, 0.52, 0.06, true);
}

static void draw_titles(struct gnuplot *g, const struct picture *p, const struct timeline *t) {
  char title[96], subtitle[320], ranks[64];
  if (p->iterations == 1)
    snprintf(title, sizeof title, "Timeline of %.32s, iteration 0", t->policy);
  else
    snprintf(title, sizeof title, "Timeline of %.32s, iterations 0 to %d", t->policy, p->iterations - 1);
  if (p->ranks < p->world)
    snprintf(ranks, sizeof ranks, "ranks 0 to %d of %d", p->ranks - 1, p->world);
  else
    snprintf(ranks, sizeof ranks, "%d ranks", p->world);
  snprintf(subtitle, sizeof subtitle, "%.200s%s%s", t->run, t->run[0] ? "; " : "", ranks);
  gnuplot_title(g, title, subtitle);
}

static void draw_panel(struct gnuplot *g, const struct picture *p, const struct panel *where) {
  double unit_s = p->end_ns >= 1000000000 ? 1 : p->end_ns >= 1000000 ? 1e-3 : 1e-6;
  write_axes(g, p, where, unit_s, unit_s == 1 ? "s" : unit_s == 1e-3 ? "ms" : "\xc2\xb5s");
  double slice_s = s_from_ns(p->end_ns) / unit_s / COLUMNS;
  write_layers(g, p, slice_s);
  if (p->seen[TIMELINE_CAT_GRAD_SYNC])
    write_sync_lane(g, p, slice_s);
  write_outlines(g, p, unit_s);
  write_block_labels(g, p, unit_s);
  write_iterations(g, p, unit_s);
  write_plot(g, p);
}

/* A file and its picture. */
struct record {
  struct timeline t;
  struct picture p;
};

#define RANK "{rank}"

/* `path` with the number for {rank}; the caller frees it. */
static char *path_of_rank(const char *path, int rank) {
  const char *at = strstr(path, RANK);
  char *out = xmalloc(strlen(path) + 16);
  if (at)
    sprintf(out, "%.*s%d%s", (int)(at - path), path, rank, at + strlen(RANK));
  else
    strcpy(out, path);
  return out;
}

/* Adds the groups that `rank` is the first of: the others of a group have the same to say. */
static int add_rank(struct timeline *to, const char *path, int rank, struct err *err) {
  struct timeline t;
  char *file = path_of_rank(path, rank);
  int rc = timeline_read(&t, file, err) < 0 ? -1 : 0;
  free(file);
  if (rc)
    return -1;
  for (size_t i = 0; i < t.n; i++)
    if (t.spans[i].first_rank == rank) {
      t.spans[i].name = ""; /* is not drawn, and goes with its own timeline */
      timeline_add(to, t.spans[i]);
    }
  timeline_release(&t);
  return 0;
}

/* One file, or with {rank} in its name those of a run's ranks. */
static int record_read(struct record *r, const char *path, struct err *err) {
  char *first = path_of_rank(path, 0);
  int rc = timeline_read(&r->t, first, err) < 0 ? -1 : 0;
  free(first);
  if (rc)
    return -1;
  choose_window(&r->p, &r->t);
  if (!strstr(path, RANK))
    return 0;
  int ranks = r->p.ranks;
  for (int rank = 1; rank < ranks; rank++)
    if (add_rank(&r->t, path, rank, err))
      return -1;
  r->p = (struct picture){0};
  choose_window(&r->p, &r->t);
  return 0;
}

static int record_fill(struct record *r, const char *path, struct err *err) {
  if (add_spans(&r->p, &r->t, path, err))
    return -1;
  spread_collectives(&r->p);
  return 0;
}

static void record_release(struct record *r) {
  for (size_t i = 0; i < r->p.n; i++)
    free(r->p.blocks[i].used);
  free(r->p.blocks);
  timeline_release(&r->t);
}

/* Both show the same iterations, and the same stretch of time where that leaves the shorter one readable. */
static void agree(struct picture *a, struct picture *b) {
  int iterations = a->iterations < b->iterations ? a->iterations : b->iterations;
  struct picture *const both[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    both[i]->iterations = iterations;
    both[i]->end_ns = iterations > 0 ? both[i]->iteration_end_ns[iterations - 1] : 0;
  }
  int64_t longer = int64_max(a->end_ns, b->end_ns), shorter = int64_min(a->end_ns, b->end_ns);
  if (longer <= 4 * shorter)
    a->end_ns = b->end_ns = longer;
}

/* The second below the first. */
static void draw_two(struct gnuplot *g, const struct record r[2]) {
  static const struct panel upper = {0.80, 0.59}, lower = {0.385, 0.175};
  struct picture seen = r[0].p;
  for (int c = 0; c < TIMELINE_CATEGORIES; c++)
    seen.seen[c] |= r[1].p.seen[c];
  char run[320];
  draw_titles(g, &r[0].p, &r[0].t);
  draw_legend(g, &seen);
  fputs("set multiplot\n", g->script);
  draw_panel(g, &r[0].p, &upper);
  fputs("unset label\nunset arrow\nunset object\nset label ", g->script);
  if (strcmp(r[0].t.policy, r[1].t.policy) == 0) /* which the title names */
    snprintf(run, sizeof run, "%.200s", r[1].t.run);
  else
    snprintf(run, sizeof run, "%.32s: %.200s", r[1].t.policy, r[1].t.run);
  gnuplot_text(g->script, run, 110);
  fprintf(g->script, " at screen 0.025,0.465 left textcolor rgb '#%06X'\n", COLOUR_FAINT);
  draw_panel(g, &r[1].p, &lower);
  fputs("unset multiplot\n", g->script);
}

static void draw_one(struct gnuplot *g, const struct record *r) {
  static const struct panel whole = {0.80, 0.235};
  draw_titles(g, &r->p, &r->t);
  draw_legend(g, &r->p);
  draw_panel(g, &r->p, &whole);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  const char *second = in->n_paths > 1 ? in->paths[1] : NULL;
  struct record r[2] = {0};
  int rc = record_read(&r[0], in->path, err);
  if (rc == 0 && second)
    rc = record_read(&r[1], second, err);
  if (rc == 0 && second)
    agree(&r[0].p, &r[1].p);
  if (rc == 0)
    rc = record_fill(&r[0], in->path, err);
  if (rc == 0 && second)
    rc = record_fill(&r[1], second, err);
  if (rc == 0 && second)
    draw_two(g, r);
  else if (rc == 0)
    draw_one(g, r);
  record_release(&r[0]);
  record_release(&r[1]);
  return rc;
}

const struct plot plot_timeline = {
    .name = "timeline",
    .help = "what every group of ranks does over time, first iterations",
    .input = "a timeline of simulate or execute --timeline FILE ({rank} in its name: all ranks' of execute); of two, "
             "such as "
             "both, the second below the first",
    .takes = PLOT_TWO,
    .draw = draw,
};
