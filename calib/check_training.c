#include "calib/check_training.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/memory.h"
#include "sim/base/json.h"
#include "sim/base/sorted.h"
#include "sim/base/units.h"
#include "sim/engine/step.h"
#include "sim/plan/lower.h"
#include "sim/plan/program_time.h"

/* ---- one case ---- */

/* Limited by the matrix units, and so by power; all other kernels by memory. */
static bool is_matrix_op(const char *name) {
  static const char *const names[] = {"qkv", "attn_out", "mlp_up", "mlp_down", "head"};
  const char *underscore = strrchr(name, '_');
  if (strncmp(name, "attention", 9) == 0 || (underscore && strcmp(underscore, "_dgrad") == 0) ||
      (underscore && strcmp(underscore, "_wgrad") == 0))
    return strcmp(name, "attention_out") != 0 && strcmp(name, "attention_dq") != 0; /* eager's copies */
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(name, names[i]) == 0)
      return true;
  return false;
}

/* The slow-down of all compute that gives the same sum as each kind's own. */
static double device_factor(const struct training_case *c, const struct program *p) {
  double own = 0, all = 0;
  if (c->matrix_factor == 1 && c->memory_factor == 1)
    return 1;
  for (struct cursor at = {0}; cursor_op(p, &at); cursor_advance(p, &at)) {
    const struct op *op = cursor_op(p, &at);
    if (op->kind != OP_COMPUTE)
      continue;
    all += (double)op->ns;
    own += (double)op->ns * (is_matrix_op(op->name) ? c->matrix_factor : c->memory_factor);
  }
  return own / all;
}

/* Plain SGD on bf16 weights: read weight and gradient, write weight; in place of AdamW's optimizer op. */
static double sgd_difference_s(const struct training_case *c, const struct params *params, double optimizer_s) {
  double bytes = (4.0 + c->parallel.grad_bytes) * (double)transformer_params(&c->model);
  return c->sgd ? memory_time_s(params, MEMORY_OPTIMIZER, bytes) - optimizer_s : 0;
}

static void take_result(const struct step_result *r, struct training_prediction *out) {
  const struct account *a = &r->actors[0].account;
  int64_t work_ns = 0;
  for (int m = 0; m < r->n_work; m++)
    for (int w = 0; w < WORK_CLASSES; w++)
      work_ns += r->work_ns[m][w];
  out->step_s = s_from_ns(r->step_ns);
  out->work_s = s_from_ns(work_ns);
  out->recompute_s = s_from_ns(a->recompute_ns);
  out->exchange_s = s_from_ns(a->exchange_ns);
  out->sync_s = s_from_ns(a->sync_ns);
  out->optimizer_s = s_from_ns(a->optimizer_ns);
  out->host_s = s_from_ns(a->host_ns);
  out->idle_s = s_from_ns(a->idle_ns);
}

static void predict_time(const struct training_case *c, const struct params *params,
                         const struct in_step_scalars *scalars, struct training_prediction *out) {
  const struct system s = training_case_system(c, params);
  const struct microbatch mb = training_case_micro_batch(c, params, false);
  struct program p;
  lower_micro_batch(&p, &s, c->sp, &mb);
  double factor = device_factor(c, &p);
  if (scalars) {
    factor *= scalars->compute_derate / params_in_step(params, c->framework.name).compute_derate;
    p.host_op_ns = ns_from_s(scalars->host_op_s);
    program_fold_cache(&p);
  }
  const struct program **programs = xmalloc(size_mul((size_t)c->micro_batches, sizeof *programs));
  double *factors = xmalloc(size_mul((size_t)system_world(&s), sizeof *factors));
  for (int i = 0; i < c->micro_batches; i++)
    programs[i] = &p;
  for (int i = 0; i < system_world(&s); i++)
    factors[i] = factor;
  struct step_group group = {.sp = c->sp, .programs = programs, .n_micro_batches = c->micro_batches};
  struct step_input in = {.groups = &group, .n_groups = 1, .factors = factors};
  struct engine *engine = engine_new(&s, false);
  const struct step_result *result = engine_step(engine, &in, NULL);
  if (result) {
    take_result(result, out);
    double sgd_s = sgd_difference_s(c, params, out->optimizer_s);
    out->step_s += sgd_s;
    out->optimizer_s += sgd_s;
  } else {
    out->step_s = INFINITY;
  }
  engine_free(engine);
  free(factors);
  free(programs);
  program_release(&p);
}

