#include <math.h>
#include <stddef.h>
#include <string.h>

#include "models/params_table.h"

struct axis_place axis_find(const struct axis *a, double log_x) {
  const int last = a->n - 1;
  if (!(log_x > a->log[0]))
    return (struct axis_place){0};
  if (log_x >= a->log[last])
    return (struct axis_place){.i = last, .beyond = log_x - a->log[last]};
  int low = 0, high = last; /* log[low] < x <= log[high]... narrowed to log[low] <= x < log[high] */
  while (high - low > 1) {
    const int mid = (low + high) / 2;
    if (log_x >= a->log[mid])
      low = mid;
    else
      high = mid;
  }
  return (struct axis_place){.i = low, .w = (log_x - a->log[low]) / (a->log[high] - a->log[low])};
}

/* One line of a table: nodes i and i + 1, the latter only where it counts (the last node has no successor). */
static inline double along(const double *v, const struct axis_place *p) {
  return p->w > 0 ? (1 - p->w) * v[p->i] + p->w * v[p->i + 1] : v[p->i];
}

static double plane(const double *v, int n_inner, const struct axis_place *outer, const struct axis_place *inner) {
  const double first = along(v + outer->i * n_inner, inner);
  if (outer->w <= 0)
    return first;
  return (1 - outer->w) * first + outer->w * along(v + (outer->i + 1) * n_inner, inner);
}

double gemm_time_s(const struct params *p, int64_t m, int64_t n, int64_t k) {
  if (m <= 0 || n <= 0 || k <= 0)
    return 0;
  const struct gemm_table *t = &p->gemm;
  const struct axis_place pm = axis_find(&t->m, log((double)m)), pn = axis_find(&t->n, log((double)n)),
                          pk = axis_find(&t->k, log((double)k));
  const double *v = t->log_time + (ptrdiff_t)pm.i * t->n.n * t->k.n;
  double log_time = plane(v, t->k.n, &pn, &pk);
  if (pm.w > 0)
    log_time = (1 - pm.w) * log_time + pm.w * plane(v + t->n.n * t->k.n, t->k.n, &pn, &pk);
  return exp(log_time + pm.beyond + pn.beyond + pk.beyond);
}

double gemm_wgrad_time_s(const struct params *p, int64_t m, int64_t n, int64_t k) {
  return p->gemm.wgrad_factor * gemm_time_s(p, m, n, k);
}

/* The two tables whose head dims enclose `head_dim` (the same twice outside the range) and the weight of the upper. */
struct head_dim_place {
  const struct attention_table *low, *high;
  double w, beyond;
};

static struct head_dim_place find_tables(const struct params *p, bool causal, int64_t head_dim) {
  struct head_dim_place at = {0};
  for (int i = 0; i < p->n_attention; i++) {
    const struct attention_table *t = &p->attention[i];
    if (t->causal != causal)
      continue;
    if (!at.low || t->head_dim <= head_dim)
      at.low = t;
    if (!at.high || at.high->head_dim < head_dim)
      at.high = t;
  }
  if (head_dim > at.high->head_dim)
    at.beyond = log((double)head_dim / (double)at.high->head_dim);
  else if (at.low != at.high && head_dim > at.low->head_dim)
    at.w = log((double)head_dim / (double)at.low->head_dim) / log((double)at.high->head_dim / (double)at.low->head_dim);
  if (at.w == 0)
    at.high = at.low;
  return at;
}

/* Query heads of one key head: their queries share tiles. */
static int64_t group_of(int64_t heads, int64_t kv_heads) { return (heads + kv_heads - 1) / kv_heads; }

/* Query tiles of `sequences` (batch * kv_heads) sequences. */
static double tiles_of(const struct attention_table *t, double sequences, int64_t rows) {
  return sequences * (double)((rows + t->tile_rows - 1) / t->tile_rows);
}

static double table_log_time(const struct attention_table *t, bool backward, double log_keys, double log_tiles) {
  const struct axis_place keys = axis_find(&t->keys, log_keys), tiles = axis_find(&t->tiles, log_tiles);
  return plane(backward ? t->log_backward : t->log_forward, t->tiles.n, &keys, &tiles) + keys.beyond + tiles.beyond;
}

static double attention_time(const struct params *p, const struct attention_shape *a, bool backward) {
  if (a->batch <= 0 || a->q_len <= 0 || a->kv_len <= 0 || a->heads <= 0 || a->kv_heads <= 0)
    return 0;
  const struct head_dim_place at = find_tables(p, a->causal, a->head_dim);
  const double sequences = (double)a->batch * (double)a->kv_heads, log_keys = log((double)a->kv_len);
  const int64_t rows = a->q_len * group_of(a->heads, a->kv_heads);
  double log_time = table_log_time(at.low, backward, log_keys, log(tiles_of(at.low, sequences, rows)));
  if (at.w > 0)
    log_time = (1 - at.w) * log_time +
               at.w * table_log_time(at.high, backward, log_keys, log(tiles_of(at.high, sequences, rows)));
  return exp(log_time + at.beyond);
}

double attention_forward_time_s(const struct params *p, const struct attention_shape *a) {
  return attention_time(p, a, false);
}

double attention_backward_time_s(const struct params *p, const struct attention_shape *a) {
  return attention_time(p, a, true);
}

