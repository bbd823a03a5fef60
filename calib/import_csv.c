#include "calib/import_csv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/rows.h"
#include "sim/base/json.h"
#include "sim/base/units.h"

#define MAX_DISAGREEMENT 0.10
#define MAX_ROUNDING 0.05

enum role {
  ROLE_OP,
  ROLE_DTYPE,
  ROLE_CAUSAL,
  ROLE_BATCH,
  ROLE_SEQLEN,
  ROLE_HEADS,
  ROLE_KV_HEADS,
  ROLE_HEAD_DIM,
  ROLE_M,
  ROLE_N,
  ROLE_K,
  ROLE_RANKS,
  ROLE_NODES,
  ROLE_BYTES,
  ROLE_GROUPS,
  ROLE_TIME_S,
  ROLE_DEVICE,
  ROLE_LIBRARY,
  ROLE_SOURCE,
  ROLE_CHECK, /* to here: columns of the output, in this order */
  ROLE_KIND,
  ROLE_PASS,
  ROLE_HEAD_DIM_QK,
  ROLE_HEAD_DIM_VO,
  ROLE_TIME_MS,
  ROLE_TIME_US,
  ROLE_TIME_NS,
  ROLE_TFLOPS,
  ROLES
};
#define OUTPUT_ROLES (ROLE_CHECK + 1)

static const char *const role_names[ROLES] = {
    "op",   "dtype", "causal",      "batch",       "seqlen",  "heads",   "kv_heads", "head_dim", "m",      "n",
    "k",    "ranks", "nodes",       "bytes",       "groups",  "time_s",  "device",   "library",  "source", "check",
    "kind", "pass",  "head_dim_qk", "head_dim_vo", "time_ms", "time_us", "time_ns",  "tflops",
};
static const struct {
  const char *name;
  enum role role;
} other_names[] = {{"gpu", ROLE_DEVICE}, {"read_method", ROLE_CHECK}, {"tflops_as_reported", ROLE_TFLOPS}};
enum { OTHER_NAMES = sizeof other_names / sizeof *other_names };

void import_csv_list_names(char *buf, size_t size) {
  size_t n = 0;
  buf[0] = '\0';
  for (int r = 0; r < ROLES && n < size; r++)
    n += (size_t)snprintf(buf + n, size - n, "%s%s", r ? ", " : "", role_names[r]);
}

/* ROLES when there is none of this name. */
static enum role find_role(const char *name) {
  for (int i = 0; i < OTHER_NAMES; i++)
    if (strcmp(other_names[i].name, name) == 0)
      return other_names[i].role;
  int r = 0;
  while (r < ROLES && strcmp(role_names[r], name) != 0)
    r++;
  return (enum role)r;
}

/* ---- Which column plays which role ---- */

struct input {
  struct table table;
  int column[ROLES]; /* -1: none */
};

static const char *field(const struct input *in, size_t row, enum role role) {
  return table_field(&in->table, row, in->column[role]);
}

/* One COLUMN=NAME; `pair` is cut in two. */
static int map_pair(struct input *in, char *pair, struct err *err) {
  char list[500], *equals = strrchr(pair, '=');
  if (!equals || equals == pair)
    return err_usage(err, "--map takes COLUMN=NAME[,COLUMN=NAME...], got '%s'", pair);
  *equals = '\0';
  enum role role = find_role(equals + 1);
  int column = table_column(&in->table, pair);
  if (role == ROLES) {
    import_csv_list_names(list, sizeof list);
    return err_usage(err, "--map %s=%s: no such name; valid: %s", pair, equals + 1, list);
  }
  if (column < 0) {
    table_list_columns(&in->table, list, sizeof list);
    return err_usage(err, "--map %s=%s: table '%s' has no such column (there are %s)", pair, equals + 1, in->table.path,
                     list);
  }
  for (int r = 0; r < ROLES; r++)
    if (in->column[r] == column)
      in->column[r] = -1; /* what it is by its own name, it is no longer */
  in->column[role] = column;
  return 0;
}

static int map_columns(struct input *in, const char *map, struct err *err) {
  for (int r = 0; r < ROLES; r++)
    in->column[r] = -1;
  for (size_t c = in->table.n_columns; c-- > 0;) { /* backwards: of two columns of one role the first counts */
    enum role role = find_role(in->table.columns[c]);
    if (role != ROLES)
      in->column[role] = (int)c;
  }
  char *copy = xstrdup(map ? map : ""), *rest = copy, *pair;
  int rc = 0;
  while (rc == 0 && (pair = strsep(&rest, ",")))
    if (*pair || rest)
      rc = map_pair(in, pair, err);
  free(copy);
  return rc;
}

