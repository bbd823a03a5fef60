#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/params_table.h"
#include "sim/base/json.h"
#include "sim/base/sha256.h"
#include "sim/base/share.h"
#include "sim/base/units.h"

#define SCHEMA "dcpsim.params/1"
#define NS 1e-9

static const char *const shipped[] = {"h200_sxm", "h100_sxm", NULL};

/* Shape of a table entry read from the file: numbers in (min, max]. */
static int read_numbers(const struct json_doc *doc, const json_t *object, const char *key, size_t max_n, double *out,
                        size_t *n, struct err *err) {
  json_t *array = NULL;
  if (json_get_array(doc, object, key, true, &array, err))
    return -1;
  *n = json_array_size(array);
  if (*n == 0 || *n > max_n)
    return json_error(doc, array, err, "'%s' must hold 1 to %zu numbers, got %zu", key, max_n, *n);
  for (size_t i = 0; i < *n; i++) {
    const json_t *v = json_array_get(array, i);
    out[i] = json_is_number(v) ? json_number_value(v) : 0;
    if (!(out[i] > 0) || !(out[i] < 1e18))
      return json_error(doc, v, err, "'%s' must hold positive numbers", key);
  }
  return 0;
}

static int read_axis(const struct json_doc *doc, const json_t *object, const char *key, struct axis *axis,
                     struct err *err) {
  size_t n = 0;
  if (read_numbers(doc, object, key, AXIS_MAX, axis->log, &n, err))
    return -1;
  for (size_t i = 0; i < n; i++) {
    axis->log[i] = log(axis->log[i]);
    if (i > 0 && !(axis->log[i] > axis->log[i - 1]))
      return json_error(doc, json_object_get(object, key), err, "'%s' must rise", key);
  }
  axis->n = (int)n;
  return 0;
}

/* Exactly `expected` numbers, one per node of some axes. */
static int read_column(const struct json_doc *doc, const json_t *object, const char *key, size_t expected, double *out,
                       struct err *err) {
  size_t n = 0;
  if (read_numbers(doc, object, key, expected, out, &n, err))
    return -1;
  if (n != expected)
    return json_error(doc, json_object_get(object, key), err, "'%s' must hold %zu numbers, got %zu", key, expected, n);
  return 0;
}

/* Rounding noise of rows aside, tables must rise; a running maximum along an axis of the given stride makes them. */
static void make_rise(double *v, size_t total, size_t stride, size_t n) {
  for (size_t i = 0; i < total; i++)
    if (i / stride % n > 0 && v[i] < v[i - stride])
      v[i] = v[i - stride];
}

static int read_gemm(struct gemm_table *t, const struct json_doc *doc, struct err *err) {
  static const char *const keys[] = {"source",       "formula",      "m", "n", "k", "time_ns",
                                     "wgrad_factor", "wgrad_source", NULL};
  json_t *o = NULL;
  if (json_get_object(doc, doc->root, "gemm", true, &o, err) || json_check_keys(doc, o, keys, err) ||
      read_axis(doc, o, "m", &t->m, err) || read_axis(doc, o, "n", &t->n, err) || read_axis(doc, o, "k", &t->k, err) ||
      json_get_double(doc, o, "wgrad_factor", true, 1, 10, &t->wgrad_factor, err))
    return -1;
  const struct axis *axes[3] = {&t->m, &t->n, &t->k};
  for (int i = 0; i < 3; i++)
    t->least[i] = (int64_t)floor(exp(axes[i]->log[0]) + 0.5);
  const size_t nn = (size_t)t->n.n, nk = (size_t)t->k.n, total = size_mul((size_t)t->m.n, nn * nk);
  t->log_time = xcalloc(total, sizeof *t->log_time);
  if (read_column(doc, o, "time_ns", total, t->log_time, err))
    return -1;
  for (size_t i = 0; i < total; i++)
    t->log_time[i] = log(t->log_time[i] * NS);
  make_rise(t->log_time, total, 1, nk);
  make_rise(t->log_time, total, nk, nn);
  make_rise(t->log_time, total, nn * nk, (size_t)t->m.n);
  double best = -INFINITY;
  for (size_t i = 0; i < total; i++)
    best = fmax(best, t->m.log[i / (nn * nk)] + t->n.log[i / nk % nn] + t->k.log[i % nk] - t->log_time[i]);
  t->best_flops_per_s = 2 * exp(best);
  return 0;
}

