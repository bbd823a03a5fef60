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
  int low = 0; /* log[low] <= x < log[low + n]; without branches, which nothing could predict */
  for (int n = last; n > 1; n -= n / 2)
    low += n / 2 * (log_x >= a->log[low + n / 2]);
  const int high = low + 1;
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

bool gemm_is_measured(const struct params *p, int64_t m, int64_t n, int64_t k) {
  const int64_t *least = p->gemm.least;
  return 2 * m >= least[0] && 2 * n >= least[1] && 2 * k >= least[2]; /* half a size less is no news */
}

double gemm_wgrad_time_s(const struct params *p, int64_t m, int64_t n, int64_t k) {
  return p->gemm.wgrad_factor * gemm_time_s(p, m, n, k);
}

/* For params_range_warning(). Read first: threads that only read share the line. */
static void note_head_dim(const struct params *p) {
  if (!atomic_load_explicit(p->outside, memory_order_relaxed))
    atomic_store_explicit(p->outside, true, memory_order_relaxed);
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
  const double whole = (double)((rows + t->tile_rows - 1) / t->tile_rows);
  return sequences * (t->tile_fill * whole + (1 - t->tile_fill) * (double)rows / (double)t->tile_rows);
}

static double table_log_time(const struct attention_table *t, const double *log_time, double log_keys,
                             double log_tiles) {
  const struct axis_place keys = axis_find(&t->keys, log_keys), tiles = axis_find(&t->tiles, log_tiles);
  return plane(log_time, t->tiles.n, &keys, &tiles) + keys.beyond + tiles.beyond;
}

/* The next group that the packed kernels like; 0 if there is none. */
static int64_t liked_group(int64_t group) { return group <= 4 ? 4 : group <= 8 ? 8 : group <= 16 ? 16 : 0; }

/* Forward in one table: `sequences` of q_len queries, `group` query heads on each key head. Never more than with the
 * heads filled up to a group that runs faster, so that time rises with heads. */
static double forward_log_time(const struct attention_table *t, double log_keys, double sequences, int64_t q_len,
                               int64_t group) {
  const int64_t liked = t->log_grouped ? liked_group(group) : 0;
  double time = INFINITY;
  if (liked != group)
    time = table_log_time(t, t->log_forward, log_keys, log(tiles_of(t, sequences, q_len * group)));
  if (liked)
    time = fmin(time, table_log_time(t, t->log_grouped, log_keys, log(tiles_of(t, sequences, q_len * liked))));
  return time;
}

static double one_log_time(const struct attention_table *t, const struct attention_shape *a, bool backward) {
  const double sequences = (double)a->batch * (double)a->kv_heads, log_keys = log((double)a->kv_len);
  const int64_t group = group_of(a->heads, a->kv_heads);
  if (!backward)
    return forward_log_time(t, log_keys, sequences, a->q_len, group);
  return table_log_time(t, t->log_backward, log_keys, log(tiles_of(t, sequences, a->q_len * group)));
}

static double attention_time(const struct params *p, const struct attention_shape *a, bool backward) {
  if (a->batch <= 0 || a->q_len <= 0 || a->kv_len <= 0 || a->heads <= 0 || a->kv_heads <= 0)
    return 0;
  const struct head_dim_place at = find_tables(p, a->causal, a->head_dim);
  double log_time = one_log_time(at.low, a, backward);
  if (at.w > 0)
    log_time = (1 - at.w) * log_time + at.w * one_log_time(at.high, a, backward);
  if (at.beyond > 0 || a->head_dim < at.low->head_dim)
    note_head_dim(p);
  return exp(log_time + at.beyond);
}

double attention_forward_time_s(const struct params *p, const struct attention_shape *a) {
  return attention_time(p, a, false);
}

double attention_backward_time_s(const struct params *p, const struct attention_shape *a) {
  return attention_time(p, a, true);
}

static double row_extra_s(const struct attention_table *t, const struct attention_shape *a, double time) {
  const struct attention_row *r = &t->row;
  if (r->block_keys == 0)
    return 0;
  const int64_t rows = a->q_len * group_of(a->heads, a->kv_heads);
  const double one = (double)a->kv_heads * (double)((rows + t->tile_rows - 1) / t->tile_rows);
  const double values = (double)(a->kv_heads * a->head_dim), tokens = (double)a->batch * (double)a->kv_len;
  const bool slower = one < r->split_tiles && a->kv_len > 4 * r->block_keys && one * (double)a->batch >= r->split_tiles;
  return (slower ? r->split_slower_frac * time : 0) +
         tokens * (r->write_s_per_value * fmin(values, r->write_values) +
                   r->write_s_per_value_beyond * fmax(0, values - r->write_values));
}

double attention_forward_row_time_s(const struct params *p, const struct attention_shape *a) {
  const double time = attention_forward_time_s(p, a);
  if (!(time > 0))
    return 0;
  const struct head_dim_place at = find_tables(p, a->causal, a->head_dim);
  return time + (1 - at.w) * row_extra_s(at.low, a, time) + at.w * row_extra_s(at.high, a, time);
}

/* One launch over all sequences. Each costs its share of the query tiles of a batch of its own length that has as many
 * tiles as the whole pack: its own rate, at the pack's occupancy, and the launch floor once. Equal lengths cost exactly
 * what a padded batch costs. Never below the costliest sequence alone. */
static double varlen_table_time(const struct attention_table *t, bool backward, const uint32_t *lengths, int64_t n,
                                int64_t kv_heads, int64_t group) {
  const bool grouped = !backward && t->log_grouped && liked_group(group) == group;
  const double *table = backward ? t->log_backward : grouped ? t->log_grouped : t->log_forward;
  double all_tiles = 0, sum = 0;
  for (int64_t i = 0; i < n; i++)
    all_tiles += tiles_of(t, (double)kv_heads, lengths[i] * group);
  if (!(all_tiles > 0))
    return 0;
  const struct axis_place tiles = axis_find(&t->tiles, log(all_tiles));
  uint32_t longest = 0;
  for (int64_t i = 0; i < n; i++) {
    if (lengths[i] == 0)
      continue;
    const double share = tiles_of(t, (double)kv_heads, lengths[i] * group) / all_tiles;
    const struct axis_place keys = axis_find(&t->keys, log((double)lengths[i]));
    sum += share * exp(plane(table, t->tiles.n, &keys, &tiles) + keys.beyond + tiles.beyond);
    longest = lengths[i] > longest ? lengths[i] : longest;
  }
  const double most =
      table_log_time(t, table, log((double)longest), log(tiles_of(t, (double)kv_heads, longest * group)));
  return fmax(sum, exp(most));
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
