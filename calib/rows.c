#include "calib/rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

#define MAX_INTEGER (INT64_C(1) << 53) /* what a double still holds exactly */
#define MAX_TIME_S 1e6

static const struct {
  const char *name;
  enum row_class class;
} ops[ROW_OPS] = {
    [ROW_OP_ATTENTION_FORWARD] = {"attention_forward", ROW_ATTENTION},
    [ROW_OP_ATTENTION_BACKWARD] = {"attention_backward", ROW_ATTENTION},
    [ROW_OP_ATTENTION_FORWARD_BACKWARD] = {"attention_forward_backward", ROW_ATTENTION},
    [ROW_OP_ATTENTION_VARLEN_FORWARD] = {"attention_varlen_forward", ROW_ATTENTION},
    [ROW_OP_ATTENTION_VARLEN_BACKWARD] = {"attention_varlen_backward", ROW_ATTENTION},
    [ROW_OP_GEMM] = {"gemm", ROW_GEMM},
    [ROW_OP_GEMM_WGRAD] = {"gemm_wgrad", ROW_GEMM},
    [ROW_OP_RMSNORM] = {"rmsnorm", ROW_MEMORY},
    [ROW_OP_RMSNORM_BACKWARD] = {"rmsnorm_backward", ROW_MEMORY},
    [ROW_OP_LAYERNORM] = {"layernorm", ROW_MEMORY},
    [ROW_OP_LAYERNORM_BACKWARD] = {"layernorm_backward", ROW_MEMORY},
    [ROW_OP_RESIDUAL] = {"residual", ROW_MEMORY},
    [ROW_OP_SWIGLU] = {"swiglu", ROW_MEMORY},
    [ROW_OP_SWIGLU_BACKWARD] = {"swiglu_backward", ROW_MEMORY},
    [ROW_OP_GELU] = {"gelu", ROW_MEMORY},
    [ROW_OP_GELU_BACKWARD] = {"gelu_backward", ROW_MEMORY},
    [ROW_OP_MODULATE] = {"modulate", ROW_MEMORY},
    [ROW_OP_PERMUTE] = {"permute", ROW_MEMORY},
    [ROW_OP_BIAS_BACKWARD] = {"bias_backward", ROW_MEMORY},
    [ROW_OP_PERMUTE_ADD] = {"permute_add", ROW_MEMORY},
    [ROW_OP_ADAMW] = {"adamw", ROW_MEMORY},
    [ROW_OP_ROPE] = {"rope", ROW_MEMORY},
    [ROW_OP_SILU] = {"silu", ROW_MEMORY},
    [ROW_OP_SILU_BACKWARD] = {"silu_backward", ROW_MEMORY},
    [ROW_OP_BIAS] = {"bias", ROW_MEMORY},
    [ROW_OP_MODULATE_BACKWARD] = {"modulate_backward", ROW_MEMORY},
    [ROW_OP_GATE] = {"gate", ROW_MEMORY},
    [ROW_OP_GATE_BACKWARD] = {"gate_backward", ROW_MEMORY},
    [ROW_OP_EMBEDDING] = {"embedding", ROW_MEMORY},
    [ROW_OP_EMBEDDING_BACKWARD] = {"embedding_backward", ROW_MEMORY},
    [ROW_OP_CROSS_ENTROPY] = {"cross_entropy", ROW_MEMORY},
    [ROW_OP_CROSS_ENTROPY_BACKWARD] = {"cross_entropy_backward", ROW_MEMORY},
    [ROW_OP_ALL_REDUCE] = {"all_reduce", ROW_COLLECTIVE},
    [ROW_OP_ALL_GATHER] = {"all_gather", ROW_COLLECTIVE},
    [ROW_OP_REDUCE_SCATTER] = {"reduce_scatter", ROW_COLLECTIVE},
    [ROW_OP_ALL_TO_ALL] = {"all_to_all", ROW_COLLECTIVE},
    [ROW_OP_SEND_RECV] = {"send_recv", ROW_COLLECTIVE},
    [ROW_OP_ALL_TO_ALL_UNEVEN] = {"all_to_all_uneven", ROW_COLLECTIVE},
    [ROW_OP_BARRIER] = {"barrier", ROW_COLLECTIVE},
    [ROW_OP_BROADCAST] = {"broadcast", ROW_COLLECTIVE},
    [ROW_OP_REDUCE] = {"reduce", ROW_COLLECTIVE},
    [ROW_OP_GATHER] = {"gather", ROW_COLLECTIVE},
    [ROW_OP_SCATTER] = {"scatter", ROW_COLLECTIVE},
};