/* Backward over forward time, against keys per sequence. */
struct backward_ratio {
  struct axis keys;
  double ratio[AXIS_MAX];
};

static double ratio_at(const struct backward_ratio *r, double log_keys) {
  const struct axis_place p = axis_find(&r->keys, log_keys);
  return p.w > 0 ? (1 - p.w) * r->ratio[p.i] + p.w * r->ratio[p.i + 1] : r->ratio[p.i];
}

static double best_attention_rate(const struct attention_table *t, const double *log_time, double flops_factor) {
  double best = -INFINITY;
  for (int i = 0; i < t->keys.n; i++)
    for (int j = 0; j < t->tiles.n; j++)
      best = fmax(best, t->keys.log[i] + t->tiles.log[j] - log_time[i * t->tiles.n + j]);
  return flops_factor * (t->causal ? 2.0 : 4.0) * (double)(t->head_dim * t->tile_rows) * exp(best);
}

static int read_attention_row(struct attention_row *r, const struct json_doc *doc, const json_t *table,
                              struct err *err) {
  static const char *const keys[] = {
      "block_keys", "split_tiles", "split_slower_frac", "write_values", "write_s_per_value", "write_s_per_value_beyond",
      NULL};
  json_t *o = NULL;
  if (json_get_object(doc, table, "row", false, &o, err))
    return -1;
  if (!o)
    return 0;
  if (json_check_keys(doc, o, keys, err) || json_get_int(doc, o, "block_keys", true, 1, 65536, &r->block_keys, err) ||
      json_get_double(doc, o, "split_tiles", true, 0, 1e6, &r->split_tiles, err) ||
      json_get_double(doc, o, "split_slower_frac", true, 0, 10, &r->split_slower_frac, err) ||
      json_get_double(doc, o, "write_values", true, 0, 1e6, &r->write_values, err) ||
      json_get_double(doc, o, "write_s_per_value", true, 0, 1, &r->write_s_per_value, err))
    return -1;
  return json_get_double(doc, o, "write_s_per_value_beyond", true, 0, 1, &r->write_s_per_value_beyond, err);
}

/* (keys, tiles) log seconds from "..._ns", made to rise. */
static int read_attention_times(double **out, const struct attention_table *t, const struct json_doc *doc,
                                const json_t *o, const char *key, struct err *err) {
  const size_t n_tiles = (size_t)t->tiles.n, total = size_mul((size_t)t->keys.n, n_tiles);
  double *v = xcalloc(total, sizeof *v);
  *out = v;
  if (read_column(doc, o, key, total, v, err))
    return -1;
  for (size_t i = 0; i < total; i++)
    v[i] = log(v[i] * NS);
  make_rise(v, total, 1, n_tiles);
  make_rise(v, total, n_tiles, (size_t)t->keys.n);
  return 0;
}

