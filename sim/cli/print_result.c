#include "sim/cli/print_result.h"

#include <string.h>

#include "sim/base/number_text.h"
#include "sim/base/units.h"

static void print_title(FILE *out, const struct experiment *x) {
  fprintf(out, "%s (%s samples, %s tokens) on %s, %s (%d GPUs), seed %lld\n", x->trace.name,
          grouped_text(x->trace_samples).text, grouped_text(x->trace_tokens).text, x->model.name, x->cluster.name,
          system_world(&x->system), (long long)x->options.seed);
  fprintf(out, "memory cap %.1f GiB (%g of device memory), parameters %s", (double)x->memory_cap_bytes / GIB_BYTES,
          x->options.memory_cap_frac, params_name(x->params));
  fprintf(out, "%s%s\n\n", *x->differences ? "; " : "", x->differences);
}

static double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

static int64_t tokens_left_out(const struct policy_result *r) {
  return r->tokens_dropped + r->tokens_infeasible + r->tokens_overlong + r->tokens_cut;
}

/* "1.53x (1.47-1.60)", with a ? where the interval spans 1. */
static void speedup_text(const struct policy_result *r, char *buf, size_t size) {
  const double *interval = r->speedup_interval;
  int n = snprintf(buf, size, "%.2fx", r->speedup);
  if (interval[0] < interval[1])
    snprintf(buf + n, size - (size_t)n, " (%.2f-%.2f)%s", interval[0], interval[1],
             interval[0] < 1 && interval[1] > 1 ? "?" : " ");
}

static void print_throughput(FILE *out, const struct experiment *x, const struct policy_result *results) {
  fprintf(out, "%-26s %9s %-19s %11s %9s %10s %10s %10s %4s %9s %9s %10s\n", "policy", "tokens/s", "  speedup",
          "tokens/step", "steps", "step mean", "step p95", "time", "SP", "peak GiB", "> bound %", "left out %");
  for (int i = 0; i < x->n_policies; i++) {
    const struct policy_result *r = &results[i];
    char sp[16] = "-", speedup[48];
    if (r->sp > 0)
      snprintf(sp, sizeof sp, "%d", r->sp);
    speedup_text(r, speedup, sizeof speedup);
    fprintf(out, "%-26s %9s   %-17s %11s %9s %10s %10s %10s %4s %9.1f %9.1f %10.2f\n", r->name,
            si_text(r->tokens_per_s).text, speedup, si_text(r->tokens_per_step).text, grouped_text(r->steps).text,
            duration_text(r->step_time_s_mean).text, duration_text(r->step_time_s_p95).text,
            duration_text(r->time_s).text, sp, (double)r->peak_memory_bytes / GIB_BYTES, 100 * r->bound_gap_frac,
            percent((double)tokens_left_out(r), (double)x->trace_tokens));
  }
}

static void print_shares(FILE *out, const struct experiment *x, const struct policy_result *results) {
  fprintf(out, "\nTime of all ranks, %% of it                       -- communication --\n");
  fprintf(out, "%-26s %7s %8s %10s %9s %10s %10s %6s %6s   %15s %11s %6s %6s\n", "policy", "compute", "padding",
          "recompute", "SP exch.", "grad sync", "optimizer", "host", "idle", "padded tokens %", "imbalance %", "MFU %",
          "HFU %");
  for (int i = 0; i < x->n_policies; i++) {
    const struct policy_result *r = &results[i];
    const double *s = r->share;
    fprintf(out, "%-26s %7.1f %8.1f %10.1f %9.1f %10.1f %10.1f %6.1f %6.1f   %15.1f %11.1f %6.1f %6.1f\n", r->name,
            100 * s[SHARE_COMPUTE], 100 * s[SHARE_PADDING], 100 * s[SHARE_RECOMPUTE], 100 * s[SHARE_SP_EXCHANGE],
            100 * s[SHARE_GRAD_SYNC], 100 * s[SHARE_OPTIMIZER], 100 * s[SHARE_HOST], 100 * s[SHARE_IDLE],
            100 * r->padding_frac, 100 * r->imbalance_frac, 100 * r->mfu_frac, 100 * r->hfu_frac);
  }
}

/* ---- Notes ---- */

