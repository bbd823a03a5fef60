#include "calib/placement.h"

#include <stdlib.h>

#include "sim/base/units.h"

/* After n: the next power of two, or `last`; 0 after it. */
static int next_count(int n, int last) {
  if (n == last)
    return 0;
  return 2 * n < last ? 2 * n : last;
}

/* Disjoint groups that lie alike: none crosses from one node (or one aligned block of nodes) to the next. */
static int groups_at_once(const struct placement *p, int nodes, int ranks_per_node) {
  if (p->nodes == 1)
    return ranks_per_node % p->ranks == 0 ? nodes * (ranks_per_node / p->ranks) : 1;
  return nodes / p->nodes * (ranks_per_node / (p->ranks / p->nodes));
}

void placements_make(struct placements *out, int nodes, int ranks_per_node) {
  *out = (struct placements){.v = NULL};
  for (int m = 1; m; m = next_count(m, nodes))
    for (int k = 1; k; k = next_count(k, ranks_per_node)) {
      struct placement p = {.ranks = m * k, .nodes = m, .groups = 1};
      if (p.ranks == 1 || (m > 1 && ranks_per_node % k != 0))
        continue;
      VEC_PUSH(out->v, out->n, out->cap, p);
      p.groups = groups_at_once(&p, nodes, ranks_per_node);
      if (p.groups > 1)
        VEC_PUSH(out->v, out->n, out->cap, p);
    }
}

void placements_release(struct placements *p) {
  free(p->v);
  *p = (struct placements){.v = NULL};
}

struct rank_set placement_set(const struct placement *p, int ranks_per_node, int rank) {
  return rank_set_of(rank, p->ranks, p->nodes == 1 ? 1 : ranks_per_node / (p->ranks / p->nodes));
}