static int check_columns(const struct input *in, struct err *err) {
  static const enum role times[] = {ROLE_TIME_S, ROLE_TIME_MS, ROLE_TIME_US, ROLE_TIME_NS, ROLE_TFLOPS};
  char list[400];
  bool has_time = false;
  table_list_columns(&in->table, list, sizeof list);
  if (in->column[ROLE_OP] < 0)
    return err_set(err, "table '%s': no column 'op' (there are %s); --map COLUMN=op names it", in->table.path, list);
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    has_time = has_time || in->column[times[i]] >= 0;
  if (!has_time)
    return err_set(err, "table '%s': no column time_s, time_ms, time_us, time_ns or tflops (there are %s)",
                   in->table.path, list);
  return 0;
}

/* ---- One row ---- */

struct converted {
  enum row_op op;
  size_t row;
  double time_s;
  bool from_flops;
};

static enum row_op with_pass(enum row_op forward, enum row_op backward, const char *pass) {
  if (!*pass || strcmp(pass, "fwd") == 0 || strcmp(pass, "forward") == 0)
    return forward;
  return strcmp(pass, "bwd") == 0 || strcmp(pass, "backward") == 0 ? backward : ROW_OPS;
}

static bool starts_with(const char *s, const char *prefix) { return strncmp(s, prefix, strlen(prefix)) == 0; }

/* ROW_OPS: not an operation of ours. */
static enum row_op operation(const struct input *in, size_t i) {
  const char *op = field(in, i, ROLE_OP), *kind = field(in, i, ROLE_KIND), *pass = field(in, i, ROLE_PASS);
  if (!*kind)
    return row_op_find(op);
  if (strcmp(kind, "gemm") == 0)
    return with_pass(ROW_OP_GEMM, ROW_OPS, pass);
  if (strcmp(kind, "norm") != 0)
    return ROW_OPS;
  if (starts_with(op, "rms_norm") || starts_with(op, "rmsnorm"))
    return with_pass(ROW_OP_RMSNORM, ROW_OP_RMSNORM_BACKWARD, pass);
  if (starts_with(op, "layer_norm") || starts_with(op, "layernorm"))
    return with_pass(ROW_OP_LAYERNORM, ROW_OP_LAYERNORM_BACKWARD, pass);
  return ROW_OPS;
}

static const char *head_dim(const struct input *in, size_t i) {
  const char *qk = field(in, i, ROLE_HEAD_DIM_QK), *vo = field(in, i, ROLE_HEAD_DIM_VO);
  if (*field(in, i, ROLE_HEAD_DIM) || strcmp(qk, vo) != 0)
    return field(in, i, ROLE_HEAD_DIM);
  return qk;
}

/* The text of an output column of the row, time apart. */
static const char *output_text(const struct input *in, const struct converted *c, enum role role) {
  if (role == ROLE_OP)
    return row_op_name(c->op);
  if (role == ROLE_HEAD_DIM && row_op_class(c->op) == ROW_ATTENTION)
    return head_dim(in, c->row);
  return field(in, c->row, role);
}

/* Why the shape is unusable, or NULL. */
static const char *shape_problem(const struct input *in, const struct converted *c) {
  const char *const *columns = row_shape_columns(row_op_class(c->op));
  if (!*field(in, c->row, ROLE_DTYPE))
    return "no data type";
  for (int k = 0; columns[k]; k++) {
    const char *text = output_text(in, c, find_role(columns[k]));
    int64_t v = row_integer(text);
    if (row_shape_is_optional(row_op_class(c->op), k) && !*text)
      continue;
    if (strcmp(columns[k], "causal") == 0 && v != 0 && v != 1)
      return "the mask is unknown ('causal' is neither 0 nor 1)";
    if (strcmp(columns[k], "head_dim") == 0 && v < 1)
      return "no head_dim, or head_dim_qk and head_dim_vo differ";
    if (v < 0 || (v < 1 && strcmp(columns[k], "causal") != 0))
      return "a number of the shape is missing";
  }
  return NULL;
}

