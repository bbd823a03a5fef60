/* Collectives. One node: the rows of each collective and rank count, the faster of data types; sizes between rows
 * (powers of two) by a monotone cubic in logs, so that the bend between latency and bandwidth is kept. Several nodes:
 * logs of whole clusters as curves, made to rise; rates and floors beyond them are constants with sources. */
#include <gsl/gsl_interp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/fit_section.h"
#include "calib/monotone.h"
#include "calib/number_list.h"
#include "calib/run_file.h"
#include "models/collective.h"
#include "sim/base/text_stream.h"
#include "sim/base/units.h"

#define SIZES_MAX 128
#define LEAST_WEIGHT 0.04 /* rows of calibrate run whose median is known to half of it only do not count */

struct curve {
  enum collective op;
  int ranks, nodes;
  const char *source; /* of its rows, "" if they name none */
  size_t n, n_rows;
  double bytes[SIZES_MAX], time_s[SIZES_MAX];
};

struct curves {
  struct curve *v;
  size_t n, cap;
};

static bool collective_of(enum row_op op, enum collective *out) {
  for (int k = 0; k < COLLECTIVE_KINDS; k++)
    if (strcmp(collective_name((enum collective)k), row_op_name(op)) == 0) {
      *out = (enum collective)k;
      return true;
    }
  return false;
}

static struct curve *curve_of(struct curves *all, const struct curve *like) {
  for (size_t i = 0; i < all->n; i++) {
    struct curve *c = &all->v[i];
    if (c->op == like->op && c->ranks == like->ranks && c->nodes == like->nodes)
      return c;
  }
  VEC_PUSH(all->v, all->n, all->cap, *like);
  return &all->v[all->n - 1];
}

/* The fastest row of each size; sizes stay sorted. */
static void add_time(struct curve *c, double bytes, double time_s) {
  size_t at = 0;
  while (at < c->n && c->bytes[at] < bytes)
    at++;
  c->n_rows++;
  if (at < c->n && c->bytes[at] == bytes) {
    c->time_s[at] = fmin(c->time_s[at], time_s);
    return;
  }
  if (c->n == SIZES_MAX)
    return;
  memmove(c->bytes + at + 1, c->bytes + at, (c->n - at) * sizeof *c->bytes);
  memmove(c->time_s + at + 1, c->time_s + at, (c->n - at) * sizeof *c->time_s);
  c->bytes[at] = bytes;
  c->time_s[at] = time_s;
  c->n++;
}

static int compare_curves(const void *a, const void *b) {
  const struct curve *x = a, *y = b;
  if (x->op != y->op)
    return x->op < y->op ? -1 : 1;
  return x->nodes != y->nodes ? x->nodes - y->nodes : x->ranks - y->ranks;
}

static void collect(struct curves *all, const struct fit_source *s, const struct fit_rows *from) {
  for (size_t f = 0; f < from->n_files; f++) {
    const struct rows *rows = &from->files[f];
    const int source = table_column(&rows->table, "source");
    for (size_t i = 0; i < rows->table.n_rows; i++) {
      const int64_t *shape = rows->v[i].shape;
      struct curve like = {.n = 0};
      if (row_op_class(rows->v[i].op) != ROW_COLLECTIVE || !collective_of(rows->v[i].op, &like.op) ||
          shape[SHAPE_RANKS] < 2 || !fit_uses(s, from, f, i) || run_file_weight(rows, i) < LEAST_WEIGHT)
        continue;
      like.ranks = (int)shape[SHAPE_RANKS];
      like.nodes = (int)shape[SHAPE_NODES];
      like.source = table_field(&rows->table, i, source);
      /* The models count 2 bytes an element: of fp32 twice as much moves in the same call. */
      const double bytes = (double)shape[SHAPE_BYTES] * (s->element_bytes == 4 ? 0.5 : 1);
      add_time(curve_of(all, &like), bytes, rows->v[i].time_s);
    }
  }
  if (all->n > 0)
    qsort(all->v, all->n, sizeof *all->v, compare_curves);
}

