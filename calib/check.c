#include "calib/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/collective.h"
#include "models/flow.h"
#include "models/operation.h"
#include "sim/base/json.h"
#include "sim/base/units.h"

/* ---- Prediction of one row ---- */

/* Whether a row is of the elements that the parameters are for. */
static bool fits_elements(const struct params *p, const char *dtype) {
  if (params_element_bytes(p) == 4)
    return strcmp(dtype, "fp32") == 0;
  return strcmp(dtype, "bf16") == 0 || strcmp(dtype, "fp16") == 0;
}

static double varlen_s(const struct params *p, const struct row *row) {
  const int64_t *s = row->shape, batch = s[SHAPE_BATCH];
  uint32_t *lengths = xcalloc((size_t)batch, sizeof *lengths);
  for (int64_t i = 0; i < batch; i++)
    lengths[i] = (uint32_t)row_varlen_length(s[SHAPE_SEQLEN], batch, i);
  const double time = row->op == ROW_OP_ATTENTION_VARLEN_FORWARD
                          ? attention_varlen_forward_time_s(p, s[SHAPE_CAUSAL] != 0, lengths, batch, s[SHAPE_HEADS],
                                                            s[SHAPE_KV_HEADS], s[SHAPE_HEAD_DIM])
                          : attention_varlen_backward_time_s(p, s[SHAPE_CAUSAL] != 0, lengths, batch, s[SHAPE_HEADS],
                                                             s[SHAPE_KV_HEADS], s[SHAPE_HEAD_DIM]);
  free(lengths);
  return time;
}

static double attention_s(const struct params *p, const struct rows *rows, size_t i) {
  const struct row *row = &rows->v[i];
  const int64_t *s = row->shape;
  struct attention_shape shape = {.causal = s[SHAPE_CAUSAL] != 0,
                                  .batch = s[SHAPE_BATCH],
                                  .q_len = s[SHAPE_SEQLEN],
                                  .kv_len = s[SHAPE_SEQLEN],
                                  .heads = s[SHAPE_HEADS],
                                  .kv_heads = s[SHAPE_KV_HEADS],
                                  .head_dim = s[SHAPE_HEAD_DIM]};
  const struct table *t = &rows->table;
  bool is_plain = *table_field(t, i, table_column(t, "library")) || *table_field(t, i, table_column(t, "device"));
  if (row->op == ROW_OP_ATTENTION_FORWARD)
    return is_plain ? attention_forward_time_s(p, &shape) : attention_forward_row_time_s(p, &shape);
  double backward = attention_backward_time_s(p, &shape);
  return row->op == ROW_OP_ATTENTION_BACKWARD ? backward : backward + attention_forward_time_s(p, &shape);
}

static double memory_s(const struct params *p, const struct row *row) {
  const struct memory_traffic traffic = row_memory_traffic(row->op);
  return memory_time_s(p, traffic.class,
                       2 * traffic.values * (double)row->shape[SHAPE_ROWS] * (double)row->shape[SHAPE_HIDDEN]);
}

