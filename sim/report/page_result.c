/* One result: bars, tables, figures, uncertainty, inputs, command. */
#include <math.h>
#include <string.h>

#include "sim/base/number_text.h"
#include "sim/base/units.h"
#include "sim/report/html.h"
#include "sim/report/page_parts.h"
#include "sim/report/plot_kinds.h"

/* ---- Tables: a column each ---- */

enum column_kind { COLUMN_COUNT, COLUMN_SI, COLUMN_SECONDS, COLUMN_PERCENT, COLUMN_GIB, COLUMN_REAL, COLUMN_SPEEDUP };

struct column {
  const char *title, *hint;
  const char *object, *key; /* of a policy; object NULL: its own */
  enum column_kind kind;
};

static const struct column throughput[] = {
    {"tokens/s", "real tokens, without padding", NULL, "tokens_per_s", COLUMN_SI},
    {"speedup", "tokens/s over the baseline's; in brackets its range", NULL, "speedup", COLUMN_SPEEDUP},
    {"tokens/step", "real tokens of an optimizer step", NULL, "tokens_per_step", COLUMN_SI},
    {"steps", "optimizer steps", NULL, "steps", COLUMN_COUNT},
    {"step mean", NULL, "step_time_s", "mean", COLUMN_SECONDS},
    {"step p95", NULL, "step_time_s", "p95", COLUMN_SECONDS},
    {"time", "simulated training time", NULL, "time_s", COLUMN_SECONDS},
    {"GPU hours", NULL, NULL, "gpu_hours", COLUMN_REAL},
    {"SP", "sequence-parallel degree, where the policy has one", NULL, "sp", COLUMN_COUNT},
    {"peak GiB", "memory of the fullest GPU", NULL, "peak_memory_bytes", COLUMN_GIB},
    {"above bound", "time above a bound that no policy can beat", NULL, "bound_gap_frac", COLUMN_PERCENT},
};

static const struct column times[] = {
    {"compute", "useful work", "share", "compute", COLUMN_PERCENT},
    {"padding", "work on padding", "share", "padding", COLUMN_PERCENT},
    {"recompute", "activations computed again in backward", "share", "recompute", COLUMN_PERCENT},
    {"SP exchange", "sequence-parallel communication not hidden by compute", "share", "sp_exchange", COLUMN_PERCENT},
    {"gradient sync", "gradient communication not hidden by compute", "share", "grad_sync", COLUMN_PERCENT},
    {"optimizer", NULL, "share", "optimizer", COLUMN_PERCENT},
    {"host", "GPU waits for the CPU", "share", "host", COLUMN_PERCENT},
    {"idle", "waiting for slower ranks", "share", "idle", COLUMN_PERCENT},
    {"padded tokens", "of the tokens processed", NULL, "padding_frac", COLUMN_PERCENT},
    {"imbalance", "of step time, lost to the slowest rank", NULL, "imbalance_frac", COLUMN_PERCENT},
    {"MFU", "model FLOP/s over the GPU's peak", NULL, "mfu_frac", COLUMN_PERCENT},
    {"HFU", "the same with recomputation", NULL, "hfu_frac", COLUMN_PERCENT},
};

static const struct column samples[] = {
    {"trained", "samples", NULL, "samples", COLUMN_COUNT},
    {"dropped", "by the policy's rule", NULL, "samples_dropped", COLUMN_COUNT},
    {"infeasible", "fit on no group of GPUs", NULL, "samples_infeasible", COLUMN_COUNT},
    {"overlong", "over --max-length", NULL, "samples_overlong", COLUMN_COUNT},
    {"cut", "truncated or split", NULL, "samples_cut", COLUMN_COUNT},
    {"remaining", "not reached in the steps asked for", NULL, "samples_remaining", COLUMN_COUNT},
    {"samples/step", "mean", "samples_per_step", "mean", COLUMN_SI},
    {"its CV", "standard deviation over mean", "samples_per_step", "cv", COLUMN_REAL},
    {"weight CV, samples", "of the gradient weight of a sample; 0: all weigh the same", "weight_cv", "sample",
     COLUMN_REAL},
    {"weight CV, tokens", "of the gradient weight of a token", "weight_cv", "token", COLUMN_REAL},
};

static void speedup_text(const struct result_policy *p, char *buf, size_t size) {
  int n = snprintf(buf, size, "%.2f\xc3\x97", p->speedup);
  if (p->speedup_low < p->speedup_high)
    snprintf(buf + n, size - (size_t)n, " (%.2f\xe2\x81\xa0\xe2\x80\x93\xe2\x81\xa0%.2f)%s", p->speedup_low,
             p->speedup_high, p->speedup_low < 1 && p->speedup_high > 1 ? " ?" : "");
}