/* ": 1, 2, 3, ..." */
static void print_ids(FILE *out, const uint32_t *ids, int n, int64_t total) {
  for (int i = 0; i < n; i++)
    fprintf(out, "%s %u", i ? "," : ":", ids[i]);
  fprintf(out, "%s\n", n < total ? ", ..." : "");
}

static void note_left_out(FILE *out, const struct experiment *x, const struct policy_result *r, const char *what,
                          int64_t samples, int64_t tokens, const struct named_ids *ids) {
  if (samples == 0)
    return;
  fprintf(out, "  %s: %s %s (%.2f %% of tokens)", r->name, grouped_text(samples).text, what,
          percent((double)tokens, (double)x->trace_tokens));
  print_ids(out, ids->v, ids->n, samples);
}

static void note_sp(FILE *out, const struct experiment *x, const struct policy_result *r) {
  if (r->sp == 0 || x->options.sp > 0)
    return;
  fprintf(out, "  %s: SP %d ", r->name, r->sp);
  if (r->sp_runner_up)
    fprintf(out, "is best; runner-up SP %d with %s tokens/s", r->sp_runner_up,
            si_text(r->sp_runner_up_tokens_per_s).text);
  else
    fprintf(out,
            r->sp_holds_all ? "is the only one that holds every sample" : "holds most tokens, none holds every sample");
  if (r->batch)
    fprintf(out, "; batch %lld", (long long)r->batch);
  if (r->pack_tokens)
    fprintf(out, "; packs of up to %s tokens", grouped_text(r->pack_tokens).text);
  fprintf(out, "\n");
}

static void note_policy(FILE *out, const struct experiment *x, const struct policy_result *r) {
  note_sp(out, x, r);
  note_left_out(out, x, r, "samples dropped", r->samples_dropped, r->tokens_dropped, &r->dropped);
  note_left_out(out, x, r, "samples infeasible", r->samples_infeasible, r->tokens_infeasible, &r->infeasible);
  if (r->samples_remaining > 0)
    fprintf(out, "  %s: %s samples remain (--steps %lld)\n", r->name, grouped_text(r->samples_remaining).text,
            (long long)x->options.steps);
  bool given = policy_find(r->name, NULL)->flags & POLICY_GIVEN;
  if (r->steps_over_tokens > 0)
    fprintf(out, "  %s: %s steps exceed --tokens-per-step even so; %s smaller\n", r->name,
            grouped_text(r->steps_over_tokens).text,
            given            ? "the trace's batches are to be made"
            : r->pack_tokens ? "--pack-tokens N makes micro-batches"
                             : "--batch N makes micro-batches");
}

static void note_interval(FILE *out, const struct experiment *x, const struct policy_result *results) {
  bool any = false;
  for (int i = 0; i < x->n_policies; i++)
    any = any || results[i].speedup_interval[0] < results[i].speedup_interval[1];
  if (!any)
    return;
  fprintf(out, "  (low-high):");
  if (x->options.draws > 0)
    fprintf(out, " every fitted quantity moved by its own fit error, %lld draws;", (long long)x->options.draws);
  if (x->options.seeds > 1)
    fprintf(out, " %lld shuffles;", (long long)x->options.seeds);
  fprintf(out, " ? marks an interval that spans 1: no difference shown\n");
}

static bool differ_in_samples(const struct experiment *x, const struct policy_result *results) {
  for (int i = 1; i < x->n_policies; i++)
    if (results[i].tokens != results[0].tokens)
      return true;
  return false;
}

static void print_notes(FILE *out, const struct experiment *x, const struct policy_result *results) {
  fprintf(out, "\nNotes\n  tokens are real tokens, without padding; speedup is tokens/s over %s's\n",
          results[x->baseline].name);
  note_interval(out, x, results);
  if (x->trace.skipped_bad > 0)
    fprintf(out, "  %s bad values of the trace skipped\n", grouped_text(x->trace.skipped_bad).text);
  if (x->samples_overlong > 0) {
    fprintf(out, "  %s samples overlong: over %lld tokens (%.2f %% of tokens)", grouped_text(x->samples_overlong).text,
            (long long)x->options.max_length, percent((double)x->tokens_overlong, (double)x->trace_tokens));
    print_ids(out, x->overlong_ids, (int)int64_min(NAMED_IDS, x->samples_overlong), x->samples_overlong);
  }
  if (x->samples_cut > 0)
    fprintf(out, "  %s samples truncated to %lld tokens (%.2f %% of tokens cut)\n", grouped_text(x->samples_cut).text,
            (long long)x->options.max_length, percent((double)x->tokens_cut, (double)x->trace_tokens));
  for (int i = 0; i < x->n_policies; i++)
    note_policy(out, x, &results[i]);
  if (differ_in_samples(x, results))
    fprintf(out, "  policies ran different samples: compare tokens/s with that in mind\n");
  if (x->options.zero == 3)
    fprintf(out, "  zero 3: all ranks gather each layer together, so accumulation cannot balance groups\n");
}

