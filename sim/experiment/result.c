#include "sim/experiment/result.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fields of a policy: one table for JSON and CSV ---- */

enum field_type { FIELD_INT, FIELD_REAL, FIELD_SP };

struct result_field {
  const char *object, *key; /* object: the nested one it belongs to, or NULL */
  enum field_type type;
  size_t offset;
};

#define AT(field) offsetof(struct policy_result, field)

static const struct result_field fields[] = {
    {NULL, "steps", FIELD_INT, AT(steps)},
    {NULL, "samples", FIELD_INT, AT(samples)},
    {NULL, "samples_dropped", FIELD_INT, AT(samples_dropped)},
    {NULL, "samples_infeasible", FIELD_INT, AT(samples_infeasible)},
    {NULL, "samples_overlong", FIELD_INT, AT(samples_overlong)},
    {NULL, "samples_remaining", FIELD_INT, AT(samples_remaining)},
    {NULL, "samples_cut", FIELD_INT, AT(samples_cut)},
    {NULL, "tokens_cut", FIELD_INT, AT(tokens_cut)},
    {NULL, "tokens", FIELD_INT, AT(tokens)},
    {NULL, "tokens_per_step", FIELD_REAL, AT(tokens_per_step)},
    {NULL, "time_s", FIELD_REAL, AT(time_s)},
    {NULL, "tokens_per_s", FIELD_REAL, AT(tokens_per_s)},
    {NULL, "tokens_per_s_per_gpu", FIELD_REAL, AT(tokens_per_s_per_gpu)},
    {NULL, "gpu_hours", FIELD_REAL, AT(gpu_hours)},
    {NULL, "speedup", FIELD_REAL, AT(speedup)},
    {"speedup_interval", "low", FIELD_REAL, AT(speedup_interval[0])}, /* an array in JSON */
    {"speedup_interval", "high", FIELD_REAL, AT(speedup_interval[1])},
    {"step_time_s", "mean", FIELD_REAL, AT(step_time_s_mean)},
    {"step_time_s", "p50", FIELD_REAL, AT(step_time_s_p50)},
    {"step_time_s", "p95", FIELD_REAL, AT(step_time_s_p95)},
    {"step_time_s", "max", FIELD_REAL, AT(step_time_s_max)},
    {"share", "compute", FIELD_REAL, AT(share[SHARE_COMPUTE])},
    {"share", "padding", FIELD_REAL, AT(share[SHARE_PADDING])},
    {"share", "recompute", FIELD_REAL, AT(share[SHARE_RECOMPUTE])},
    {"share", "sp_exchange", FIELD_REAL, AT(share[SHARE_SP_EXCHANGE])},
    {"share", "grad_sync", FIELD_REAL, AT(share[SHARE_GRAD_SYNC])},
    {"share", "optimizer", FIELD_REAL, AT(share[SHARE_OPTIMIZER])},
    {"share", "host", FIELD_REAL, AT(share[SHARE_HOST])},
    {"share", "idle", FIELD_REAL, AT(share[SHARE_IDLE])},
    {NULL, "padding_frac", FIELD_REAL, AT(padding_frac)},
    {NULL, "imbalance_frac", FIELD_REAL, AT(imbalance_frac)},
    {NULL, "mfu_frac", FIELD_REAL, AT(mfu_frac)},
    {NULL, "hfu_frac", FIELD_REAL, AT(hfu_frac)},
    {NULL, "peak_memory_bytes", FIELD_INT, AT(peak_memory_bytes)},
    {NULL, "bound_gap_frac", FIELD_REAL, AT(bound_gap_frac)},
    {"samples_per_step", "mean", FIELD_REAL, AT(samples_per_step_mean)},
    {"samples_per_step", "cv", FIELD_REAL, AT(samples_per_step_cv)},
    {"weight_cv", "sample", FIELD_REAL, AT(weight_cv_sample)},
    {"weight_cv", "token", FIELD_REAL, AT(weight_cv_token)},
    {NULL, "sp", FIELD_SP, AT(sp)},
    {"sp_runner_up", "sp", FIELD_SP, AT(sp_runner_up)},
    {"sp_runner_up", "tokens_per_s", FIELD_REAL, AT(sp_runner_up_tokens_per_s)},
};
enum { N_FIELDS = sizeof fields / sizeof fields[0] };