static const struct curve *find(const struct curves *all, enum collective op, int ranks, int nodes) {
  for (size_t i = 0; i < all->n; i++)
    if (all->v[i].op == op && all->v[i].nodes == nodes && all->v[i].ranks == ranks)
      return &all->v[i];
  return NULL;
}

static void make_rise(struct curve *c) {
  for (size_t i = 0; i < c->n; i++)
    c->time_s[i] = log(c->time_s[i]);
  monotone_line(c->time_s, c->n, 1);
  for (size_t i = 0; i < c->n; i++)
    c->time_s[i] = exp(c->time_s[i]);
}

/* Log time over the sibling's, between the measured sizes around `bytes`; false where the sibling lacks one of them. */
static bool by_sibling(const struct curve *c, size_t n, const struct curve *sibling, double bytes, double *time_s) {
  size_t at = 0, places[3];
  while (at + 1 < n && c->bytes[at + 1] < bytes)
    at++;
  const double sizes[3] = {c->bytes[at], bytes, c->bytes[at + 1]};
  for (int k = 0; k < 3; k++) {
    places[k] = 0;
    while (places[k] < sibling->n && sibling->bytes[places[k]] != sizes[k])
      places[k]++;
    if (places[k] == sibling->n)
      return false;
  }
  const double w = log(bytes / sizes[0]) / log(sizes[2] / sizes[0]);
  const double ratio = (1 - w) * log(c->time_s[at] / sibling->time_s[places[0]]) +
                       w * log(c->time_s[at + 1] / sibling->time_s[places[2]]);
  *time_s = sibling->time_s[places[1]] * exp(ratio);
  return true;
}

/* Powers of two between measured sizes: as the sibling's curve bends there, else by the cubic. */
static void fill_sizes(struct curve *c, const struct curve *sibling) {
  const struct curve measured = *c;
  double x[SIZES_MAX], y[SIZES_MAX];
  const size_t n = c->n;
  if (n < 3)
    return;
  for (size_t i = 0; i < n; i++) {
    x[i] = log(c->bytes[i]);
    y[i] = log(c->time_s[i]);
  }
  gsl_interp *interp = gsl_interp_alloc(gsl_interp_steffen, n);
  gsl_interp_init(interp, x, y, n);
  for (double b = exp2(ceil(log2(measured.bytes[0]))); b < measured.bytes[n - 1]; b *= 2) {
    bool have = false;
    double time_s = exp(gsl_interp_eval(interp, x, y, log(b), NULL));
    for (size_t i = 0; i < n; i++)
      have |= measured.bytes[i] == b;
    if (have)
      continue;
    if (sibling)
      by_sibling(&measured, n, sibling, b, &time_s);
    add_time(c, b, time_s);
  }
  gsl_interp_free(interp);
}

static void write_curve(FILE *out, struct curve *c, const struct curve *sibling, bool measured) {
  const size_t rows = c->n_rows;
  if (measured || c->nodes > 1)
    make_rise(c);
  if (c->nodes == 1)
    fill_sizes(c, sibling);
  fprintf(out, "      {\n        \"source\": ");
  json_t *text = json_string(*c->source ? c->source : "nccl-tests rows, the faster of data types");
  char *dumped = json_dumps(text, JSON_ENCODE_ANY);
  fputs(dumped, out);
  free(dumped);
  json_decref(text);
  fprintf(out, ",\n        \"op\": \"%s\", \"ranks\": %d, \"nodes\": %d, \"rows\": %zu,\n        \"bytes\": ",
          collective_name(c->op), c->ranks, c->nodes, rows);
  number_list(out, c->bytes, c->n, 15, 10);
  fprintf(out, ",\n        \"time_s\": ");
  number_list(out, c->time_s, c->n, 6, 10);
  fprintf(out, "\n      }");
}