void print_results(FILE *out, const struct experiment *x, const struct policy_result *results) {
  print_title(out, x);
  print_throughput(out, x, results);
  print_shares(out, x, results);
  print_notes(out, x, results);
}

/* ---- Explanation of one step ---- */

#define MAX_GROUP_LINES 16

static void print_ops(FILE *out, const struct explain_op *ops, size_t n, int64_t step_ns) {
  static const char *const streams[] = {"compute", "exchange", "sync"};
  for (size_t i = 0; i < n; i++)
    fprintf(out, "    %-26s %-9s %-12s %9s %12.3f %8.2f\n", ops[i].name, streams[ops[i].stream],
            timeline_category_name(ops[i].category), grouped_text(ops[i].count).text, (double)ops[i].ns / 1e6,
            100 * (double)ops[i].ns / (double)step_ns);
}

static void print_op_head(FILE *out) {
  fprintf(out, "    %-26s %-9s %-12s %9s %12s %8s\n", "operation", "stream", "counts as", "count", "total ms",
          "% of step");
}

static bool alike(const struct explain_group *a, const struct explain_group *b) {
  return a->sp == b->sp && a->micro_batches == b->micro_batches && a->end_ns == b->end_ns &&
         strcmp(a->shapes, b->shapes) == 0;
}

/* A line per kind of group. */
static void print_groups(FILE *out, const struct explain *e) {
  fprintf(out, "    %6s %4s %13s %8s %12s %10s %12s  %s\n", "groups", "SP", "micro-batches", "samples", "tokens",
          "longest", "end (ms)", "first micro-batch: samples x padded length");
  for (int i = 0, n, line = 0; i < e->n_groups; i += n) {
    const struct explain_group *g = &e->groups[i];
    int64_t samples = 0, tokens = 0, longest = 0;
    for (n = 0; i + n < e->n_groups && alike(g, &g[n]); n++) {
      samples += g[n].samples;
      tokens += g[n].tokens;
      longest = int64_max(longest, g[n].longest_tokens);
    }
    if (line++ == MAX_GROUP_LINES) {
      fprintf(out, "    ... and %d groups that end earlier (--json has all)\n", e->n_groups - i);
      return;
    }
    fprintf(out, "    %6d %4d %13lld %8s %12s %10s %12.3f  %s\n", n, g->sp, (long long)g->micro_batches,
            grouped_text(samples).text, grouped_text(tokens).text, grouped_text(longest).text, (double)g->end_ns / 1e6,
            g->shapes);
  }
}

void print_explain(FILE *out, const struct policy_result *r, const struct explain *e) {
  if (e->n_groups == 0)
    return;
  const struct explain_group *slowest = &e->groups[0], *quickest = &e->groups[e->n_groups - 1];
  fprintf(out, "\n%s: step %lld, the median one, takes %.3f ms; peak memory %.1f GiB first in step %lld\n", r->name,
          (long long)e->step, (double)e->step_ns / 1e6, (double)r->peak_memory_bytes / GIB_BYTES,
          (long long)r->peak_memory_step);
  fprintf(out,
          "  %.3f ms until the slowest group ends (the quickest ends at %.3f), then %.3f ms of gradient "
          "synchronisation and optimizer\n",
          (double)slowest->end_ns / 1e6, (double)quickest->end_ns / 1e6, (double)e->sync_after_ns / 1e6);
  fprintf(out, "  groups, the slowest first\n");
  print_groups(out, e);
  fprintf(out, "  each rank of the slowest group, ranks %d-%d\n", slowest->first_rank,
          slowest->first_rank + slowest->sp - 1);
  print_op_head(out);
  print_ops(out, slowest->ops, slowest->n_ops, e->step_ns);
  fprintf(out, "  all ranks together (what overlaps compute included)\n");
  print_ops(out, e->step_ops, e->n_step_ops, e->step_ns);
}
