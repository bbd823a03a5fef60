/* The "advice" object of a result. */
#include <string.h>

#include "sim/experiment/advice.h"

static double per_billion(const struct policy_result *r) {
  return r->tokens > 0 ? r->gpu_hours / (double)r->tokens * 1e9 : 0;
}

static void write_sp(struct json_writer *w, const struct policy_result *r) {
  json_key(w, "sp");
  if (r->sp > 0)
    json_int(w, r->sp);
  else
    json_put_null(w);
}

static void write_interval(struct json_writer *w, const char *key, const double interval[2]) {
  json_key(w, key);
  json_begin_array(w);
  json_double(w, interval[0]);
  json_double(w, interval[1]);
  json_end_array(w);
}

static void write_throughput(struct json_writer *w, const struct policy_result *r) {
  json_key_str(w, "name", r->name);
  write_sp(w, r);
  json_key_double(w, "tokens_per_s", r->tokens_per_s);
  json_key_double(w, "tokens_per_s_per_gpu", r->tokens_per_s_per_gpu);
  json_key_double(w, "tokens_per_step", r->tokens_per_step);
  json_key_double(w, "gpu_hours", r->gpu_hours);
  json_key_double(w, "gpu_hours_per_billion_tokens", per_billion(r));
}

static const char *rule_name(const struct advice *a, const struct experiment *x) {
  static const char *const names[] = {
      [RECOMPUTE_FULL] = "full", [RECOMPUTE_NONE] = "none", [RECOMPUTE_ADAPTIVE] = "adaptive"};
  return a->use_extra < 0                     ? names[experiment_fit(x, x->policies[a->use]).recompute]
         : a->use_extra == EXTRA_NO_RECOMPUTE ? "none"
                                              : "adaptive";
}

static void write_use(struct json_writer *w, const struct advice *a, const struct experiment *x,
                      const struct policy_result *results) {
  const struct policy_result *r = advice_used(a, results);
  json_key(w, "use");
  json_begin_object(w);
  write_throughput(w, r);
  json_key_double(w, "speedup",
                  results[x->baseline].tokens_per_s > 0 ? r->tokens_per_s / results[x->baseline].tokens_per_s : 0);
  json_key_str(w, "recompute", rule_name(a, x));
  json_key_int(w, "batch", r->batch);
  json_key_int(w, "pack_tokens", r->pack_tokens);
  json_key_int(w, "gpus", system_world(&x->system));
  json_key_double(w, "left_out_frac",
                  x->trace_tokens > 0 ? (double)(r->tokens_dropped + r->tokens_infeasible) / (double)x->trace_tokens
                                      : 0);
  json_key_str(w, "command", a->use_command);
  json_end_object(w);
}

/* The fastest policy of the experiment against each other one. */
static void write_leads(struct json_writer *w, const struct experiment *x, const struct policy_result *results) {
  const int fastest = advice_fastest(x, results);
  json_key(w, "fastest");
  json_begin_object(w);
  write_throughput(w, &results[fastest]);
  json_key(w, "leads");
  json_begin_array(w);
  for (int i = 0; i < x->n_policies; i++) {
    const struct policy_result *r = &results[i];
    if (i == fastest || !(r->tokens_per_s > 0))
      continue;
    json_begin_object(w);
    json_key_str(w, "over", r->name);
    json_key_double(w, "lead", r->lead);
    write_interval(w, "interval", r->lead_interval);
    json_key_bool(w, "shown", advice_lead_is_shown(r));
    json_key_double(w, "tokens_per_step", r->tokens_per_step);
    json_key_bool(w, "steps_alike", advice_steps_alike(r, &results[fastest]));
    json_end_object(w);
  }
  json_end_array(w);
  json_end_object(w);
}

static void write_longest(struct json_writer *w, const struct advice *a, const struct experiment *x) {
  json_key(w, "longest_that_fits");
  json_begin_object(w);
  json_key_int(w, "of_trace", a->trace_longest);
  json_key(w, "policies");
  json_begin_array(w);
  for (int i = 0; i < x->n_policies; i++) {
    json_begin_object(w);
    json_key_str(w, "name", x->policies[i]->name);
    json_key(w, "by_sp");
    json_begin_object(w);
    for (int k = 0; k < x->n_sps; k++) {
      char sp[16];
      snprintf(sp, sizeof sp, "%d", x->sps[k]);
      json_key_int(w, sp, a->longest[i][k]);
    }
    json_end_object(w);
    json_end_object(w);
  }
  json_end_array(w);
  json_end_object(w);
}

/* tokens/s over those of the same policy without what the extra run changes. */
static double ratio_of(const struct advice *a, const struct experiment *x, const struct policy_result *results,
                       int kind, const struct policy_result *r) {
  bool from_extra = kind >= EXTRA_CUT && a->use_extra >= 0;
  const struct policy_result *before = from_extra ? a->extras[a->use_extra].results : results;
  int n = from_extra ? a->extras[a->use_extra].n : x->n_policies;
  for (int i = 0; i < n; i++)
    if (strcmp(before[i].name, r->name) == 0)
      return before[i].tokens_per_s > 0 ? r->tokens_per_s / before[i].tokens_per_s : 0;
  return 0;
}

static void write_extra(struct json_writer *w, const struct advice *a, const struct experiment *x,
                        const struct policy_result *results, int kind) {
  const struct extra_run *e = &a->extras[kind];
  json_begin_object(w);
  json_key_str(w, "kind", extra_names[kind]);
  if (!e->command) {
    json_key_str(w, "why_not", e->why_not);
    json_end_object(w);
    return;
  }
  json_key_str(w, "command", e->command);
  json_key_int(w, "gpus", e->gpus);
  if (kind == EXTRA_CUT) {
    json_key_int(w, "max_length", e->max_length);
    json_key_int(w, "samples_over", e->samples_over);
    json_key_double(w, "tokens_over_frac", (double)e->tokens_over / (double)x->trace_tokens);
  }
  if (kind == EXTRA_EQUAL_STEPS)
    json_key_int(w, "step_tokens", e->step_tokens);
  json_key(w, "policies");
  json_begin_array(w);
  for (int i = 0; i < e->n; i++) {
    const struct policy_result *r = &e->results[i];
    json_begin_object(w);
    write_throughput(w, r);
    json_key_double(w, "ratio", ratio_of(a, x, results, kind, r));
    if (kind == EXTRA_EQUAL_STEPS) {
      json_key_double(w, "speedup", r->speedup);
      write_interval(w, "speedup_interval", r->speedup_interval);
    }
    json_end_object(w);
  }
  json_end_array(w);
  json_end_object(w);
}

void advice_write_json(struct json_writer *w, const struct advice *a, const struct experiment *x,
                       const struct policy_result *results) {
  json_begin_object(w);
  write_use(w, a, x, results);
  json_key_str(w, "baseline", results[x->baseline].name);
  json_key_str(w, "against", results[a->against].name);
  json_key_bool(w, "shown", a->shown);
  json_key_double(w, "noise_frac", a->noise_frac);
  write_leads(w, x, results);
  write_longest(w, a, x);
  json_key(w, "extra_runs");
  json_begin_array(w);
  for (int i = 0; i < EXTRAS; i++)
    write_extra(w, a, x, results, i);
  json_end_array(w);
  json_end_object(w);
}
