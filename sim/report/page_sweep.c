/* One sweep: which policy wins where, curves, heat map, all points. */
#include <stdlib.h>

#include "sim/base/number_text.h"
#include "sim/base/sorted.h"
#include "sim/base/units.h"
#include "sim/report/html.h"
#include "sim/report/page_parts.h"
#include "sim/report/plot_kinds.h"

#define MAX_ROWS 2000 /* of the table: more are no reading matter */

/* The policy with most tokens per second of the rows from `first`, which are of one point; *end: past them. */
static int winner(const struct sweep_view *v, size_t first, size_t *end) {
  size_t best = first, i = first;
  for (; i < v->n_rows && v->rows[i].point == v->rows[first].point; i++)
    if (v->rows[i].tokens_per_s > v->rows[best].tokens_per_s)
      best = i;
  *end = i;
  return v->rows[best].policy;
}

void page_sweep_headline(FILE *out, const struct page_input *in) {
  const struct sweep_view *v = &in->sweep;
  int wins[SWEEP_VIEW_POLICIES] = {0}, points = 0, most = 0;
  for (size_t i = 0; i < v->n_rows; points++)
    wins[winner(v, i, &i)]++;
  for (int p = 1; p < v->n_policies; p++)
    if (wins[p] > wins[most])
      most = p;
  html_printf(out, "%s is fastest at %d of %d points", v->policies[most], wins[most], points);
}

static void write_policies(FILE *out, const struct sweep_view *v) {
  int wins[SWEEP_VIEW_POLICIES] = {0};
  double *speedups = xmalloc(size_mul(v->n_rows, sizeof *speedups));
  char text[64];
  for (size_t i = 0; i < v->n_rows;)
    wins[winner(v, i, &i)]++;
  html_table_begin(out, "Policies over all points");
  html_th(out, "policy", NULL);
  html_th(out, "fastest at", "points where it has most tokens/s");
  html_th(out, "lowest speedup", NULL);
  html_th(out, "median speedup", NULL);
  html_th(out, "highest speedup", NULL);
  html_table_rows(out);
  for (int p = 0; p < v->n_policies; p++) {
    size_t n = 0;
    for (size_t i = 0; i < v->n_rows; i++)
      if (v->rows[i].policy == p)
        speedups[n++] = v->rows[i].speedup;
    sort_doubles(speedups, n);
    const double shown[3] = {speedups[0], (speedups[(n - 1) / 2] + speedups[n / 2]) / 2, speedups[n - 1]};
    html_row_begin(out);
    html_row_name(out, v->policies[p]);
    html_number(out, wins[p], grouped_text(wins[p]).text);
    for (int k = 0; k < 3; k++) {
      snprintf(text, sizeof text, "%.2f\xc3\x97", shown[k]);
      html_number(out, shown[k], text);
    }
    html_row_end(out);
  }
  html_table_end(out);
  free(speedups);
}

static void write_row(FILE *out, const struct sweep_view *v, const struct sweep_row *row) {
  char text[64];
  html_row_begin(out);
  html_row_name(out, v->policies[row->policy]);
  for (int f = 0; f < v->n_fields; f++) {
    const struct swept_field *field = &v->fields[f];
    const char *value = field->values[row->value[f]];
    if (field->numbers)
      html_number(out, field->numbers[row->value[f]], value);
    else
      html_cell(out, value);
  }
  html_number(out, row->tokens_per_s, si_text(row->tokens_per_s).text);
  snprintf(text, sizeof text, "%.2f\xc3\x97", row->speedup);
  html_number(out, row->speedup, text);
  snprintf(text, sizeof text, "%.1f %%", 100 * row->imbalance_frac);
  html_number(out, row->imbalance_frac, row->imbalance_frac < 0 ? "\xe2\x80\x93" : text);
  html_row_end(out);
}

static void write_rows(FILE *out, const struct sweep_view *v) {
  if (v->n_rows > MAX_ROWS) {
    html_printf(out, "The table has %s rows, too many to list here; the plots show them all.",
                grouped_text((int64_t)v->n_rows).text);
    return;
  }
  fputs("<details><summary>All points</summary>\n", out);
  html_table_begin(out, "All points");
  html_th(out, "policy", NULL);
  for (int f = 0; f < v->n_fields; f++)
    (v->fields[f].numbers ? html_th : html_th_text)(out, v->fields[f].name, "swept field");
  html_th(out, "tokens/s", NULL);
  html_th(out, "speedup", NULL);
  html_th(out, "imbalance", "of step time, lost to the slowest rank");
  html_table_rows(out);
  for (size_t i = 0; i < v->n_rows; i++)
    write_row(out, v, &v->rows[i]);
  html_table_end(out);
  fputs("</details>\n", out);
}

static bool has_sizes(const struct sweep_view *v) {
  bool several = false;
  for (size_t i = 0; i < v->n_rows; i++) {
    if (v->rows[i].gpus == 0 || v->rows[i].imbalance_frac < 0)
      return false;
    several = several || v->rows[i].gpus != v->rows[0].gpus;
  }
  return several;
}

int page_sweep(struct page *page, const struct page_input *in, struct err *err) {
  const struct sweep_view *v = &in->sweep;
  struct plot_input plot = {.path = in->path, .paths = &in->path, .n_paths = 1};
  int axes[2];
  sweep_view_axes(v, axes);
  fputs("<p class=\"findings\">", page->out);
  html_printf(page->out, "Table %s: %s runs, swept", in->path, grouped_text((int64_t)v->n_rows).text);
  for (int f = 0; f < v->n_fields; f++)
    html_printf(page->out, "%s %s (%zu values)", f ? "," : "", v->fields[f].name, v->fields[f].n);
  if (v->failed > 0)
    html_printf(page->out, "; %s points failed", grouped_text(v->failed).text);
  fputs(".</p>\n", page->out);
  write_policies(page->out, v);
  if (axes[0] >= 0 &&
      page_figure(page, &plot_sweep_curves, &plot, "Throughput over the swept field with most values.", err) < 0)
    return -1;
  if (axes[1] >= 0 && page_figure(page, &plot_sweep_heatmap, &plot, "Which policy wins where.", err) < 0)
    return -1;
  if (has_sizes(v) && page_figure(page, &plot_imbalance_gpus, &plot, "Imbalance against the number of GPUs.", err) < 0)
    return -1;
  write_rows(page->out, v);
  return 0;
}