static void value_text(const struct column *c, const struct result_policy *p, double v, char *buf, size_t size) {
  if (c->kind == COLUMN_SPEEDUP)
    speedup_text(p, buf, size);
  else if (c->kind == COLUMN_PERCENT)
    snprintf(buf, size, "%.1f %%", 100 * v);
  else if (c->kind == COLUMN_GIB)
    snprintf(buf, size, "%.1f", v / GIB_BYTES);
  else if (c->kind == COLUMN_REAL)
    snprintf(buf, size, "%.2f", v);
  else if (c->kind == COLUMN_COUNT && fabs(v) < 1e15)
    snprintf(buf, size, "%s", grouped_text(llround(v)).text);
  else
    snprintf(buf, size, "%s", (c->kind == COLUMN_SI ? si_text(v) : duration_text(v)).text);
}

static int write_cell(FILE *out, const struct page_input *in, const struct column *c, const struct result_policy *p,
                      const json_t *policy, struct err *err) {
  double v = 0;
  char text[64];
  json_t *object = NULL;
  if (c->object && json_get_object(&in->doc, policy, c->object, true, &object, err) < 0)
    return -1;
  const json_t *of = object ? object : policy;
  if (json_is_null(json_object_get(of, c->key))) {
    html_number(out, -1, "\xe2\x80\x93");
    return 0;
  }
  if (json_get_double(&in->doc, of, c->key, true, -1e300, 1e300, &v, err) < 0)
    return -1;
  value_text(c, p, v, text, sizeof text);
  html_number(out, v, text);
  return 0;
}

static int write_table(FILE *out, const struct page_input *in, const char *caption, const struct column *columns, int n,
                       struct err *err) {
  const json_t *policies = json_object_get(in->doc.root, "policies");
  html_table_begin(out, caption);
  html_th(out, "policy", NULL);
  for (int c = 0; c < n; c++)
    html_th(out, columns[c].title, columns[c].hint);
  html_table_rows(out);
  for (int i = 0; i < in->view.n; i++) {
    const struct result_policy *p = &in->view.policies[i];
    html_row_begin(out);
    html_row_name(out, p->name);
    for (int c = 0; c < n; c++)
      if (write_cell(out, in, &columns[c], p, json_array_get(policies, (size_t)i), err) < 0)
        return -1;
    html_row_end(out);
  }
  html_table_end(out);
  return 0;
}

#define WRITE_TABLE(out, in, caption, columns, err)                                                                    \
  write_table(out, in, caption, columns, (int)(sizeof columns / sizeof *columns), err)

/* ---- Bars: the first thing seen, on any width ---- */

static void write_bars(FILE *out, const struct result_view *v) {
  double max = 0;
  char text[64];
  for (int i = 0; i < v->n; i++)
    max = fmax(max, fmax(v->policies[i].speedup, v->policies[i].speedup_high));
  fputs("<ul class=\"bars\">\n", out);
  for (int i = 0; i < v->n && max > 0; i++) {
    const struct result_policy *p = &v->policies[i];
    speedup_text(p, text, sizeof text);
    fputs("<li><span class=\"name\">", out);
    html_text(out, p->name);
    fprintf(out, "</span><span class=\"track\"><span class=\"bar\" style=\"width:%.2f%%\"></span>",
            100 * p->speedup / max);
    if (p->speedup_low < p->speedup_high)
      fprintf(out, "<span class=\"range\" style=\"left:%.2f%%;width:%.2f%%\"></span>", 100 * p->speedup_low / max,
              100 * (p->speedup_high - p->speedup_low) / max);
    fputs("</span><span class=\"value\">", out);
    html_text(out, text);
    fputs("</span></li>\n", out);
  }
  fputs("</ul>\n", out);
}

/* ---- Uncertainty ---- */

static int write_uncertainty(FILE *out, const struct page_input *in, struct err *err) {
  json_t *options;
  int64_t seeds = 1, draws = 0, seed = 0;
  bool any = false, spans = false;
  if (json_get_object(&in->doc, in->doc.root, "options", true, &options, err) < 0 ||
      json_get_int(&in->doc, options, "seeds", false, 0, INT64_MAX, &seeds, err) < 0 ||
      json_get_int(&in->doc, options, "draws", false, 0, INT64_MAX, &draws, err) < 0 ||
      json_get_int(&in->doc, in->doc.root, "seed", true, 0, INT64_MAX, &seed, err) < 0)
    return -1;
  for (int i = 0; i < in->view.n; i++) {
    const struct result_policy *p = &in->view.policies[i];
    any = any || p->speedup_low < p->speedup_high;
    spans = spans || (p->speedup_low < 1 && p->speedup_high > 1);
  }
  fputs("<h3>Uncertainty</h3>\n<p>", out);
  if (!any)
    fputs("The result has no ranges: one order of samples, parameters as fitted. <code>--seeds 5</code> and "
          "<code>--draws 8</code> give them.",
          out);
  else
    html_printf(out, "A range in brackets is the lowest and highest speedup over ");
  if (any && draws > 0)
    html_printf(out, "%lld draws that move every fitted quantity by its own fit error%s", (long long)draws,
                seeds > 1 ? " and " : ".");
  if (any && seeds > 1)
    html_printf(out, "%lld orders of the samples.", (long long)seeds);
  html_printf(out, " Seed %lld.", (long long)seed);
  if (spans)
    fputs(" A range marked ? spans 1: no difference is shown.", out);
  fputs(" Errors of the model itself are not in it: see <a href=\"#trust\">how far to trust these numbers</a>.</p>\n",
        out);
  return 0;
}