static const char *const attention_columns[] = {"causal", "batch", "seqlen", "heads", "kv_heads", "head_dim", NULL};
static const char *const gemm_columns[] = {"m", "n", "k", NULL};
static const char *const memory_columns[] = {"m", "n", NULL};
static const char *const collective_columns[] = {"ranks", "nodes", "bytes", "groups", NULL};
static const char *const *const class_columns[] = {
    [ROW_ATTENTION] = attention_columns,
    [ROW_GEMM] = gemm_columns,
    [ROW_MEMORY] = memory_columns,
    [ROW_COLLECTIVE] = collective_columns,
};
enum { CLASSES = ROW_CLASSES };

/* Largest value of each shape column: their products stay within 64 bits. */
static const int64_t class_limits[CLASSES][ROW_SHAPE_MAX] = {
    [ROW_ATTENTION] = {1, 1 << 20, 1 << 28, 1 << 12, 1 << 12, 1 << 12},
    [ROW_GEMM] = {INT32_MAX, INT32_MAX, INT32_MAX},
    [ROW_MEMORY] = {INT32_MAX, INT32_MAX},
    [ROW_COLLECTIVE] = {1 << 24, 1 << 24, INT64_C(1) << 50, 1 << 24},
};

const char *row_op_name(enum row_op op) {
  ASSERT((unsigned)op < ROW_OPS);
  return ops[op].name;
}

enum row_class row_op_class(enum row_op op) {
  ASSERT((unsigned)op < ROW_OPS);
  return ops[op].class;
}

const char *row_class_name(enum row_class class) {
  static const char *const names[ROW_CLASSES] = {"attention", "gemm", "memory", "collective"};
  ASSERT((unsigned)class < ROW_CLASSES);
  return names[class];
}

bool row_is_at_once(const struct row *row) {
  return row_op_class(row->op) == ROW_COLLECTIVE && row->shape[SHAPE_GROUPS] > 1;
}

int64_t row_varlen_length(int64_t seqlen, int64_t batch, int64_t i) { return ceil_div(seqlen * (i + 1), batch); }

enum row_op row_op_find(const char *name) {
  int op = 0;
  while (op < ROW_OPS && strcmp(ops[op].name, name) != 0)
    op++;
  return (enum row_op)op;
}

const char *const *row_shape_columns(enum row_class class) {
  ASSERT((unsigned)class < CLASSES);
  return class_columns[class];
}

bool row_shape_is_optional(enum row_class class, int k) { return class == ROW_COLLECTIVE && k == SHAPE_GROUPS; }

const char *row_describe(enum row_op op, const int64_t *shape, char *buf, size_t size) {
  const char *const *columns = row_shape_columns(row_op_class(op));
  size_t n = (size_t)snprintf(buf, size, "%s", row_op_name(op));
  for (int i = 0; columns[i] && n < size; i++)
    n += (size_t)snprintf(buf + n, size - n, "%s %s %lld", i ? "," : "", columns[i], (long long)shape[i]);
  return buf;
}

void row_op_list(char *buf, size_t size) {
  size_t n = 0;
  buf[0] = '\0';
  for (int op = 0; op < ROW_OPS && n < size; op++)
    n += (size_t)snprintf(buf + n, size - n, "%s%s", op ? ", " : "", ops[op].name);
}

int64_t row_integer(const char *s) {
  int64_t v = 0;
  if (!*s)
    return -1;
  for (; *s; s++) {
    if (*s < '0' || *s > '9')
      return -1;
    v = v * 10 + (*s - '0');
    if (v > MAX_INTEGER)
      return -1;
  }
  return v;
}

double row_positive(const char *s) {
  char *end;
  if (s[strspn(s, "0123456789.eE+-")] || !*s) /* no nan, inf, hexadecimal or blanks */
    return 0;
  double v = strtod(s, &end);
  return *end == '\0' && isfinite(v) && v > 0 ? v : 0;
}

/* Indices of the columns that rows need; -1 where the file has none. */
struct places {
  int op, dtype, time_s, shape[CLASSES][ROW_SHAPE_MAX];
};

static int find_places(const struct table *t, struct places *p, struct err *err) {
  static const char *const needed[] = {"op", "dtype", "time_s"};
  char list[400];
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (table_column(t, needed[i]) < 0) {
      table_list_columns(t, list, sizeof list);
      return err_set(err, "rows '%s': no column '%s' (its columns: %s)", t->path, needed[i], list);
    }
  *p = (struct places){table_column(t, "op"), table_column(t, "dtype"), table_column(t, "time_s"), {{0}}};
  for (int c = 0; c < CLASSES; c++)
    for (int i = 0; class_columns[c][i]; i++)
      p->shape[c][i] = table_column(t, class_columns[c][i]);
  return 0;
}