static const void *value_at(const struct policy_result *r, const struct result_field *f) {
  return (const char *)r + f->offset;
}

static bool begins_object(int i) {
  return fields[i].object && (i == 0 || !fields[i - 1].object || strcmp(fields[i].object, fields[i - 1].object) != 0);
}

static bool ends_object(int i) {
  return fields[i].object &&
         (i + 1 == N_FIELDS || !fields[i + 1].object || strcmp(fields[i].object, fields[i + 1].object) != 0);
}

static void write_value(struct json_writer *w, const struct policy_result *r, const struct result_field *f) {
  const void *at = value_at(r, f);
  if (f->type == FIELD_INT)
    json_int(w, *(const int64_t *)at);
  else if (f->type == FIELD_REAL)
    json_double(w, *(const double *)at);
  else if (*(const int *)at == 0)
    json_put_null(w);
  else
    json_int(w, *(const int *)at);
}

static void write_fields(struct json_writer *w, const struct policy_result *r) {
  for (int i = 0; i < N_FIELDS; i++) {
    const struct result_field *f = &fields[i];
    bool array = f->object && strcmp(f->object, "speedup_interval") == 0;
    bool absent = f->object && strcmp(f->object, "sp_runner_up") == 0 && r->sp_runner_up == 0;
    if (begins_object(i)) {
      json_key(w, f->object);
      if (absent)
        json_put_null(w);
      else if (array)
        json_begin_array(w);
      else
        json_begin_object(w);
    }
    if (absent)
      continue;
    if (!array)
      json_key(w, f->key);
    write_value(w, r, f);
    if (ends_object(i) && array)
      json_end_array(w);
    else if (ends_object(i))
      json_end_object(w);
  }
}

static void write_histogram(struct json_writer *w, const struct policy_result *r) {
  json_key(w, "sp_histogram");
  json_begin_object(w);
  for (int i = 0; i < MAX_SPS; i++) {
    char key[16];
    snprintf(key, sizeof key, "%d", 1 << i);
    if (r->sp_histogram[i] > 0)
      json_key_double(w, key, r->sp_histogram[i]);
  }
  json_end_object(w);
}

static void write_ops(struct json_writer *w, const char *key, const struct explain_op *ops, size_t n) {
  static const char *const streams[] = {"compute", "exchange", "sync"};
  json_key(w, key);
  json_begin_array(w);
  for (size_t i = 0; i < n; i++) {
    json_begin_object(w);
    json_key_str(w, "op", ops[i].name);
    json_key_str(w, "stream", streams[ops[i].stream]);
    json_key_str(w, "category", timeline_category_name(ops[i].category));
    json_key_int(w, "count", ops[i].count);
    json_key_double(w, "time_s", (double)ops[i].ns / 1e9);
    json_end_object(w);
  }
  json_end_array(w);
}

static void write_explain(struct json_writer *w, const struct explain *e) {
  json_key(w, "explain");
  json_begin_object(w);
  json_key_int(w, "step", e->step);
  json_key_double(w, "step_time_s", (double)e->step_ns / 1e9);
  json_key_double(w, "after_slowest_group_s", (double)e->sync_after_ns / 1e9);
  json_key(w, "groups");
  json_begin_array(w);
  for (int i = 0; i < e->n_groups; i++) {
    const struct explain_group *g = &e->groups[i];
    json_begin_object(w);
    json_key_int(w, "first_rank", g->first_rank);
    json_key_int(w, "sp", g->sp);
    json_key_int(w, "micro_batches", g->micro_batches);
    json_key_str(w, "shapes", g->shapes);
    json_key_int(w, "samples", g->samples);
    json_key_int(w, "tokens", g->tokens);
    json_key_double(w, "end_s", (double)g->end_ns / 1e9);
    write_ops(w, "ops", g->ops, g->n_ops);
    json_end_object(w);
  }
  json_end_array(w);
  write_ops(w, "ops", e->step_ops, e->n_step_ops);
  json_end_object(w);
}