/* ---- Inputs ---- */

static int write_facts(FILE *out, const struct page_input *in, struct err *err) {
  json_t *trace, *params;
  const char *name, *model, *cluster, *file, *sha256, *version;
  int64_t n_samples, tokens;
  const struct json_doc *doc = &in->doc;
  if (json_get_object(doc, doc->root, "trace", true, &trace, err) < 0 ||
      json_get_string(doc, trace, "name", true, &name, err) < 0 ||
      json_get_int(doc, trace, "samples", true, 0, INT64_MAX, &n_samples, err) < 0 ||
      json_get_int(doc, trace, "tokens", true, 0, INT64_MAX, &tokens, err) < 0 ||
      json_get_string(doc, doc->root, "model", true, &model, err) < 0 ||
      json_get_string(doc, doc->root, "cluster", true, &cluster, err) < 0 ||
      json_get_object(doc, doc->root, "params", true, &params, err) < 0 ||
      json_get_string(doc, params, "file", true, &file, err) < 0 ||
      json_get_string(doc, params, "sha256", true, &sha256, err) < 0 ||
      json_get_string(doc, doc->root, "version", true, &version, err) < 0)
    return -1;
  fputs("<dl class=\"facts\">\n<div><dt>trace</dt><dd>", out);
  html_printf(out, "%s: %s samples, %s tokens", name, grouped_text(n_samples).text, grouped_text(tokens).text);
  fputs("</dd></div><div><dt>model</dt><dd>", out);
  html_text(out, model);
  fputs("</dd></div><div><dt>cluster</dt><dd>", out);
  html_printf(out, "%s: %lld GPUs", cluster, (long long)in->view.gpus);
  fputs("</dd></div><div><dt>parameters</dt><dd>", out);
  html_printf(out, "%s, sha256 %.12s\xe2\x80\xa6", file, sha256);
  fputs("</dd></div><div><dt>simulated by</dt><dd>", out);
  html_printf(out, "dcpsim %s", version);
  fputs("</dd></div><div><dt>result</dt><dd>", out);
  html_text(out, in->path);
  fputs("</dd></div>\n</dl>\n", out);
  return 0;
}

static int write_inputs(FILE *out, const struct page_input *in, struct err *err) {
  fputs("<h3>Inputs</h3>\n", out);
  if (write_facts(out, in, err) < 0 || page_options(out, in, err) < 0)
    return -1;
  fputs("<h3>Run it again</h3>\n<pre class=\"command\"><code>", out);
  if (page_command(out, in, err) < 0)
    return -1;
  fputs("</code></pre>\n", out);
  return 0;
}

int page_result(struct page *page, const struct page_input *in, struct err *err) {
  FILE *out = page->out;
  struct plot_input plot = {.path = in->path, .paths = &in->path, .n_paths = 1};
  bool histogram = false;
  for (int i = 0; i < in->view.n; i++)
    for (int d = 0; d < RESULT_MAX_SPS; d++)
      histogram = histogram || in->view.policies[i].sp_frac[d] > 0;
  if (page_findings(out, in, err) < 0 || page_advice(out, in, err) < 0)
    return -1;
  write_bars(out, &in->view);
  if (WRITE_TABLE(out, in, "Throughput", throughput, err) < 0 ||
      WRITE_TABLE(out, in, "Where the GPUs\xe2\x80\x99 time goes", times, err) < 0 ||
      page_figure(page, &plot_speedup, &plot, "Throughput by policy, and shares of the GPUs\xe2\x80\x99 time.", err) <
          0 ||
      page_figure(page, &plot_imbalance, &plot, "Time lost to the slowest rank, and padded tokens.", err) < 0)
    return -1;
  if (histogram && page_figure(page, &plot_sp_histogram, &plot,
                               "Share of real tokens run at each sequence-parallel degree.", err) < 0)
    return -1;
  if (WRITE_TABLE(out, in, "What became of the samples, and how they weigh", samples, err) < 0 ||
      write_uncertainty(out, in, err) < 0)
    return -1;
  return write_inputs(out, in, err);
}