/* What the numbers of one row must satisfy together. */
static int check_shape(const struct table *t, size_t i, const struct row *row, struct err *err) {
  const int64_t *s = row->shape;
  switch (row_op_class(row->op)) {
  case ROW_ATTENTION:
    if (s[SHAPE_HEADS] % s[SHAPE_KV_HEADS] != 0)
      return table_error(t, i, err, "heads (%lld) must be a multiple of kv_heads (%lld)", (long long)s[SHAPE_HEADS],
                         (long long)s[SHAPE_KV_HEADS]);
    return 0;
  case ROW_COLLECTIVE:
    if (s[SHAPE_RANKS] < s[SHAPE_NODES])
      return table_error(t, i, err, "%lld ranks cannot span %lld nodes", (long long)s[SHAPE_RANKS],
                         (long long)s[SHAPE_NODES]);
    return 0;
  case ROW_GEMM:
  case ROW_MEMORY:
    break;
  }
  return 0;
}

static bool may_be_zero(enum row_op op, int k) {
  return (row_op_class(op) == ROW_ATTENTION && k == SHAPE_CAUSAL) || (op == ROW_OP_BARRIER && k == SHAPE_BYTES);
}

static int read_shape(const struct table *t, size_t i, const struct places *p, struct row *row, struct err *err) {
  enum row_class class = row_op_class(row->op);
  for (int k = 0; class_columns[class][k]; k++) {
    const char *name = class_columns[class][k], *text = table_field(t, i, p->shape[class][k]);
    const int64_t least = may_be_zero(row->op, k) ? 0 : 1, most = class_limits[class][k];
    if (row_shape_is_optional(class, k) && !*text) {
      row->shape[k] = 1;
      continue;
    }
    if (p->shape[class][k] < 0)
      return table_error(t, i, err, "no column '%s', which %s rows need", name, row_op_name(row->op));
    row->shape[k] = row_integer(text);
    if (row->shape[k] < least || row->shape[k] > most)
      return table_error(t, i, err, "'%s' must be an integer from %lld to %lld, got '%s'", name, (long long)least,
                         (long long)most, text);
  }
  return check_shape(t, i, row, err);
}

static int read_row(const struct table *t, size_t i, const struct places *p, struct row *row, struct err *err) {
  const char *op = table_field(t, i, p->op), *time = table_field(t, i, p->time_s);
  char list[1000];
  *row = (struct row){.op = row_op_find(op), .dtype = table_field(t, i, p->dtype), .time_s = row_positive(time)};
  if (row->op == ROW_OPS) {
    row_op_list(list, sizeof list);
    return table_error(t, i, err, "unknown op '%s'; valid: %s", op, list);
  }
  if (!*row->dtype)
    return table_error(t, i, err, "'dtype' is empty");
  if (!(row->time_s > 0) || row->time_s > MAX_TIME_S)
    return table_error(t, i, err, "'time_s' must be a number of seconds above 0 and at most %g, got '%s'", MAX_TIME_S,
                       time);
  return read_shape(t, i, p, row, err);
}

static int from_table(struct rows *rows, struct err *err) {
  const struct table *t = &rows->table;
  struct places places = {0};
  if (find_places(t, &places, err))
    goto failed;
  if (t->n_rows == 0) {
    err_set(err, "rows '%s' has a header and no rows", t->path);
    goto failed;
  }
  rows->v = xcalloc(t->n_rows, sizeof *rows->v);
  for (size_t i = 0; i < t->n_rows; i++)
    if (read_row(t, i, &places, &rows->v[i], err))
      goto failed;
  return 0;
failed:
  rows_release(rows);
  return -1;
}

int rows_read(struct rows *rows, const char *path, struct err *err) {
  *rows = (struct rows){.v = NULL};
  return table_read(&rows->table, "rows", path, err) ? -1 : from_table(rows, err);
}

int rows_parse(struct rows *rows, const char *path, const char *text, struct err *err) {
  *rows = (struct rows){.v = NULL};
  return table_parse(&rows->table, "rows", path, text, err) ? -1 : from_table(rows, err);
}

void rows_release(struct rows *rows) {
  table_release(&rows->table);
  free(rows->v);
  *rows = (struct rows){.v = NULL};
}