static int read_attention_table(struct attention_table *t, const struct json_doc *doc, json_t *o,
                                const struct backward_ratio *ratio, struct err *err) {
  static const char *const keys[] = {"causal", "head_dim", "tile_rows", "tile_fill",  "keys",   "tiles",
                                     "row",    "formula",  "time_ns",   "grouped_ns", "source", NULL};
  if (!json_is_object(o))
    return json_error(doc, o, err, "each attention table must be an object");
  t->tile_fill = 1;
  if (json_check_keys(doc, o, keys, err) || json_get_bool(doc, o, "causal", true, &t->causal, err) ||
      json_get_int(doc, o, "head_dim", true, 1, 65536, &t->head_dim, err) ||
      json_get_int(doc, o, "tile_rows", true, 1, 65536, &t->tile_rows, err) ||
      json_get_double(doc, o, "tile_fill", false, 0, 1, &t->tile_fill, err) ||
      read_attention_row(&t->row, doc, o, err) || read_axis(doc, o, "keys", &t->keys, err) ||
      read_axis(doc, o, "tiles", &t->tiles, err) || read_attention_times(&t->log_forward, t, doc, o, "time_ns", err))
    return -1;
  if (json_object_get(o, "grouped_ns") && read_attention_times(&t->log_grouped, t, doc, o, "grouped_ns", err))
    return -1;
  const size_t n_tiles = (size_t)t->tiles.n, total = size_mul((size_t)t->keys.n, n_tiles);
  t->log_backward = xcalloc(total, sizeof(double));
  for (size_t i = 0; i < total; i++)
    t->log_backward[i] = t->log_forward[i] + log(ratio_at(ratio, t->keys.log[i / n_tiles]));
  make_rise(t->log_backward, total, 1, n_tiles);
  make_rise(t->log_backward, total, n_tiles, (size_t)t->keys.n);
  t->best_forward_flops_per_s = best_attention_rate(t, t->log_forward, 1);
  if (t->log_grouped)
    t->best_forward_flops_per_s = fmax(t->best_forward_flops_per_s, best_attention_rate(t, t->log_grouped, 1));
  t->best_backward_flops_per_s = best_attention_rate(t, t->log_backward, 2.5);
  return 0;
}

static int read_backward_ratio(struct backward_ratio *r, const struct json_doc *doc, const json_t *attention,
                               struct err *err) {
  static const char *const keys[] = {"source", "keys", "ratio", NULL};
  json_t *o = NULL;
  if (json_get_object(doc, attention, "backward_ratio", true, &o, err) || json_check_keys(doc, o, keys, err) ||
      read_axis(doc, o, "keys", &r->keys, err))
    return -1;
  return read_column(doc, o, "ratio", (size_t)r->keys.n, r->ratio, err);
}

static int read_attention(struct params *p, const struct json_doc *doc, struct err *err) {
  static const char *const keys[] = {"source", "backward_ratio", "tables", NULL};
  json_t *o = NULL, *tables = NULL;
  struct backward_ratio ratio;
  bool have[2] = {false, false};
  if (json_get_object(doc, doc->root, "attention", true, &o, err) || json_check_keys(doc, o, keys, err) ||
      read_backward_ratio(&ratio, doc, o, err) || json_get_array(doc, o, "tables", true, &tables, err))
    return -1;
  if (json_array_size(tables) > ATTENTION_TABLES_MAX)
    return json_error(doc, tables, err, "at most %d attention tables", ATTENTION_TABLES_MAX);
  for (size_t i = 0; i < json_array_size(tables); i++) {
    struct attention_table *t = &p->attention[p->n_attention++];
    json_t *entry = json_array_get(tables, i);
    if (read_attention_table(t, doc, entry, &ratio, err))
      return -1;
    if (i > 0 && (t[-1].causal > t->causal || (t[-1].causal == t->causal && t[-1].head_dim >= t->head_dim)))
      return json_error(doc, entry, err, "attention tables must be ordered by causal, then head_dim");
    have[t->causal] = true;
  }
  if (!have[0] || !have[1])
    return json_error(doc, tables, err, "needs a causal and a full attention table");
  return 0;
}

static int read_memory(struct params *p, const struct json_doc *doc, struct err *err) {
  static const char *const keys[] = {"floor_s", "floor_source", "classes", NULL};
  static const char *const classes[] = {"contiguous", "broadcast", "permute", "reduction", "mixed", "optimizer", NULL};
  static const char *const class_keys[] = {"bytes_per_s", "source", NULL};
  json_t *o = NULL, *all = NULL;
  if (json_get_object(doc, doc->root, "memory_bound", true, &o, err) || json_check_keys(doc, o, keys, err) ||
      json_get_double(doc, o, "floor_s", true, 0, 1, &p->memory_floor_s, err) ||
      json_get_object(doc, o, "classes", true, &all, err) || json_check_keys(doc, all, classes, err))
    return -1;
  for (int i = 0; i < MEMORY_CLASSES; i++) {
    json_t *c = NULL;
    if (json_get_object(doc, all, classes[i], true, &c, err) || json_check_keys(doc, c, class_keys, err) ||
        json_get_double(doc, c, "bytes_per_s", true, 1, 1e18, &p->memory_bytes_per_s[i], err))
      return -1;
    p->best_memory_bytes_per_s = fmax(p->best_memory_bytes_per_s, p->memory_bytes_per_s[i]);
  }
  return 0;
}

