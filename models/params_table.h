/* params_table.h: the inside of struct params, for operation.c, collective.c and params.c only.
 *
 * Tables are piecewise linear in logarithms: log time over the logs of the axes. So a table whose nodes rise along
 * every axis gives a function that rises with work, the best rate is reached at a node, and a row that is a node is
 * met. Below its first value an axis is clamped (a floor); above its last value time grows in proportion (the saturated
 * rate). */
#ifndef MODELS_PARAMS_TABLE_H
#define MODELS_PARAMS_TABLE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "models/collective.h"
#include "models/operation.h"
#include "models/params.h"

#define AXIS_MAX 128
#define ATTENTION_TABLES_MAX 16
#define IN_STEP_MAX 8
#define COLLECTIVE_CURVES_MAX 512

struct axis {
  int n;
  double log[AXIS_MAX]; /* natural, strictly rising */
};

/* Position on an axis: between nodes i and i + 1 with weight w of the latter; `beyond` = log of x over the last node.
 */
struct axis_place {
  int i;
  double w, beyond;
};
struct axis_place axis_find(const struct axis *a, double log_x);

struct gemm_table {
  struct axis m, n, k;
  double *log_time; /* (m, n, k), owned */
  double wgrad_factor, best_flops_per_s;
  int64_t least[3]; /* smallest m, n, k */
};

/* What measured rows of a serving build have besides the kernel: for checks against rows only. */
struct attention_row {
  int64_t block_keys;                    /* keys of a tile */
  double split_tiles, split_slower_frac; /* a sequence of fewer tiles and over four blocks runs slower by this */
  double write_values, write_s_per_value, write_s_per_value_beyond; /* write of K and V: up to write_values a token */
};

/* Axes: keys per sequence, and query tiles: batch * kv_heads times the tiles of a sequence, whose q_len *
 * heads/kv_heads rows share tiles. A tile that is not full costs `tile_fill` of a full one, and the rest by its rows.
 * `log_grouped` (may be NULL): 4, 8 or 16 query heads on a key head. */
struct attention_table {
  bool causal;
  int64_t head_dim, tile_rows;
  double tile_fill;
  struct axis keys, tiles;
  double *log_forward, *log_backward, *log_grouped; /* (keys, tiles), owned */
  struct attention_row row;
  double best_forward_flops_per_s, best_backward_flops_per_s;
};

/* Time of one collective against bytes, on a given placement. */
struct collective_curve {
  enum collective op;
  int ranks, nodes;
  struct axis bytes;
  double time_s[AXIS_MAX], log_time[AXIS_MAX];
};

/* Between nodes: what each NIC reaches and the latency floor, against the number of nodes. */
struct inter_curve {
  double nic_bytes_per_s[AXIS_MAX], floor_s[AXIS_MAX];
};

struct network_table {
  int n_curves;
  struct collective_curve *curves; /* measured placements, owned */
  struct axis nodes;
  struct inter_curve inter[COLLECTIVE_KINDS];
  struct axis ramp_bytes; /* bytes through one NIC */
  double ramp_log_efficiency[AXIS_MAX];
  double nvlink_bytes_per_s; /* reached inside a node while a collective spans nodes */
  double reference_nic_bytes_per_s, reference_nvlink_bytes_per_s; /* ports of the clusters that were measured */
};

struct in_step_row {
  char framework[32];
  struct in_step_scalars scalars;
};

/* Relative errors (about one standard deviation) of the fitted quantities on their rows. */
enum fit_kind {
  FIT_GEMM,
  FIT_ATTENTION_FORWARD,
  FIT_ATTENTION_BACKWARD,
  FIT_COLLECTIVE, /* + enum collective */
  FIT_KINDS = FIT_COLLECTIVE + COLLECTIVE_KINDS
};

struct params {
  char *name;
  atomic_bool *outside; /* a head dim beyond those measured was asked for; owned */
  char gpu[32], sha256[65];
  int element_bytes;
  struct gemm_table gemm;
  int n_attention;
  struct attention_table attention[ATTENTION_TABLES_MAX]; /* by causal, then head_dim */
  double memory_floor_s, memory_bytes_per_s[MEMORY_CLASSES], best_memory_bytes_per_s;
  double host_floor_s, host_bytes_per_s;
  int n_in_step;
  struct in_step_row in_step[IN_STEP_MAX];
  double overlap_slowdown_frac;
  int64_t reserve_bytes;
  struct network_table network;
  double fit_error[FIT_KINDS];
};

#endif