double attention_forward_row_time_s(const struct params *p, const struct attention_shape *a) {
  const double time = attention_forward_time_s(p, a);
  if (!(time > 0))
    return 0;
  const struct head_dim_place at = find_tables(p, a->causal, a->head_dim);
  const double write = (1 - at.w) * at.low->key_write_s_per_byte + at.w * at.high->key_write_s_per_byte;
  return time + write * 4 * (double)a->batch * (double)a->kv_len * (double)(a->kv_heads * a->head_dim);
}

/* One launch over all sequences. Each costs its share of the query tiles of a batch of its own length that has as many
 * tiles as the whole pack: its own rate, at the pack's occupancy, and the launch floor once. Equal lengths cost exactly
 * what a padded batch costs. Never below the costliest sequence alone. */
static double varlen_table_time(const struct attention_table *t, bool backward, const uint32_t *lengths, int64_t n,
                                int64_t kv_heads, int64_t group) {
  double all_tiles = 0, sum = 0, most = 0;
  for (int64_t i = 0; i < n; i++)
    all_tiles += tiles_of(t, (double)kv_heads, lengths[i] * group);
  if (!(all_tiles > 0))
    return 0;
  const double log_all = log(all_tiles);
  uint32_t longest = 0;
  for (int64_t i = 0; i < n; i++) {
    if (lengths[i] == 0)
      continue;
    const double share = tiles_of(t, (double)kv_heads, lengths[i] * group) / all_tiles;
    sum += share * exp(table_log_time(t, backward, log((double)lengths[i]), log_all));
    longest = lengths[i] > longest ? lengths[i] : longest;
  }
  most = exp(table_log_time(t, backward, log((double)longest), log(tiles_of(t, (double)kv_heads, longest * group))));
  return fmax(sum, most);
}

struct varlen {
  bool causal;
  const uint32_t *lengths;
  int64_t n, heads, kv_heads, head_dim;
};

static double varlen_time(const struct params *p, const struct varlen *v, bool backward) {
  if (v->n <= 0 || v->heads <= 0 || v->kv_heads <= 0)
    return 0;
  const struct head_dim_place at = find_tables(p, v->causal, v->head_dim);
  const int64_t group = group_of(v->heads, v->kv_heads);
  const double low = varlen_table_time(at.low, backward, v->lengths, v->n, v->kv_heads, group);
  if (!(low > 0))
    return 0;
  if (at.w <= 0)
    return low * exp(at.beyond);
  const double high = varlen_table_time(at.high, backward, v->lengths, v->n, v->kv_heads, group);
  return exp((1 - at.w) * log(low) + at.w * log(high));
}

double attention_varlen_forward_time_s(const struct params *p, bool causal, const uint32_t *lengths, int64_t n,
                                       int64_t heads, int64_t kv_heads, int64_t head_dim) {
  const struct varlen v = {causal, lengths, n, heads, kv_heads, head_dim};
  return varlen_time(p, &v, false);
}

double attention_varlen_backward_time_s(const struct params *p, bool causal, const uint32_t *lengths, int64_t n,
                                        int64_t heads, int64_t kv_heads, int64_t head_dim) {
  const struct varlen v = {causal, lengths, n, heads, kv_heads, head_dim};
  return varlen_time(p, &v, true);
}

double memory_time_s(const struct params *p, enum memory_class class, double bytes) {
  ASSERT((unsigned)class < MEMORY_CLASSES);
  return bytes > 0 ? p->memory_floor_s + bytes / p->memory_bytes_per_s[class] : 0;
}

double host_copy_time_s(const struct params *p, double bytes) {
  return bytes > 0 ? p->host_floor_s + bytes / p->host_bytes_per_s : 0;
}

struct in_step_scalars params_in_step(const struct params *p, const char *framework) {
  for (int i = 0; i < p->n_in_step; i++)
    if (strcmp(p->in_step[i].framework, framework) == 0)
      return p->in_step[i].scalars;
  return p->in_step[0].scalars; /* a file may name one class for all */
}

double params_overlap_slowdown_frac(const struct params *p) { return p->overlap_slowdown_frac; }

double best_gemm_flops_per_s(const struct params *p) { return p->gemm.best_flops_per_s; }

/* Between tables log time is interpolated in log head_dim, and so is the log of the best rate. Below the first table
 * time is that table's, so the rate falls with head_dim. */
static double best_attention(const struct params *p, bool causal, int64_t head_dim, bool backward) {
  const struct head_dim_place at = find_tables(p, causal, head_dim);
  const double low = backward ? at.low->best_backward_flops_per_s : at.low->best_forward_flops_per_s;
  const double high = backward ? at.high->best_backward_flops_per_s : at.high->best_forward_flops_per_s;
  if (head_dim < at.low->head_dim)
    return low * (double)head_dim / (double)at.low->head_dim;
  return at.w > 0 ? exp((1 - at.w) * log(low) + at.w * log(high)) : low;
}

double best_attention_forward_flops_per_s(const struct params *p, bool causal, int64_t head_dim) {
  return best_attention(p, causal, head_dim, false);
}

double best_attention_backward_flops_per_s(const struct params *p, bool causal, int64_t head_dim) {
  return best_attention(p, causal, head_dim, true);
}

double best_memory_bytes_per_s(const struct params *p) { return p->best_memory_bytes_per_s; }