static int read_in_step(struct params *p, const struct json_doc *doc, struct err *err) {
  static const char *const keys[] = {"compute_derate", "host_op_s", "source", NULL};
  json_t *o = NULL, *value;
  const char *name;
  if (json_get_object(doc, doc->root, "in_step", true, &o, err))
    return -1;
  json_object_foreach(o, name, value) {
    if (p->n_in_step == IN_STEP_MAX || strlen(name) >= sizeof p->in_step[0].framework || !json_is_object(value))
      return json_error(doc, value, err, "'in_step' must hold at most %d objects, one per framework", IN_STEP_MAX);
    struct in_step_row *row = &p->in_step[p->n_in_step++];
    strcpy(row->framework, name);
    if (json_check_keys(doc, value, keys, err) ||
        json_get_double(doc, value, "compute_derate", true, 1, 10, &row->scalars.compute_derate, err) ||
        json_get_double(doc, value, "host_op_s", true, 0, 1, &row->scalars.host_op_s, err))
      return -1;
  }
  if (p->n_in_step == 0)
    return json_error(doc, o, err, "'in_step' must name at least one framework");
  return 0;
}

static int read_scalars(struct params *p, const struct json_doc *doc, struct err *err) {
  static const char *const host_keys[] = {"copy_bytes_per_s", "copy_floor_s", "source", NULL};
  static const char *const overlap_keys[] = {"slowdown_frac", "source", NULL};
  static const char *const reserve_keys[] = {"bytes", "source", NULL};
  json_t *host = NULL, *overlap = NULL, *reserve = NULL;
  if (json_get_object(doc, doc->root, "host", true, &host, err) || json_check_keys(doc, host, host_keys, err) ||
      json_get_double(doc, host, "copy_bytes_per_s", true, 1, 1e15, &p->host_bytes_per_s, err) ||
      json_get_double(doc, host, "copy_floor_s", true, 0, 1, &p->host_floor_s, err) ||
      json_get_object(doc, doc->root, "overlap", true, &overlap, err) ||
      json_check_keys(doc, overlap, overlap_keys, err) ||
      json_get_double(doc, overlap, "slowdown_frac", true, 0, 1, &p->overlap_slowdown_frac, err) ||
      json_get_object(doc, doc->root, "reserve", true, &reserve, err) ||
      json_check_keys(doc, reserve, reserve_keys, err) ||
      json_get_int(doc, reserve, "bytes", true, 0, INT64_C(1) << 40, &p->reserve_bytes, err))
    return -1;
  return 0;
}

static int collective_find(const char *name) {
  for (int i = 0; i < COLLECTIVE_KINDS; i++)
    if (strcmp(collective_name((enum collective)i), name) == 0)
      return i;
  return -1;
}

static int read_curve(struct collective_curve *c, const struct json_doc *doc, json_t *o, struct err *err) {
  static const char *const keys[] = {"op", "ranks", "nodes", "rows", "bytes", "time_s", "source", NULL};
  const char *op = "";
  int64_t ranks = 0, nodes = 0;
  if (!json_is_object(o))
    return json_error(doc, o, err, "each collective curve must be an object");
  if (json_check_keys(doc, o, keys, err) || json_get_string(doc, o, "op", true, &op, err) ||
      json_get_int(doc, o, "ranks", true, 2, 1 << 20, &ranks, err) ||
      json_get_int(doc, o, "nodes", true, 1, 1 << 20, &nodes, err) || read_axis(doc, o, "bytes", &c->bytes, err) ||
      read_column(doc, o, "time_s", (size_t)c->bytes.n, c->time_s, err))
    return -1;
  if (collective_find(op) < 0)
    return json_error(doc, json_object_get(o, "op"), err, "unknown collective '%s'", op);
  c->op = (enum collective)collective_find(op);
  c->ranks = (int)ranks;
  c->nodes = (int)nodes;
  for (int i = 0; i < c->bytes.n; i++)
    c->log_time[i] = log(c->time_s[i]);
  return 0;
}

