#include "sim/engine/collectives.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/number_text.h"
#include "sim/base/units.h"
#include "sim/plan/program_time.h"

/* Sharding within a node: reduce-scatter there, then all-reduce of each shard across nodes. Gathers stay in the node,
 * and so does the gradient's norm: every node has the whole gradient. */
static struct collective_cost sharded_node_cost(const struct system *s, enum collective kind, double bytes) {
  const struct cluster *c = s->cluster;
  struct collective_cost inner = collective_cost(s->params, c, kind, c->gpus_per_node, 1, bytes);
  if (kind != COLLECTIVE_REDUCE_SCATTER || c->nodes == 1)
    return inner;
  struct collective_cost outer =
      collective_cost(s->params, c, COLLECTIVE_ALL_REDUCE, c->nodes, c->nodes, bytes / c->gpus_per_node);
  outer.time_s += inner.time_s;
  for (int k = 0; k < PORT_KINDS; k++)
    outer.load[k] = outer.load[k] > inner.load[k] ? outer.load[k] : inner.load[k];
  return outer;
}

struct collective_cost collectives_cost(const struct system *s, enum collective kind, double bytes) {
  const struct cluster *c = s->cluster;
  if (bytes <= 0)
    return (struct collective_cost){0};
  if (s->parallel.shard_node && s->parallel.zero > 0)
    return sharded_node_cost(s, kind, bytes);
  return collective_cost(s->params, c, kind, cluster_gpus(c), c->nodes, bytes);
}

int64_t collectives_ns(double seconds) { return seconds <= s_from_ns(OP_MAX_NS) ? ns_from_s(seconds) : OP_MAX_NS; }

int collectives_check(const struct system *s, enum collective kind, double bytes, struct err *err) {
  double seconds = collectives_cost(s, kind, bytes).time_s;
  if (seconds <= s_from_ns(OP_MAX_NS))
    return 0;
  return err_set(err,
                 "one %s of %.4g bytes over the %d GPUs of '%s' takes %s with parameters '%s': more than the hour "
                 "that an operation may",
                 collective_name(kind), bytes, system_world(s), s->cluster->name, duration_text(seconds).text,
                 params_name(s->params));
}

static void add(struct collectives *c, const struct system *s, const struct op *op, double bytes, int after_post) {
  struct collective_cost cost = collectives_cost(s, op->collective, bytes);
  struct step_collective sc = {.after_post = after_post,
                               .name = op->name,
                               .kind = op->collective,
                               .bytes = bytes,
                               .ns = collectives_ns(cost.time_s)};
  memcpy(sc.load, cost.load, sizeof sc.load);
  VEC_PUSH(c->v, c->n, c->cap, sc);
}

void collectives_init(struct collectives *c, const struct system *s, const struct program *p, bool unequal_counts) {
  int zero = s->parallel.zero;
  *c = (struct collectives){.every_micro_batch = zero == 3 || (zero == 2 && !unequal_counts)};
  double pending = 0;
  int posts = 0;
  const struct op *last = NULL;
  for (struct cursor at = {0}; cursor_op(p, &at); cursor_advance(p, &at)) {
    const struct op *op = cursor_op(p, &at);
    if (op->kind != OP_POST)
      continue;
    double bytes = cursor_last_repeat(p, &at) ? op->last_bytes : op->bytes;
    if (bytes < 0)
      continue;
    posts++;
    pending += bytes;
    last = op;
    if (zero < 3 && pending < (double)s->framework->grad_bucket_bytes)
      continue;
    add(c, s, op, pending, posts);
    pending = 0;
  }
  if (last && (pending > 0 || c->n == 0))
    add(c, s, last, pending, posts);
}

void collectives_release(struct collectives *c) {
  free(c->v);
  *c = (struct collectives){0};
}