void training_predict(const struct training_case *c, const struct params *params, const struct in_step_scalars *scalars,
                      struct training_prediction *out) {
  *out = (struct training_prediction){0};
  if (!c->why_no_time || !c->why_no_memory) {
    const struct system s = training_case_system(c, params);
    const struct microbatch mb = training_case_micro_batch(c, params, true);
    out->recomputed = training_case_micro_batch(c, params, false).recompute_blocks[0];
    out->peak_bytes = memory_peak_bytes(&s, c->sp, &mb, false);
  }
  if (!c->why_no_time)
    predict_time(c, params, scalars, out);
}

static int compare_ops(const void *a, const void *b) {
  const struct training_op *x = a, *y = b;
  return x->seconds != y->seconds ? (x->seconds < y->seconds) - (x->seconds > y->seconds) : strcmp(x->name, y->name);
}

static void add_ops(struct training_op **v, size_t *n, size_t *cap, const struct program *p, double times) {
  for (struct cursor at = {0}; cursor_op(p, &at); cursor_advance(p, &at)) {
    const struct op *op = cursor_op(p, &at);
    size_t i = 0;
    if (op->kind == OP_POST || op->kind == OP_WAIT)
      continue;
    while (i < *n && strcmp((*v)[i].name, op->name) != 0)
      i++;
    if (i == *n) {
      struct training_op one = {op->name, 0};
      VEC_PUSH(*v, *n, *cap, one);
    }
    (*v)[i].seconds += times * s_from_ns(op->ns);
  }
}

struct training_op *training_ops(const struct training_case *c, const struct params *params, size_t *n) {
  const struct system s = training_case_system(c, params);
  const struct microbatch mb = training_case_micro_batch(c, params, false);
  struct training_op *v = NULL;
  struct program p, tail;
  size_t cap = 0;
  *n = 0;
  lower_micro_batch(&p, &s, c->sp, &mb);
  lower_step_tail(&tail, &s);
  add_ops(&v, n, &cap, &p, c->micro_batches * device_factor(c, &p));
  add_ops(&v, n, &cap, &tail, 1);
  qsort(v, *n, sizeof *v, compare_ops);
  program_release(&p);
  program_release(&tail);
  return v;
}

/* ---- parameters ---- */

int training_params_load(struct training_params *p, const char *file, struct err *err) {
  struct params *own = NULL;
  *p = (struct training_params){0};
  if (file && params_load(&own, file, err))
    return -1;
  if (own && strcmp(params_gpu(own), "h100_sxm") == 0)
    p->h100 = own;
  else if (own && strcmp(params_gpu(own), "h200_sxm") == 0)
    p->h200 = own;
  else if (own) {
    err_set(err, "parameters '%s' are for '%s'; published runs are of h100_sxm and h200_sxm", file, params_gpu(own));
    params_free(own);
    return -1;
  }
  if ((p->h100 || params_load(&p->h100, "h100_sxm", err) == 0) &&
      (p->h200 || params_load(&p->h200, "h200_sxm", err) == 0))
    return 0;
  training_params_release(p);
  return -1;
}

void training_params_release(struct training_params *p) {
  params_free(p->h100);
  params_free(p->h200);
  *p = (struct training_params){0};
}

const struct params *training_params_of(const struct training_params *p, const struct training_case *c) {
  return strcmp(c->cluster.gpu, "h200_sxm") == 0 ? p->h200 : p->h100;
}

/* ---- scores ---- */

static double tokens_per_s_per_gpu(const struct training_case *c, double step_s) {
  return training_case_tokens(c) / step_s / cluster_gpus(&c->cluster);
}

static double step_error(const struct training_check_row *row) { return row->p.step_s / row->c.measured_step_s - 1; }

static double memory_error(const struct training_check_row *row) {
  return (double)row->p.peak_bytes / GIB_BYTES / row->c.measured_memory_gib - 1;
}

/* Pairs of a group that measured at least 2 % apart: concordant less discordant, over all. */
static void rank_group(struct training_group *g, const struct training_check_row *const *rows) {
  double sum = 0;
  for (size_t i = 0; i < g->rows; i++)
    for (size_t j = 0; j < i; j++) {
      double measured = tokens_per_s_per_gpu(&rows[i]->c, rows[i]->c.measured_step_s) /
                        tokens_per_s_per_gpu(&rows[j]->c, rows[j]->c.measured_step_s);
      double predicted =
          tokens_per_s_per_gpu(&rows[i]->c, rows[i]->p.step_s) / tokens_per_s_per_gpu(&rows[j]->c, rows[j]->p.step_s);
      if (fabs(log(measured)) < 0.02)
        continue;
      g->pairs++;
      sum += predicted == 1 ? 0 : (predicted > 1) == (measured > 1) ? 1 : -1;
    }
  g->tau = g->pairs ? sum / (double)g->pairs : 0;
}