static int read_curves(struct network_table *t, const struct json_doc *doc, const json_t *network, struct err *err) {
  json_t *curves = NULL;
  if (json_get_array(doc, network, "curves", true, &curves, err))
    return -1;
  const size_t n = json_array_size(curves);
  if (n > COLLECTIVE_CURVES_MAX)
    return json_error(doc, curves, err, "at most %d collective curves", COLLECTIVE_CURVES_MAX);
  t->curves = xcalloc(n, sizeof *t->curves);
  bool inside[COLLECTIVE_KINDS] = {false};
  for (size_t i = 0; i < n; i++) {
    struct collective_curve *c = &t->curves[t->n_curves++];
    if (read_curve(c, doc, json_array_get(curves, i), err))
      return -1;
    if (c->nodes == 1)
      inside[c->op] = true;
    if (i > 0 && c[-1].op == c->op && c[-1].nodes == c->nodes && c[-1].ranks >= c->ranks)
      return json_error(doc, json_array_get(curves, i), err, "curves of one collective must rise in ranks");
  }
  for (int op = 0; op < COLLECTIVE_KINDS; op++)
    if (!inside[op] && op != COLLECTIVE_SEND_RECV)
      return json_error(doc, curves, err, "no %s curve on one node", collective_name((enum collective)op));
  return 0;
}

static int read_inter(struct network_table *t, const struct json_doc *doc, const json_t *network, struct err *err) {
  static const char *const keys[] = {"source",     "nodes",          "all_reduce", "all_gather",
                                     "all_to_all", "reduce_scatter", "send_recv",  NULL};
  static const char *const curve_keys[] = {"nic_bytes_per_s", "floor_s", "source", NULL};
  json_t *inter = NULL;
  if (json_get_object(doc, network, "inter", true, &inter, err) || json_check_keys(doc, inter, keys, err) ||
      read_axis(doc, inter, "nodes", &t->nodes, err))
    return -1;
  for (int op = 0; op < COLLECTIVE_KINDS; op++) {
    json_t *o = NULL;
    if (json_get_object(doc, inter, collective_name((enum collective)op), true, &o, err) ||
        json_check_keys(doc, o, curve_keys, err) ||
        read_column(doc, o, "nic_bytes_per_s", (size_t)t->nodes.n, t->inter[op].nic_bytes_per_s, err) ||
        read_column(doc, o, "floor_s", (size_t)t->nodes.n, t->inter[op].floor_s, err))
      return -1;
  }
  return 0;
}

static int read_network(struct network_table *t, const struct json_doc *doc, struct err *err) {
  static const char *const keys[] = {"source",
                                     "reference_nic_bytes_per_s",
                                     "reference_nvlink_bytes_per_s",
                                     "nvlink_bytes_per_s",
                                     "curves",
                                     "inter",
                                     "ramp",
                                     NULL};
  static const char *const ramp_keys[] = {"source", "nic_bytes", "efficiency_frac", NULL};
  json_t *o = NULL, *ramp = NULL;
  if (json_get_object(doc, doc->root, "network", true, &o, err) || json_check_keys(doc, o, keys, err) ||
      json_get_double(doc, o, "reference_nic_bytes_per_s", true, 1, 1e15, &t->reference_nic_bytes_per_s, err) ||
      json_get_double(doc, o, "reference_nvlink_bytes_per_s", true, 1, 1e15, &t->reference_nvlink_bytes_per_s, err) ||
      json_get_double(doc, o, "nvlink_bytes_per_s", true, 1, 1e15, &t->nvlink_bytes_per_s, err) ||
      read_curves(t, doc, o, err) || read_inter(t, doc, o, err) || json_get_object(doc, o, "ramp", true, &ramp, err) ||
      json_check_keys(doc, ramp, ramp_keys, err) || read_axis(doc, ramp, "nic_bytes", &t->ramp_bytes, err) ||
      read_column(doc, ramp, "efficiency_frac", (size_t)t->ramp_bytes.n, t->ramp_log_efficiency, err))
    return -1;
  for (int i = 0; i < t->ramp_bytes.n; i++)
    t->ramp_log_efficiency[i] = fmin(0, log(t->ramp_log_efficiency[i]));
  return 0;
}