static double shape_number(const struct input *in, const struct converted *c, enum role role) {
  return (double)row_integer(output_text(in, c, role));
}

/* FLOPs that the sources count (see the header); 0: no convention for this operation. */
static double counted_flops(const struct input *in, const struct converted *c) {
  if (c->op == ROW_OP_GEMM)
    return 2 * shape_number(in, c, ROLE_M) * shape_number(in, c, ROLE_N) * shape_number(in, c, ROLE_K);
  if (row_op_class(c->op) != ROW_ATTENTION)
    return 0;
  double length = shape_number(in, c, ROLE_SEQLEN);
  double forward = 4 * shape_number(in, c, ROLE_BATCH) * shape_number(in, c, ROLE_HEADS) * length * length *
                   shape_number(in, c, ROLE_HEAD_DIM) / (shape_number(in, c, ROLE_CAUSAL) > 0 ? 2 : 1);
  return forward * (c->op == ROW_OP_ATTENTION_FORWARD ? 1 : c->op == ROW_OP_ATTENTION_BACKWARD ? 2.5 : 3.5);
}

/* The most that rounding to the printed digits can have changed a number, relative to it. */
static double rounding(const char *text) {
  const char *point = strchr(text, '.');
  if (strpbrk(text, "eE"))
    return 0;
  size_t decimals = point ? strlen(point + 1) : 0;
  return decimals ? 0.5 * pow(10, -(double)decimals) / strtod(text, NULL) : 0;
}

/* The time that the table states, in seconds: its decimal digits with another exponent, so that 0.035 ms is 3.5e-05. 0:
 * none, or not a number above 0. */
static double stated_time_s(const struct input *in, size_t i, const char **text) {
  static const struct {
    enum role role;
    int exponent;
  } units[] = {{ROLE_TIME_S, 0}, {ROLE_TIME_MS, -3}, {ROLE_TIME_US, -6}, {ROLE_TIME_NS, -9}};
  enum { UNITS = sizeof units / sizeof *units };
  char buf[80];
  int u = 0;
  while (u < UNITS && !*field(in, i, units[u].role))
    u++;
  *text = u < UNITS ? field(in, i, units[u].role) : "";
  int mantissa = (int)strcspn(*text, "eE");
  if (!(row_positive(*text) > 0) || mantissa > 60)
    return 0;
  int exponent = units[u].exponent + ((*text)[mantissa] ? atoi(*text + mantissa + 1) : 0);
  snprintf(buf, sizeof buf, "%.*se%d", mantissa, *text, exponent);
  return row_positive(buf);
}

/* Fills the row's time; why it has none, or NULL. */
static const char *time_problem(const struct input *in, struct converted *c) {
  const char *text, *tflops_text = field(in, c->row, ROLE_TFLOPS);
  double tflops = row_positive(tflops_text), flops = counted_flops(in, c);
  c->time_s = stated_time_s(in, c->row, &text);
  if (*text && !(c->time_s > 0))
    return "the time is not a number above 0";
  if (*text && rounding(text) > MAX_ROUNDING)
    return "the time is printed too coarsely (rounding alone is more than 5 %)";
  if (*text && tflops > 0 && flops > 0 && fabs(flops / c->time_s / (tflops * 1e12) - 1) > MAX_DISAGREEMENT)
    return "time and TFLOP/s disagree (windowed attention, or other FLOPs counted)";
  if (*text)
    return NULL;
  if (*tflops_text && !(tflops > 0))
    return "the TFLOP/s are not one number";
  if (!(tflops > 0) || !(flops > 0))
    return "neither a time nor TFLOP/s of a known shape";
  c->time_s = flops / (tflops * 1e12);
  c->from_flops = true;
  return NULL;
}

static const char *convert(const struct input *in, size_t i, struct converted *c) {
  *c = (struct converted){.row = i, .op = operation(in, i)};
  if (c->op == ROW_OPS)
    return "the operation is none of measured rows (a bandwidth without bytes, say)";
  const char *problem = shape_problem(in, c);
  return problem ? problem : time_problem(in, c);
}

/* ---- Output ---- */