static void score_group(struct training_check *check, struct training_group *g) {
  const struct training_check_row **rows = xmalloc(size_mul(check->n_rows, sizeof *rows));
  double *errors = xmalloc(size_mul(check->n_rows, sizeof *errors)), sum = 0;
  for (size_t i = 0; i < check->n_rows; i++) {
    const struct training_check_row *row = &check->rows[i];
    if (strcmp(row->c.source, g->source) != 0)
      continue;
    if (row->c.why_no_time) {
      g->left_out++;
      continue;
    }
    rows[g->rows] = row;
    errors[g->rows++] = fabs(step_error(row));
    g->bias += step_error(row);
    sum += fabs(step_error(row));
  }
  if (g->rows) {
    sort_doubles(errors, g->rows);
    g->median = sorted_quantile(errors, g->rows, 50);
    g->p90 = sorted_quantile(errors, g->rows, 90);
    g->max = errors[g->rows - 1];
    g->mean = sum / (double)g->rows;
    g->bias /= (double)g->rows;
    rank_group(g, rows);
  }
  check->mean += sum;
  check->predicted += g->rows;
  free(rows);
  free(errors);
}

static void score(struct training_check *check) {
  for (size_t i = 0; i < check->n_rows; i++) {
    size_t k = 0;
    while (k < check->n_groups && strcmp(check->groups[k].source, check->rows[i].c.source) != 0)
      k++;
    if (k == check->n_groups)
      VEC_PUSH(check->groups, check->n_groups, check->cap_groups,
               ((struct training_group){.source = check->rows[i].c.source}));
    check->memory_rows += !check->rows[i].c.why_no_memory;
  }
  for (size_t k = 0; k < check->n_groups; k++)
    score_group(check, &check->groups[k]);
  if (check->predicted)
    check->mean /= (double)check->predicted;
}

int training_check_run(struct training_check *out, const struct table *tables, size_t n_tables,
                       const struct training_params *params, struct err *err) {
  *out = (struct training_check){.params = params};
  for (size_t f = 0; f < n_tables; f++)
    for (size_t i = 0; i < tables[f].n_rows; i++) {
      struct training_check_row row = {.table = &tables[f], .index = i};
      if (training_case_read(&row.c, &tables[f], i, err))
        return -1;
      training_predict(&row.c, training_params_of(params, &row.c), NULL, &row.p);
      VEC_PUSH(out->rows, out->n_rows, out->cap_rows, row);
    }
  score(out);
  return 0;
}

void training_check_release(struct training_check *check) {
  free(check->rows);
  free(check->groups);
  *check = (struct training_check){0};
}

/* ---- output ---- */

/* "github OWNER/REPO @ COMMIT FILE section "NAME"": repository, and section, or commit and file. No commas, so that a
 * column of labels needs no quotes. */
void training_source_label(const char *source, char *buf, size_t size) {
  const char *repository = strncmp(source, "github ", 7) == 0 ? source + 7 : source;
  int length = (int)strcspn(repository, " ");
  const char *section = strstr(source, "section \""), *at = strstr(source, " @ ");
  const char *file = at ? strchr(at + 3, ' ') : NULL;
  if (section) {
    section += strlen("section \"");
    snprintf(buf, size, "%.*s %.*s", length, repository, (int)strcspn(section, "\""), section);
  } else if (file) {
    snprintf(buf, size, "%.*s@%.4s %s", length, repository, at + 3, file + 1);
  } else {
    snprintf(buf, size, "%s", repository);
  }
  size_t n = 0;
  for (const char *c = buf; *c; c++)
    if (*c != ',')
      buf[n++] = *c;
  buf[n] = 0;
}

static void put_number(FILE *out, double v) {
  if (v != 0)
    fprintf(out, "%.6g", v);
  fputc(',', out);
}

