/* hardware.h: a cluster = nodes of equal GPUs; presets by name ("h200_8x4" = 8 GPUs per node x 4 nodes) or a JSON file.
 */
#ifndef MODELS_HARDWARE_H
#define MODELS_HARDWARE_H
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

struct cluster {
  char name[64];
  char gpu[32]; /* "h200_sxm" or "h100_sxm"; also the name of the default parameter file */
  int gpus_per_node, nodes;
  int64_t memory_bytes;      /* per GPU, as the driver reports it */
  double peak_flops_per_s;   /* dense bf16, data sheet: the base of mfu_frac and hfu_frac */
  double nvlink_bytes_per_s; /* per GPU and direction */
  double nic_bytes_per_s;    /* per GPU and direction (one NIC per GPU, rail-optimised) */
  double oversubscription;   /* inter-node core capacity is nodes*gpus*nic/oversubscription; 1 = full bisection */
};

static inline int cluster_gpus(const struct cluster *c) { return c->gpus_per_node * c->nodes; }

/* `name_or_path`: "<gpu>_<per node>x<nodes>" for h200 and h100, any sizes (1..8 per node, 1..2048 nodes), or a JSON
 * file (schema dcpsim.cluster/1, same keys as the fields). An unknown name is a usage error that lists the valid ones.
 */
int cluster_load(struct cluster *out, const char *name_or_path, struct err *err);
/* The name of the preset with `nodes` nodes in place of its own; false: not a preset, or more nodes than one has. */
bool cluster_preset_resize(const char *preset, int nodes, char *buf, size_t size);
/* One line per preset, with its source. */
void cluster_list(FILE *out);

#endif