static void write_chakra(struct json_writer *w, const struct chakra_summary *s) {
  json_key(w, "chakra");
  json_begin_object(w);
  json_key_int(w, "ranks", s->ranks);
  json_key_int(w, "nodes", s->nodes);
  json_key_double(w, "compute_s", s->compute_s);
  json_key_double(w, "rounding_s", s->rounding_s);
  json_end_object(w);
}

static void write_head(struct json_writer *w, const struct experiment *x) {
  json_key_str(w, "schema", "dcpsim.result/1");
  json_key(w, "trace");
  json_begin_object(w);
  json_key_str(w, "name", x->trace.name);
  json_key_int(w, "samples", x->trace_samples);
  json_key_int(w, "tokens", x->trace_tokens);
  json_end_object(w);
  json_key_str(w, "model", x->model.name);
  json_key_str(w, "cluster", x->cluster.name);
  json_key_int(w, "gpus", system_world(&x->system));
  json_key(w, "params");
  json_begin_object(w);
  json_key_str(w, "file", params_name(x->params));
  json_key_str(w, "sha256", params_sha256(x->params));
  json_end_object(w);
  json_key_int(w, "seed", x->options.seed);
  json_key_str(w, "version", DCPSIM_VERSION);
  json_key(w, "options");
  options_write_json(w, &x->options);
}

void result_write_json(struct json_writer *w, const struct experiment *x, const struct policy_result *results,
                       const struct experiment_outputs *outputs, const struct advice *advice) {
  json_begin_object(w);
  write_head(w, x);
  json_key(w, "policies");
  json_begin_array(w);
  for (int i = 0; i < x->n_policies; i++) {
    json_begin_object(w);
    json_key_str(w, "name", results[i].name);
    write_fields(w, &results[i]);
    write_histogram(w, &results[i]);
    json_key_double(w, "plan_time_s", results[i].plan_time_s);
    if (outputs && outputs[i].want_explain && outputs[i].explain.groups)
      write_explain(w, &outputs[i].explain);
    if (outputs && outputs[i].chakra_summary.ranks > 0)
      write_chakra(w, &outputs[i].chakra_summary);
    json_end_object(w);
  }
  json_end_array(w);
  if (advice) {
    json_key(w, "advice");
    advice_write_json(w, advice, x, results);
  }
  json_end_object(w);
}

/* ---- CSV ---- */

static void csv_value(FILE *out, const struct policy_result *r, const struct result_field *f) {
  const void *at = value_at(r, f);
  char buf[32];
  if (f->type == FIELD_INT) {
    fprintf(out, ",%" PRId64, *(const int64_t *)at);
  } else if (f->type == FIELD_REAL) {
    double_text(*(const double *)at, buf);
    fprintf(out, ",%s", buf);
  } else {
    snprintf(buf, sizeof buf, "%d", *(const int *)at);
    fprintf(out, ",%s", *(const int *)at ? buf : "");
  }
}

void result_write_csv_names(FILE *out) {
  fprintf(out, "policy");
  for (int i = 0; i < N_FIELDS; i++)
    fprintf(out, ",%s%s%s", fields[i].object ? fields[i].object : "", fields[i].object ? "_" : "", fields[i].key);
}

void result_write_csv_values(FILE *out, const struct policy_result *r) {
  fprintf(out, "%s", r ? r->name : "");
  for (int i = 0; i < N_FIELDS; i++)
    if (r)
      csv_value(out, r, &fields[i]);
    else
      fputc(',', out);
}

void result_write_csv(FILE *out, const struct experiment *x, const struct policy_result *results) {
  result_write_csv_names(out);
  fprintf(out, ",plan_time_s\n");
  for (int p = 0; p < x->n_policies; p++) {
    char buf[32];
    double_text(results[p].plan_time_s, buf);
    result_write_csv_values(out, &results[p]);
    fprintf(out, ",%s\n", buf);
  }
}