void training_check_write_csv(FILE *out, const struct training_check *check) {
  fputs("id,source,used_for,model,gpu,gpus,framework,zero,sp,batch,seqlen,micro_batches,recomputed_blocks,measured_"
        "step_s,"
        "predicted_step_s,rel_error,measured_tokens_per_s_per_gpu,predicted_tokens_per_s_per_gpu,work_s,recompute_s,"
        "sp_exchange_s,grad_sync_s,optimizer_s,host_s,idle_s,measured_memory_gib,predicted_memory_gib,"
        "memory_rel_error,why_no_time\n",
        out);
  for (size_t i = 0; i < check->n_rows; i++) {
    const struct training_check_row *row = &check->rows[i];
    const struct training_case *c = &row->c;
    const struct training_prediction *p = &row->p;
    bool timed = !c->why_no_time, weighed = !c->why_no_memory;
    char label[128];
    training_source_label(c->source, label, sizeof label);
    const char *const texts[] = {c->id, label,
                                 c->for_fit ? "fit"
                                 : timed    ? "validation"
                                            : "",
                                 c->model.name, c->cluster.gpu};
    for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
      table_put_field(out, texts[k]);
      fputc(',', out);
    }
    fprintf(out, "%d,%s,%d,%d,%lld,%lld,%d,%d,", c->cluster.nodes ? cluster_gpus(&c->cluster) : 0, c->framework.name,
            c->parallel.zero, c->sp, (long long)c->batch, (long long)c->seqlen, c->micro_batches, p->recomputed);
    const double numbers[] = {c->measured_step_s,
                              p->step_s,
                              timed ? step_error(row) : 0,
                              c->measured_step_s > 0 && timed ? tokens_per_s_per_gpu(c, c->measured_step_s) : 0,
                              timed ? tokens_per_s_per_gpu(c, p->step_s) : 0,
                              p->work_s,
                              p->recompute_s,
                              p->exchange_s,
                              p->sync_s,
                              p->optimizer_s,
                              p->host_s,
                              p->idle_s,
                              c->measured_memory_gib,
                              weighed ? (double)p->peak_bytes / GIB_BYTES : 0,
                              weighed ? memory_error(row) : 0};
    for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++)
      put_number(out, numbers[k]);
    table_put_field(out, timed ? "" : c->why_no_time);
    fputc('\n', out);
  }
}