struct memory_traffic row_memory_traffic(enum row_op op) {
  static const struct memory_traffic all[ROW_OPS] = {
      [ROW_OP_RMSNORM] = {MEMORY_CONTIGUOUS, 2},
      [ROW_OP_RMSNORM_BACKWARD] = {MEMORY_CONTIGUOUS, 3},
      [ROW_OP_LAYERNORM] = {MEMORY_CONTIGUOUS, 2},
      [ROW_OP_LAYERNORM_BACKWARD] = {MEMORY_CONTIGUOUS, 3},
      [ROW_OP_RESIDUAL] = {MEMORY_CONTIGUOUS, 3},
      [ROW_OP_SWIGLU] = {MEMORY_CONTIGUOUS, 3},
      [ROW_OP_SWIGLU_BACKWARD] = {MEMORY_CONTIGUOUS, 5},
      [ROW_OP_GELU] = {MEMORY_CONTIGUOUS, 2},
      [ROW_OP_GELU_BACKWARD] = {MEMORY_CONTIGUOUS, 3},
      [ROW_OP_MODULATE] = {MEMORY_BROADCAST, 2},
      [ROW_OP_PERMUTE] = {MEMORY_PERMUTE, 2},
      [ROW_OP_BIAS_BACKWARD] = {MEMORY_REDUCTION, 1},
      [ROW_OP_PERMUTE_ADD] = {MEMORY_MIXED, 3},
      [ROW_OP_ADAMW] = {MEMORY_OPTIMIZER, 15},
      [ROW_OP_ROPE] = {MEMORY_CONTIGUOUS, 2},
      [ROW_OP_SILU] = {MEMORY_CONTIGUOUS, 2},
      [ROW_OP_SILU_BACKWARD] = {MEMORY_CONTIGUOUS, 3},
      [ROW_OP_BIAS] = {MEMORY_BROADCAST, 2},
      [ROW_OP_MODULATE_BACKWARD] = {MEMORY_BROADCAST, 3},
      [ROW_OP_GATE] = {MEMORY_BROADCAST, 3},
      [ROW_OP_GATE_BACKWARD] = {MEMORY_BROADCAST, 3},
      [ROW_OP_EMBEDDING] = {MEMORY_CONTIGUOUS, 2},
      [ROW_OP_EMBEDDING_BACKWARD] = {MEMORY_MIXED, 5},
      [ROW_OP_CROSS_ENTROPY] = {MEMORY_CONTIGUOUS, 1},
      [ROW_OP_CROSS_ENTROPY_BACKWARD] = {MEMORY_CONTIGUOUS, 2},
  };
  ASSERT(row_op_class(op) == ROW_MEMORY);
  return all[op];
}

static double collective_s(const struct row_predictor *p, const struct row *row, const char **why_not) {
  static const enum collective kinds[ROW_OPS] = {
      [ROW_OP_ALL_REDUCE] = COLLECTIVE_ALL_REDUCE,         [ROW_OP_ALL_GATHER] = COLLECTIVE_ALL_GATHER,
      [ROW_OP_REDUCE_SCATTER] = COLLECTIVE_REDUCE_SCATTER, [ROW_OP_ALL_TO_ALL] = COLLECTIVE_ALL_TO_ALL,
      [ROW_OP_SEND_RECV] = COLLECTIVE_SEND_RECV,           [ROW_OP_ALL_TO_ALL_UNEVEN] = COLLECTIVE_ALL_TO_ALL,
  };
  int64_t ranks = row->shape[SHAPE_RANKS], nodes = row->shape[SHAPE_NODES];
  if (row->op > ROW_OP_ALL_TO_ALL_UNEVEN)
    *why_not = "there is no model of this collective";
  else if (ranks < 2)
    *why_not = "a collective needs two ranks";
  else if (ranks % nodes != 0)
    *why_not = "the ranks do not fill their nodes evenly";
  else if (ranks / nodes > p->cluster->gpus_per_node)
    *why_not = "there are more ranks on a node than the cluster has GPUs there";
  else if (nodes > 1 << 20)
    *why_not = "there are too many nodes";
  if (*why_not)
    return 0;
  const double bytes = (double)row->shape[SHAPE_BYTES] * 2 / params_element_bytes(p->params);
  const struct collective_cost cost =
      collective_cost(p->params, p->cluster, kinds[row->op], (int)ranks, (int)nodes, bytes);
  struct flow_class groups = {.count = row->shape[SHAPE_GROUPS]};
  memcpy(groups.load, cost.load, sizeof groups.load);
  flow_share(&groups, 1);
  return cost.time_s / groups.rate;
}

double row_predict_s(const struct row_predictor *p, const struct rows *rows, size_t i, const char **why_not) {
  const struct row *row = &rows->v[i];
  enum row_class class = row_op_class(row->op);
  *why_not = NULL;
  if (class == ROW_COLLECTIVE)
    return collective_s(p, row, why_not);
  if (!fits_elements(p->params, row->dtype)) {
    *why_not =
        params_element_bytes(p->params) == 4 ? "these parameters are for fp32" : "only bf16 and fp16 are modelled";
    return 0;
  }
  if (row->op == ROW_OP_ATTENTION_VARLEN_FORWARD || row->op == ROW_OP_ATTENTION_VARLEN_BACKWARD)
    return varlen_s(p->params, row);
  if (class == ROW_ATTENTION)
    return attention_s(p->params, rows, i);
  if (class == ROW_MEMORY)
    return memory_s(p->params, row);
  if (row->op == ROW_OP_GEMM_WGRAD)
    return gemm_wgrad_time_s(p->params, row->shape[SHAPE_M], row->shape[SHAPE_N], row->shape[SHAPE_K]);
  return gemm_time_s(p->params, row->shape[SHAPE_M], row->shape[SHAPE_N], row->shape[SHAPE_K]);
}

