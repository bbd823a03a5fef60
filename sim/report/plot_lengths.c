/* Where samples, tokens and attention work lie by length: one group of bars per octave. */
#include <inttypes.h>
#include <math.h>

#include "sim/base/number_text.h"
#include "sim/report/plot_kinds.h"
#include "sim/report/result_view.h"

enum { OCTAVES = 63 };
#define UNSEEN 0.0005 /* share below which an octave at the ends is left out */

static const struct measure {
  const char *name, *title;
  unsigned colour;
} measures[] = {
    {"samples", "samples", COLOUR_SKY},
    {"tokens", "tokens", COLOUR_BLUE},
    {"squares", "attention work", COLOUR_VERMILLION},
};
enum { MEASURES = sizeof measures / sizeof *measures };

struct histogram {
  double value[MEASURES][OCTAVES], sum[MEASURES];
  int first, last; /* octaves shown */
  bool cut;        /* some at the ends hold too little to be seen */
  int64_t longest;
};

/* L^2 of a text; of a video its spatial and temporal attention, T*S^2 + S*T^2. */
static double attention_work(struct sample s, bool is_2d) {
  double a = s.a, b = s.b;
  return is_2d ? a * b * b + b * a * a : a * a;
}

static void fill(struct histogram *h, const struct plot_input *in) {
  *h = (struct histogram){0};
  for (int64_t i = 0; i < in->n; i++) {
    int64_t tokens = sample_tokens(in->samples[i]);
    int octave = 63 - __builtin_clzll((unsigned long long)tokens);
    double v[MEASURES] = {1, (double)tokens, attention_work(in->samples[i], in->is_2d)};
    for (int m = 0; m < MEASURES; m++) {
      h->value[m][octave] += v[m];
      h->sum[m] += v[m];
    }
    h->longest = tokens > h->longest ? tokens : h->longest;
  }
}

static bool octave_seen(const struct histogram *h, int octave, double share) {
  for (int m = 0; m < MEASURES; m++)
    if (h->value[m][octave] > share * h->sum[m])
      return true;
  return false;
}

/* Empty octaves at the ends are left out, and those with bars too low to be seen. */
static void choose_octaves(struct histogram *h) {
  for (h->first = 0; !octave_seen(h, h->first, UNSEEN); h->first++)
    h->cut |= octave_seen(h, h->first, 0);
  for (h->last = OCTAVES - 1; !octave_seen(h, h->last, UNSEEN); h->last--)
    h->cut |= octave_seen(h, h->last, 0);
}

/* A power of two as people say it: 512, 32k, 1M. */
static void write_tic(FILE *f, int octave) {
  static const char *const suffixes[] = {"", "k", "M", "G", "T", "P", "E"};
  fprintf(f, "'%d%s' %d", 1 << octave % 10, suffixes[octave / 10], octave);
}

static double write_bars(struct gnuplot *g, const struct histogram *h) {
  double highest = 0, width = 0.84 / MEASURES;
  for (int m = 0; m < MEASURES; m++) {
    fprintf(g->script, "$%s << EOD\n", measures[m].name);
    for (int o = h->first; o <= h->last; o++) {
      double percent = 100 * h->value[m][o] / h->sum[m], left = o + 0.08 + m * width;
      fprintf(g->script, "%.9g %.9g %.9g %.9g 0 %.9g\n", left + width / 2, percent / 2, left, left + width, percent);
      highest = fmax(highest, percent);
    }
    fputs("EOD\n", g->script);
  }
  return highest;
}

static void draw_legend(struct gnuplot *g, bool is_2d) {
  struct legend_entry entries[MEASURES];
  for (int m = 0; m < MEASURES; m++)
    entries[m] = (struct legend_entry){measures[m].colour, measures[m].title};
  entries[MEASURES - 1].text =
      is_2d ? "attention work (T\xc2\xb7S\xc2\xb2 + S\xc2\xb7T\xc2\xb2)" : "attention work (length\xc2\xb2)";
  gnuplot_legend(g, entries, MEASURES, 0.07, 0.815, false);
}

static int draw(const struct plot_input *in, struct gnuplot *g, struct err *err) {
  struct histogram h;
  char subtitle[256];
  if (in->n == 0)
    return err_set(err, "trace '%s' holds no samples", in->trace_name);
  fill(&h, in);
  choose_octaves(&h);
  snprintf(subtitle, sizeof subtitle, "%.60s: %s samples, %s tokens, longest %s", in->trace_name,
           grouped_text(in->n).text, grouped_text((int64_t)h.sum[1]).text, grouped_text(h.longest).text);
  gnuplot_title(g, "Share of samples, tokens and attention work by length", subtitle);
  double highest = write_bars(g, &h);
  draw_legend(g, in->is_2d);
  fprintf(g->script,
          "set xrange [%d:%d]\nset yrange [0:%.9g]\nset tmargin screen 0.765\nset grid noxtics ytics\n"
          "set ylabel 'share (%%)'\nset xlabel 'tokens per sample, by octave (k = 1024)%s'\nset xtics (",
          h.first, h.last + 1, highest * 1.05, h.cut ? "; octaves under 0.05 % at the ends not shown" : "");
  for (int o = h.first; o <= h.last + 1; o++) {
    fputs(o > h.first ? ", " : "", g->script);
    write_tic(g->script, o);
  }
  fputs(")\nplot ", g->script);
  for (int m = 0; m < MEASURES; m++)
    fprintf(g->script, "%s$%s using 1:2:3:4:5:6 with boxxyerror lc rgb '#%06X'", m ? ", " : "", measures[m].name,
            measures[m].colour);
  fputs("\n", g->script);
  return 0;
}

const struct plot plot_lengths = {
    .name = "lengths",
    .help = "share of samples, tokens and attention work by octave of length",
    .input = "a length trace: a shipped name or a file",
    .takes = PLOT_TRACE,
    .draw = draw,
};