static int fit_kind_of(const char *operation) {
  static const char *const kernels[] = {"gemm", "attention_forward", "attention_backward"};
  for (int i = 0; i < FIT_COLLECTIVE; i++)
    if (strcmp(operation, kernels[i]) == 0)
      return i;
  for (int i = 0; i < COLLECTIVE_KINDS; i++)
    if (strcmp(operation, collective_name((enum collective)i)) == 0)
      return FIT_COLLECTIVE + i;
  return -1;
}

/* One standard deviation of a normal error with this median of its size; where most rows are met exactly, because they
 * are nodes of the table, with this 90th percentile. */
static double deviation(double median, double p90) { return median > 0.005 ? median / 0.6745 : p90 / 1.645; }

/* The fit's own record of its errors (optional: a hand-made file has none, and its quantities are then not moved). */
static int read_fit_errors(struct params *p, const struct json_doc *doc, struct err *err) {
  json_t *fit = NULL, *errors = NULL, *o;
  size_t i;
  if (json_get_object(doc, doc->root, "fit", false, &fit, err) ||
      (fit && json_get_array(doc, fit, "abs_rel_error", false, &errors, err)))
    return -1;
  json_array_foreach(errors, i, o) {
    const char *operation = "";
    double median = 0, p90 = 0;
    if (!json_is_object(o))
      return json_error(doc, o, err, "'abs_rel_error' must hold objects, one per operation");
    if (json_get_string(doc, o, "operation", true, &operation, err) ||
        json_get_double(doc, o, "median", true, 0, 1e9, &median, err) ||
        json_get_double(doc, o, "p90", true, 0, 1e9, &p90, err))
      return -1;
    int kind = fit_kind_of(operation);
    if (kind >= 0)
      p->fit_error[kind] = deviation(median, p90);
  }
  return 0;
}

static int read_all(struct params *p, const struct json_doc *doc, struct err *err) {
  static const char *const keys[] = {"schema",    "gpu",          "element_bytes", "source",  "gemm",
                                     "attention", "memory_bound", "host",          "in_step", "overlap",
                                     "reserve",   "network",      "fit",           NULL};
  const char *gpu = "";
  int64_t element_bytes = 2;
  if (json_check_keys(doc, doc->root, keys, err) || json_get_string(doc, doc->root, "gpu", true, &gpu, err))
    return -1;
  if (strlen(gpu) >= sizeof p->gpu)
    return json_error(doc, json_object_get(doc->root, "gpu"), err, "'gpu' is too long");
  strcpy(p->gpu, gpu);
  if (json_get_int(doc, doc->root, "element_bytes", false, 2, 4, &element_bytes, err))
    return -1;
  p->element_bytes = (int)element_bytes;
  if (read_gemm(&p->gemm, doc, err) || read_attention(p, doc, err) || read_memory(p, doc, err) ||
      read_in_step(p, doc, err) || read_scalars(p, doc, err) || read_network(&p->network, doc, err) ||
      read_fit_errors(p, doc, err))
    return -1;
  return 0;
}

static bool looks_like_path(const char *s) {
  size_t length = strlen(s);
  return strchr(s, '/') || (length > 5 && strcmp(s + length - 5, ".json") == 0);
}