/* ---- Scores ---- */

struct score {
  enum row_op op;
  bool at_once;
  const char *value;
  double abs_rel_error;
};

/* Numbers by size and before words, words by their bytes. */
static int compare_values(const char *a, const char *b) {
  char *a_end, *b_end;
  if (!a || !b)
    return 0;
  double x = strtod(a, &a_end), y = strtod(b, &b_end);
  bool a_number = *a && !*a_end, b_number = *b && !*b_end;
  if (a_number != b_number)
    return a_number ? -1 : 1;
  if (a_number && x != y)
    return x < y ? -1 : 1;
  return strcmp(a, b);
}

static int compare_group(const struct score *a, const struct score *b) {
  if (a->op != b->op)
    return (a->op > b->op) - (a->op < b->op);
  return a->at_once != b->at_once ? a->at_once - b->at_once : compare_values(a->value, b->value);
}

static int compare_scores(const void *a, const void *b) {
  const struct score *x = a, *y = b;
  int order = compare_group(x, y);
  return order ? order : (x->abs_rel_error > y->abs_rel_error) - (x->abs_rel_error < y->abs_rel_error);
}

static double quantile(const struct score *sorted, size_t n, double percent) {
  return sorted[(size_t)floor((double)(n - 1) * percent / 100 + 0.5)].abs_rel_error;
}

/* The scores of one group, sorted. */
static struct check_group summarize(const struct score *sorted, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += sorted[i].abs_rel_error;
  return (struct check_group){.op = sorted->op,
                              .at_once = sorted->at_once,
                              .value = sorted->value,
                              .rows = n,
                              .median = quantile(sorted, n, 50),
                              .p90 = quantile(sorted, n, 90),
                              .max = sorted[n - 1].abs_rel_error,
                              .mean = sum / (double)n};
}

static void group_scores(struct check *out, struct score *scores, size_t n) {
  size_t cap = 0;
  qsort(scores, n, sizeof *scores, compare_scores);
  for (size_t first = 0, next; first < n; first = next) {
    for (next = first + 1; next < n && compare_group(&scores[first], &scores[next]) == 0; next++)
      ;
    struct check_group group = summarize(scores + first, next - first);
    VEC_PUSH(out->groups, out->n_groups, cap, group);
  }
}

/* Rows left out, by operation and reason (a static string). */
struct left_out {
  enum row_op op;
  const char *why, *path;
  int64_t line; /* of the first */
  size_t rows;
};

struct left_outs {
  struct left_out *v;
  size_t n, cap;
};

static void count_left_out(struct left_outs *l, const struct rows *rows, size_t i, const char *why) {
  struct left_out one = {rows->v[i].op, why, rows->table.path, rows->table.lines[i], 1};
  for (size_t k = 0; k < l->n; k++)
    if (l->v[k].op == one.op && l->v[k].why == why) {
      l->v[k].rows++;
      return;
    }
  VEC_PUSH(l->v, l->n, l->cap, one);
}

static void warn_left_out(const struct left_outs *l, const struct warning_sink *warnings) {
  for (size_t k = 0; k < l->n; k++)
    warning_put(warnings, "%zu %s row%s not predicted (first: '%s' line %lld): %s", l->v[k].rows,
                row_op_name(l->v[k].op), l->v[k].rows == 1 ? "" : "s", l->v[k].path, (long long)l->v[k].line,
                l->v[k].why);
}

static int no_column(const struct table *t, const char *by, struct err *err) {
  char list[400];
  table_list_columns(t, list, sizeof list);
  return err_usage(err, "--by %s: rows '%s' has no such column (there are %s)", by, t->path, list);
}

