#include "models/collective.h"

#include <math.h>

#include "models/params_table.h"

const char *collective_name(enum collective c) {
  static const char *const names[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"};
  ASSERT((unsigned)c < COLLECTIVE_KINDS);
  return names[c];
}

/* Exactly the row's time at a row's size; log-log between rows; the first row's time below, the last row's rate above.
 */
static double curve_time(const struct collective_curve *c, double log_bytes) {
  const struct axis_place at = axis_find(&c->bytes, log_bytes);
  if (at.w > 0)
    return exp((1 - at.w) * c->log_time[at.i] + at.w * c->log_time[at.i + 1]);
  return at.beyond > 0 ? c->time_s[at.i] * exp(at.beyond) : c->time_s[at.i];
}

static const struct collective_curve *find_curve(const struct network_table *t, enum collective op, int ranks,
                                                 int nodes) {
  for (int i = 0; i < t->n_curves; i++)
    if (t->curves[i].op == op && t->curves[i].ranks == ranks && t->curves[i].nodes == nodes)
      return &t->curves[i];
  return NULL;
}

static bool has_curve(const struct network_table *t, enum collective op) {
  for (int i = 0; i < t->n_curves; i++)
    if (t->curves[i].op == op && t->curves[i].nodes == 1)
      return true;
  return false;
}

/* Between measured rank counts of one node: log time in log ranks; outside them: the nearest. */
static double time_by_ranks(const struct network_table *t, enum collective op, int ranks, double log_bytes) {
  const struct collective_curve *low = NULL, *high = NULL;
  for (int i = 0; i < t->n_curves; i++) {
    const struct collective_curve *c = &t->curves[i];
    if (c->op != op || c->nodes != 1)
      continue;
    if (!low || c->ranks <= ranks)
      low = c;
    if (!high || high->ranks < ranks)
      high = c;
  }
  if (low == high || ranks <= low->ranks)
    return curve_time(low, log_bytes);
  if (ranks >= high->ranks)
    return curve_time(high, log_bytes);
  const double w = log((double)ranks / low->ranks) / log((double)high->ranks / low->ranks);
  return exp((1 - w) * log(curve_time(low, log_bytes)) + w * log(curve_time(high, log_bytes)));
}

/* One node. Without rows of its own, a ring's send and receive is half of a two-rank all-gather of twice the bytes:
 * each rank sends its half. */
static double intra_time(const struct network_table *t, const struct cluster *c, enum collective op, int ranks,
                         double bytes) {
  if (op == COLLECTIVE_SEND_RECV && !has_curve(t, op))
    return intra_time(t, c, COLLECTIVE_ALL_GATHER, 2, 2 * bytes);
  const double time = time_by_ranks(t, op, ranks, log(bytes));
  if (c->nvlink_bytes_per_s == t->reference_nvlink_bytes_per_s)
    return time;
  const double floor = time_by_ranks(t, op, ranks, 0);
  return floor + (time - floor) * t->reference_nvlink_bytes_per_s / c->nvlink_bytes_per_s;
}

/* Bytes that each member sends through its ports. */
struct port_bytes {
  double nvlink, nic;
};

static struct port_bytes bytes_sent(enum collective op, int ranks, int nodes, double bytes) {
  const double n = ranks, per_node = (double)ranks / nodes, others = (n - 1) / n;
  const double local = (per_node - 1) / per_node; /* of a ring's hops, those inside a node */
  const bool spans = nodes > 1;
  switch (op) {
  case COLLECTIVE_ALL_REDUCE:
    if (!spans)
      return (struct port_bytes){.nvlink = 2 * others * bytes};
    return (struct port_bytes){.nvlink = 2 * others * bytes * local, .nic = 2 * others * bytes / per_node};
  case COLLECTIVE_ALL_GATHER:
  case COLLECTIVE_REDUCE_SCATTER:
    if (!spans)
      return (struct port_bytes){.nvlink = others * bytes};
    return (struct port_bytes){.nvlink = others * bytes * local, .nic = others * bytes / per_node};
  case COLLECTIVE_ALL_TO_ALL:
    return (struct port_bytes){.nvlink = bytes * (per_node - 1) / n, .nic = bytes * (1 - 1.0 / nodes)};
  case COLLECTIVE_SEND_RECV:
    return (struct port_bytes){.nvlink = per_node > 1 ? bytes : 0, .nic = spans ? bytes : 0};
  case COLLECTIVE_KINDS:
    break;
  }
  ASSERT(!"a known collective");
  return (struct port_bytes){0};
}

/* A column against the number of nodes; beyond the last: bandwidth stays, a floor keeps growing. */
static double by_nodes(const struct network_table *t, const double *v, int nodes, bool grows) {
  const struct axis_place at = axis_find(&t->nodes, log((double)nodes));
  if (at.w > 0)
    return exp((1 - at.w) * log(v[at.i]) + at.w * log(v[at.i + 1]));
  if (at.beyond <= 0 || !grows || at.i == 0)
    return v[at.i];
  const double slope = log(v[at.i] / v[at.i - 1]) / (t->nodes.log[at.i] - t->nodes.log[at.i - 1]);
  return v[at.i] * exp(slope * at.beyond);
}

/* Share of its bandwidth that a NIC reaches when `bytes` pass through it in one collective. */
static double ramp(const struct network_table *t, double bytes) {
  const struct axis_place at = axis_find(&t->ramp_bytes, log(bytes));
  const double *v = t->ramp_log_efficiency;
  return exp(at.w > 0 ? (1 - at.w) * v[at.i] + at.w * v[at.i + 1] : v[at.i]);
}

/* Several nodes: latency floor + the slower of NIC and NVLink; a measured curve where this placement has one. */
static double inter_time(const struct network_table *t, const struct cluster *c, enum collective op, int ranks,
                         int nodes, double bytes) {
  const struct collective_curve *curve = find_curve(t, op, ranks, nodes);
  if (curve && c->nic_bytes_per_s == t->reference_nic_bytes_per_s &&
      c->nvlink_bytes_per_s == t->reference_nvlink_bytes_per_s)
    return curve_time(curve, log(bytes));
  const struct port_bytes sent = bytes_sent(op, ranks, nodes, bytes);
  const double nic =
      by_nodes(t, t->inter[op].nic_bytes_per_s, nodes, false) * c->nic_bytes_per_s / t->reference_nic_bytes_per_s;
  const double nvlink = t->nvlink_bytes_per_s * c->nvlink_bytes_per_s / t->reference_nvlink_bytes_per_s;
  const double floor = by_nodes(t, t->inter[op].floor_s, nodes, true);
  return floor + fmax(sent.nic / (nic * ramp(t, sent.nic)), sent.nvlink / nvlink);
}

static double at_most_one(double v) { return v < 1 ? v : 1; }

struct collective_cost collective_cost(const struct params *p, const struct cluster *c, enum collective kind, int ranks,
                                       int nodes, double bytes) {
  struct collective_cost cost = {0};
  ASSERT(ranks >= 1 && nodes >= 1 && ranks % nodes == 0);
  if (ranks == 1 || !(bytes > 0))
    return cost;
  const struct port_bytes sent = bytes_sent(kind, ranks, nodes, bytes);
  double core_s = 0; /* time that the oversubscribed core needs for all members' bytes */
  if (nodes == 1) {
    cost.time_s = intra_time(&p->network, c, kind, ranks, bytes);
    cost.load[PORT_NVLINK] = 1;
    return cost;
  }
  cost.time_s = inter_time(&p->network, c, kind, ranks, nodes, bytes);
  if (c->oversubscription > 1)
    core_s = sent.nic * ranks * c->oversubscription / (cluster_gpus(c) * c->nic_bytes_per_s);
  cost.time_s = fmax(cost.time_s, core_s);
  const double nvlink = sent.nvlink / c->nvlink_bytes_per_s, nic = sent.nic / c->nic_bytes_per_s;
  cost.load[PORT_NVLINK] = at_most_one(nvlink / cost.time_s);
  cost.load[PORT_NIC] = at_most_one(nic / cost.time_s);
  cost.load[PORT_CORE] = at_most_one(core_s / cost.time_s);
  enum port bottleneck = nvlink > nic ? PORT_NVLINK : PORT_NIC;
  if (core_s >= cost.time_s)
    bottleneck = PORT_CORE;
  cost.load[bottleneck] = 1;
  return cost;
}