/* The file of a shipped name or of a path, into `path`. */
static int find_file(char *path, size_t size, const char *name_or_path, struct err *err) {
  char relative[256];
  if (looks_like_path(name_or_path)) {
    if (snprintf(path, size, "%s", name_or_path) >= (int)size)
      return err_set(err, "parameters '%.60s...': path too long", name_or_path);
    return 0;
  }
  int length = snprintf(relative, sizeof relative, "calib/params/%s.json", name_or_path);
  if (*name_or_path && length < (int)sizeof relative && share_path(path, size, relative) == 0)
    return 0;
  const char *near = nearest_word(name_or_path, shipped);
  return err_usage(err,
                   "unknown parameters '%s'%s%s%s; valid: h200_sxm, h100_sxm, or a JSON file, as calibrate run and "
                   "fit make of any machine",
                   name_or_path, near ? ": did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int load_doc(struct params **out, const char *name, struct json_doc *doc, struct err *err) {
  struct params *p = xcalloc(1, sizeof *p);
  p->name = xstrdup(name);
  p->outside = xcalloc(1, sizeof *p->outside);
  sha256_hex(doc->text, strlen(doc->text), p->sha256);
  int rc = read_all(p, doc, err);
  json_doc_release(doc);
  if (rc == 0)
    *out = p;
  else
    params_free(p);
  return rc;
}

int params_load(struct params **out, const char *name_or_path, struct err *err) {
  char path[4096];
  struct json_doc doc = {0};
  if (find_file(path, sizeof path, name_or_path, err) || json_doc_read(&doc, "parameters", path, SCHEMA, err))
    return -1;
  return load_doc(out, name_or_path, &doc, err);
}

int params_parse(struct params **out, const char *name, const char *text, struct err *err) {
  struct json_doc doc = {0};
  if (json_doc_parse(&doc, "parameters", name, text, SCHEMA, err))
    return -1;
  return load_doc(out, name, &doc, err);
}

static void *copy_of(const void *v, size_t n, size_t size) {
  if (!v)
    return NULL;
  void *copy = xcalloc(n, size);
  memcpy(copy, v, n * size);
  return copy;
}

struct params *params_copy(const struct params *from) {
  struct params *p = copy_of(from, 1, sizeof *from);
  p->name = xstrdup(from->name);
  p->outside = xcalloc(1, sizeof *p->outside);
  const struct gemm_table *gemm = &from->gemm;
  p->gemm.log_time = copy_of(gemm->log_time, (size_t)gemm->m.n * (size_t)gemm->n.n * (size_t)gemm->k.n, sizeof(double));
  for (int i = 0; i < from->n_attention; i++) {
    const struct attention_table *t = &from->attention[i];
    size_t n = (size_t)t->keys.n * (size_t)t->tiles.n;
    p->attention[i].log_forward = copy_of(t->log_forward, n, sizeof(double));
    p->attention[i].log_backward = copy_of(t->log_backward, n, sizeof(double));
    p->attention[i].log_grouped = copy_of(t->log_grouped, n, sizeof(double));
  }
  p->network.curves = copy_of(from->network.curves, (size_t)from->network.n_curves, sizeof *p->network.curves);
  return p;
}

void params_free(struct params *p) {
  if (!p)
    return;
  for (int i = 0; i < p->n_attention; i++) {
    free(p->attention[i].log_forward);
    free(p->attention[i].log_backward);
    free(p->attention[i].log_grouped);
  }
  free(p->gemm.log_time);
  free(p->network.curves);
  free(p->outside);
  free(p->name);
  free(p);
}

bool params_range_warning(const struct params *p, char *text, size_t size) {
  if (!atomic_load_explicit(p->outside, memory_order_relaxed))
    return false;
  snprintf(text, size,
           "parameters '%s' were used outside their measured range: attention with a head dim beyond those measured",
           p->name);
  return true;
}

const char *params_name(const struct params *p) { return p->name; }
const char *params_sha256(const struct params *p) { return p->sha256; }
const char *params_gpu(const struct params *p) { return p->gpu; }
int params_element_bytes(const struct params *p) { return p->element_bytes; }
int64_t params_reserve_bytes(const struct params *p) { return p->reserve_bytes; }

void params_list(FILE *out) {
  for (int i = 0; shipped[i]; i++) {
    char path[4096];
    struct json_doc doc = {0};
    struct err err = {0};
    const char *source = "";
    if (find_file(path, sizeof path, shipped[i], &err) || json_doc_read(&doc, "parameters", path, SCHEMA, &err)) {
      fprintf(out, "%-10s  %s\n", shipped[i], err.msg);
      continue;
    }
    if (json_get_string(&doc, doc.root, "source", true, &source, &err))
      source = err.msg;
    fprintf(out, "%-10s  %s\n", shipped[i], source);
    json_doc_release(&doc);
  }
}