int check_run(struct check *out, const struct row_predictor *p, const struct rows *files, size_t n_files,
              const struct check_options *options, struct err *err) {
  struct score *scores = NULL;
  struct left_outs left_outs = {0};
  size_t n = 0, cap = 0, left_out = 0;
  int rc = -1;
  *out = (struct check){0};
  for (size_t f = 0; f < n_files; f++) {
    const struct table *t = &files[f].table;
    int by = options->by ? table_column(t, options->by) : -1;
    if (options->by && by < 0) {
      no_column(t, options->by, err);
      goto out;
    }
    for (size_t i = 0; i < t->n_rows; i++) {
      const struct row *row = &files[f].v[i];
      const char *why_not;
      double predicted = row_predict_s(p, &files[f], i, &why_not);
      const struct score score = {row->op, row_is_at_once(row), by < 0 ? NULL : table_field(t, i, by),
                                  fabs(predicted / row->time_s - 1)};
      if (!why_not) {
        VEC_PUSH(scores, n, cap, score);
        continue;
      }
      count_left_out(&left_outs, &files[f], i, why_not);
      left_out++;
    }
  }
  if (n == 0) {
    err_set(err, "none of the %zu rows can be predicted: %s", left_out, left_outs.n ? left_outs.v->why : "no rows");
    goto out;
  }
  warn_left_out(&left_outs, options->warnings);
  out->rows = n;
  out->rows_left_out = left_out;
  group_scores(out, scores, n);
  rc = 0;
out:
  free(scores);
  free(left_outs.v);
  return rc;
}

void check_release(struct check *check) {
  free(check->groups);
  *check = (struct check){0};
}

/* ---- Rows with their predictions ---- */

static const char *const shape_columns[] = {"causal", "batch", "seqlen", "heads", "kv_heads", "head_dim", "m",
                                            "n",      "k",     "ranks",  "nodes", "bytes",    "groups"};
enum { SHAPE_COLUMNS = sizeof shape_columns / sizeof *shape_columns };

static bool is_shape_column(const char *name) {
  for (int i = 0; i < SHAPE_COLUMNS; i++)
    if (strcmp(shape_columns[i], name) == 0)
      return true;
  return false;
}

/* Whether `by` needs a column of its own. */
static bool is_extra(const char *by) {
  return by && !is_shape_column(by) && strcmp(by, "op") != 0 && strcmp(by, "dtype") != 0 && strcmp(by, "time_s") != 0;
}

static void write_row(FILE *out, const struct row_predictor *p, const struct rows *rows, size_t i, const char *by) {
  const struct table *t = &rows->table;
  const struct row *row = &rows->v[i];
  const char *why_not;
  char number[32];
  double predicted = row_predict_s(p, rows, i, &why_not);
  table_put_field(out, t->path);
  fprintf(out, ",%lld,%s,", (long long)t->lines[i], row_op_name(row->op));
  table_put_field(out, row->dtype);
  for (int c = 0; c < SHAPE_COLUMNS; c++) {
    fputc(',', out);
    table_put_field(out, table_field(t, i, table_column(t, shape_columns[c])));
  }
  if (is_extra(by)) {
    fputc(',', out);
    table_put_field(out, table_field(t, i, table_column(t, by)));
  }
  double_text(row->time_s, number);
  fprintf(out, ",%s,", number);
  if (!why_not) {
    double_text(predicted, number);
    fputs(number, out);
    double_text(predicted / row->time_s - 1, number);
    fprintf(out, ",%s\n", number);
  } else {
    fputs(",\n", out);
  }
}

void check_write_rows(FILE *out, const struct row_predictor *p, const struct rows *files, size_t n_files,
                      const char *by) {
  fputs("file,line,op,dtype", out);
  for (int c = 0; c < SHAPE_COLUMNS; c++)
    fprintf(out, ",%s", shape_columns[c]);
  if (is_extra(by)) {
    fputc(',', out);
    table_put_field(out, by);
  }
  fputs(",time_s,predicted_time_s,rel_error\n", out);
  for (size_t f = 0; f < n_files; f++)
    for (size_t i = 0; i < files[f].table.n_rows; i++)
      write_row(out, p, &files[f], i, by);
}