/* Share of its plateau that a NIC reaches: transfer time over (time less the latency floor), made to rise. */
static void write_ramp(FILE *out, const struct curve *c, const json_t *constants) {
  const json_t *o = json_object_get(constants, "ramp");
  const double plateau = json_number_value(json_object_get(o, "busbw_bytes_per_s")),
               floor_s = json_number_value(json_object_get(o, "floor_s")),
               least = json_number_value(json_object_get(o, "least_bytes"));
  double nic_bytes[SIZES_MAX] = {1}, share[SIZES_MAX] = {1};
  size_t n = 0;
  const double per_node = c ? (double)c->ranks / c->nodes : 1;
  for (size_t i = 0; c && i < c->n; i++) {
    if (c->bytes[i] < least)
      continue;
    nic_bytes[n] = 2 * (c->ranks - 1.0) / c->ranks * c->bytes[i] / per_node;
    share[n] = fmin(1, nic_bytes[n] / (plateau / per_node) / fmax(c->time_s[i] - floor_s, 1e-7));
    n++;
  }
  monotone_line(share, n, 1);
  fprintf(out, "{\n      \"source\": \"%s\",\n      \"nic_bytes\": ",
          c ? json_string_value(json_object_get(o, "source")) : "no rows of all_reduce on 4 nodes: always the plateau");
  number_list(out, nic_bytes, n ? n : 1, 6, 8);
  fprintf(out, ",\n      \"efficiency_frac\": ");
  number_list(out, share, n ? n : 1, 4, 8);
  fprintf(out, "\n    }");
}

static int check_enough(const struct curves *all, const char *device, struct err *err) {
  static const enum collective needed[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER,
                                           COLLECTIVE_ALL_TO_ALL};
  for (size_t k = 0; k < sizeof needed / sizeof *needed; k++)
    if (!find(all, needed[k], 2, 1))
      return err_set(err, "no %s rows of 2 ranks on one node to fit %s", collective_name(needed[k]), device);
  return 0;
}

/* Inside a node while a collective spans nodes: the all_gather of a full node. */
static double nvlink_bytes_per_s(const struct curves *all) {
  const struct curve *best = NULL;
  for (size_t i = 0; i < all->n; i++)
    if (all->v[i].op == COLLECTIVE_ALL_GATHER && all->v[i].nodes == 1)
      best = &all->v[i];
  return (best->ranks - 1.0) / best->ranks * best->bytes[best->n - 1] / best->time_s[best->n - 1];
}

char *fit_network(const struct fit_source *s, const struct json_doc *constants, struct err *err) {
  const json_t *given = json_object_get(constants->root, "network");
  struct curves all = {NULL, 0, 0}, sibling = {NULL, 0, 0};
  char *text = NULL, *inter = NULL;
  size_t size;
  collect(&all, s, &s->own);
  collect(&sibling, s, &s->sibling);
  if (check_enough(&all, s->device, err))
    goto out;
  inter = json_dumps(json_object_get(given, "inter"), JSON_INDENT(2) | JSON_REAL_PRECISION(12));
  ASSERT(inter);
  FILE *out = text_stream_begin(&text, &size);
  fprintf(out,
          "{\n    \"source\": \"one node: measured rows; several nodes: logs where the placement was measured, else "
          "latency floor + bytes through the slower of NIC and NVLink\",\n    \"reference_nic_bytes_per_s\": %.9g, "
          "\"reference_nvlink_bytes_per_s\": %.9g, \"nvlink_bytes_per_s\": %.4g,\n    \"curves\": [\n",
          json_number_value(json_object_get(given, "reference_nic_bytes_per_s")),
          json_number_value(json_object_get(given, "reference_nvlink_bytes_per_s")), nvlink_bytes_per_s(&all));
  for (size_t i = 0; i < all.n; i++) {
    write_curve(out, &all.v[i], find(&sibling, all.v[i].op, all.v[i].ranks, all.v[i].nodes), s->measured);
    fprintf(out, i + 1 < all.n ? ",\n" : "\n");
  }
  fprintf(out, "    ],\n    \"inter\": ");
  number_list_indent(out, inter, 4);
  fprintf(out, ",\n    \"ramp\": ");
  write_ramp(out, find(&all, COLLECTIVE_ALL_REDUCE, 32, 4), given);
  fprintf(out, "\n  }");
  text_stream_end(out);
out:
  free(inter);
  free(all.v);
  free(sibling.v);
  return text;
}