static bool is_used(const struct input *in, const struct converted *rows, size_t n, enum role role) {
  if (role == ROLE_OP || role == ROLE_DTYPE || role == ROLE_TIME_S)
    return true;
  bool is_shape = role < ROLE_TIME_S;
  for (size_t i = 0; i < n; i++) {
    const enum row_class class = row_op_class(rows[i].op);
    const char *const *columns = row_shape_columns(class);
    if (!is_shape && *output_text(in, &rows[i], role))
      return true;
    if (role == ROLE_CHECK && rows[i].from_flops)
      return true;
    for (int k = 0; is_shape && columns[k]; k++)
      if (strcmp(columns[k], role_names[role]) == 0 &&
          (!row_shape_is_optional(class, k) || *output_text(in, &rows[i], role)))
        return true;
  }
  return false;
}

static bool has_shape_column(const struct converted *c, enum role role) {
  const char *const *columns = row_shape_columns(row_op_class(c->op));
  for (int k = 0; columns[k]; k++)
    if (strcmp(columns[k], role_names[role]) == 0)
      return true;
  return role < ROLE_CAUSAL || role >= ROLE_TIME_S;
}

static void put_column(FILE *out, const struct input *in, const struct converted *c, enum role role) {
  char buf[600];
  const char *text = has_shape_column(c, role) ? output_text(in, c, role) : "";
  if (role == ROLE_TIME_S) {
    double_text(c->time_s, buf);
    text = buf;
  } else if (role == ROLE_CHECK && c->from_flops) {
    snprintf(buf, sizeof buf, "%s%stime from TFLOP/s", text, *text ? "; " : "");
    text = buf;
  }
  table_put_field(out, text);
}

static void write_rows(FILE *out, const struct input *in, const struct converted *rows, size_t n) {
  bool used[OUTPUT_ROLES];
  for (int r = 0; r < OUTPUT_ROLES; r++) {
    used[r] = is_used(in, rows, n, (enum role)r);
    if (used[r])
      fprintf(out, "%s%s", r ? "," : "", role_names[r]);
  }
  fputc('\n', out);
  for (size_t i = 0; i < n; i++) {
    for (int r = 0; r < OUTPUT_ROLES; r++) {
      if (!used[r])
        continue;
      if (r)
        fputc(',', out);
      put_column(out, in, &rows[i], (enum role)r);
    }
    fputc('\n', out);
  }
}

/* ---- Rows left out, by reason (static strings) ---- */

#define REASONS_MAX 16
struct reason {
  const char *why;
  int64_t line; /* of the first */
  size_t rows;
};

static void count_reason(struct reason *reasons, const char *why, int64_t line) {
  int k = 0;
  while (k < REASONS_MAX - 1 && reasons[k].why && reasons[k].why != why)
    k++;
  if (!reasons[k].rows++)
    reasons[k] = (struct reason){why, line, 1};
}

static void warn_reasons(const struct reason *reasons, const char *path, const struct warning_sink *warnings) {
  for (int k = 0; k < REASONS_MAX && reasons[k].why; k++)
    warning_put(warnings, "table '%s': %zu row%s left out (first: line %lld): %s", path, reasons[k].rows,
                reasons[k].rows == 1 ? "" : "s", (long long)reasons[k].line, reasons[k].why);
}

int import_csv(const char *path, FILE *out, const struct import_csv_options *options, struct import_csv_result *result,
               struct err *err) {
  struct input in;
  struct converted *rows = NULL;
  struct reason reasons[REASONS_MAX] = {{0}};
  size_t cap = 0;
  int rc = -1;
  *result = (struct import_csv_result){0};
  if (table_read(&in.table, "table", path, err))
    return -1;
  if (map_columns(&in, options->map, err) || check_columns(&in, err))
    goto out;
  for (size_t i = 0; i < in.table.n_rows; i++) {
    struct converted one;
    const char *problem = convert(&in, i, &one);
    if (problem) {
      count_reason(reasons, problem, in.table.lines[i]);
      result->rows_left_out++;
      continue;
    }
    result->rows_from_flops += one.from_flops;
    VEC_PUSH(rows, result->rows, cap, one);
  }
  if (result->rows == 0) {
    err_set(err, "table '%s': none of %zu rows can be converted%s%s", in.table.path, in.table.n_rows,
            reasons->why ? ": " : "", reasons->why ? reasons->why : "");
    goto out;
  }
  warn_reasons(reasons, in.table.path, options->warnings);
  write_rows(out, &in, rows, result->rows);
  rc = 0;
out:
  free(rows);
  table_release(&in.table);
  return rc;
}