static void json_params(struct json_writer *w, const struct training_params *params) {
  const struct params *const files[] = {params->h100, params->h200};
  json_key(w, "params");
  json_begin_array(w);
  for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
    json_begin_object(w);
    json_key_str(w, "file", params_name(files[i]));
    json_key_str(w, "sha256", params_sha256(files[i]));
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_errors(struct json_writer *w, const struct training_group *g) {
  json_key(w, "abs_rel_error");
  json_begin_object(w);
  json_key_double(w, "median", g->median);
  json_key_double(w, "p90", g->p90);
  json_key_double(w, "max", g->max);
  json_key_double(w, "mean", g->mean);
  json_end_object(w);
}

static void json_groups(struct json_writer *w, const struct training_check *check) {
  json_key(w, "groups");
  json_begin_array(w);
  for (size_t k = 0; k < check->n_groups; k++) {
    const struct training_group *g = &check->groups[k];
    if (!g->rows)
      continue;
    json_begin_object(w);
    json_key_str(w, "source", g->source);
    json_key_int(w, "rows", (int64_t)g->rows);
    json_errors(w, g);
    json_key_double(w, "mean_rel_error", g->bias);
    json_key(w, "kendall_tau");
    if (g->pairs)
      json_double(w, g->tau);
    else
      json_put_null(w);
    json_key_int(w, "pairs", (int64_t)g->pairs);
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_memory(struct json_writer *w, const struct training_check *check) {
  json_key(w, "memory");
  json_begin_array(w);
  for (size_t i = 0; i < check->n_rows; i++) {
    const struct training_check_row *row = &check->rows[i];
    if (row->c.why_no_memory)
      continue;
    json_begin_object(w);
    json_key_str(w, "id", row->c.id);
    json_key_str(w, "source", row->c.source);
    json_key_double(w, "measured_gib", row->c.measured_memory_gib);
    json_key_double(w, "predicted_gib", (double)row->p.peak_bytes / GIB_BYTES);
    json_key_double(w, "rel_error", memory_error(row));
    json_end_object(w);
  }
  json_end_array(w);
}

static void json_left_out(struct json_writer *w, const struct training_check *check) {
  json_key(w, "not_predicted");
  json_begin_array(w);
  for (size_t i = 0; i < check->n_rows; i++) {
    if (!check->rows[i].c.why_no_time)
      continue;
    json_begin_object(w);
    json_key_str(w, "id", check->rows[i].c.id);
    json_key_str(w, "why", check->rows[i].c.why_no_time);
    json_end_object(w);
  }
  json_end_array(w);
}

void training_check_write_json(FILE *out, const struct training_check *check) {
  struct json_writer w = {.file = out, .indent = true};
  json_begin_object(&w);
  json_key_str(&w, "schema", "dcpsim.check_training/1");
  json_params(&w, check->params);
  json_key_int(&w, "rows", (int64_t)check->n_rows);
  json_key_int(&w, "predicted", (int64_t)check->predicted);
  json_key_double(&w, "mean_abs_rel_error", check->mean);
  json_groups(&w, check);
  json_memory(&w, check);
  json_left_out(&w, check);
  json_end_object(&w);
  fputc('\n', out);
}

static void table_rows(FILE *out, const struct training_check *check) {
  fprintf(out, "%-6s %-14s %5s %-6s %2s %2s %4s %6s %3s %11s %11s %7s  %s\n", "row", "model", "GPUs", "class", "z",
          "sp", "mbs", "length", "ga", "measured", "predicted", "error",
          "work recompute exchange sync optimizer host, %");
  for (size_t i = 0; i < check->n_rows; i++) {
    const struct training_check_row *row = &check->rows[i];
    const struct training_case *c = &row->c;
    const struct training_prediction *p = &row->p;
    if (c->why_no_time)
      continue;
    fprintf(out, "%-6s %-14.14s %5d %-6s %2d %2d %4lld %6lld %3d %9.4f s %9.4f s %+6.1f%%  ", c->id, c->model.name,
            cluster_gpus(&c->cluster), c->framework.name, c->parallel.zero, c->sp, (long long)c->batch,
            (long long)c->seqlen, c->micro_batches, c->measured_step_s, p->step_s, 100 * step_error(row));
    fprintf(out, "%4.1f %4.1f %4.1f %4.1f %4.1f %4.1f\n", 100 * p->work_s / p->step_s, 100 * p->recompute_s / p->step_s,
            100 * p->exchange_s / p->step_s, 100 * p->sync_s / p->step_s, 100 * p->optimizer_s / p->step_s,
            100 * (p->host_s + p->idle_s) / p->step_s);
  }
}

static void table_groups(FILE *out, const struct training_check *check) {
  fprintf(out, "\nstep time, |predicted - measured| / measured, %%; tau: ranking of pairs that measured 2 %% apart\n");
  fprintf(out, "%-66s %5s %7s %6s %6s %6s %6s %6s %6s\n", "source", "rows", "median", "p90", "max", "mean", "bias",
          "tau", "pairs");
  for (size_t k = 0; k < check->n_groups; k++) {
    const struct training_group *g = &check->groups[k];
    char label[128], tau[16] = "-";
    if (!g->rows)
      continue;
    training_source_label(g->source, label, sizeof label);
    if (g->pairs)
      snprintf(tau, sizeof tau, "%.2f", g->tau);
    fprintf(out, "%-66.66s %5zu %7.1f %6.1f %6.1f %6.1f %+6.1f %6s %6zu\n", label, g->rows, 100 * g->median,
            100 * g->p90, 100 * g->max, 100 * g->mean, 100 * g->bias, tau, g->pairs);
  }
  fprintf(out, "%-66s %5zu %29.1f\n", "all", check->predicted, 100 * check->mean);
}

static void table_memory(FILE *out, const struct training_check *check) {
  if (!check->memory_rows)
    return;
  fprintf(out, "\npeak memory of a rank\n");
  for (size_t i = 0; i < check->n_rows; i++) {
    const struct training_check_row *row = &check->rows[i];
    if (!row->c.why_no_memory)
      fprintf(out, "%-6s %-14.14s %7lld tokens x %lld, zero %d%s  measured %6.1f GiB  predicted %6.1f GiB  %+5.1f%%\n",
              row->c.id, row->c.model.name, (long long)row->c.seqlen, (long long)row->c.batch, row->c.parallel.zero,
              row->c.parallel.offload_optimizer ? ", optimizer on the CPU" : "", row->c.measured_memory_gib,
              (double)row->p.peak_bytes / GIB_BYTES, 100 * memory_error(row));
  }
}

void training_check_write_table(FILE *out, const struct training_check *check) {
  fprintf(out, "%zu rows, %zu predicted\n\n", check->n_rows, check->predicted);
  table_rows(out, check);
  table_groups(out, check);
  table_memory(out, check);
  fprintf(out, "\nnot predicted\n");
  for (size_t i = 0; i < check->n_rows; i++)
    if (check->rows[i].c.why_no_time)
      fprintf(out, "%-6s %-14.14s %s\n", check->rows[i].c.id, check->rows[i].c.model.name,
              check->rows[i].c.why_no_time);
}
