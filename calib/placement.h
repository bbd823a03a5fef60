/* placement.h: how a group of ranks lies over nodes, and how many such groups run at once.
 *
 * Nodes hold equally many ranks, g, one node after another. A group of `ranks` ranks on `nodes` nodes has ranks / nodes
 * of each of its nodes, which follow each other: on one node ranks that follow each other, on several ranks that are
 * equally far apart, so that g of a node are all its ranks (SP groups larger than a node) and 1 of a node is what
 * synchronises gradients across nodes. groups 1: the first such group alone; else all disjoint ones at once. */
#ifndef CALIB_PLACEMENT_H
#define CALIB_PLACEMENT_H
#include "kernels/communicator.h"

struct placement {
  int ranks, nodes, groups;
};

struct placements {
  struct placement *v;
  size_t n, cap;
};

/* All that calibration measures: 1, 2, 4, ... and all nodes; 1, 2, 4, ... and all ranks of a node, of several nodes
 * only those that divide g; alone, and at once where there are several. Release with placements_release. */
void placements_make(struct placements *out, int nodes, int ranks_per_node);
void placements_release(struct placements *p);

/* The group of `rank` in this placement. It takes part if set.first is 0, or in groups at once if
 * rank < ranks * groups. */
struct rank_set placement_set(const struct placement *p, int ranks_per_node, int rank);

#endif
