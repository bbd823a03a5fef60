#include "models/hardware.h"

#include <string.h>

#include "sim/base/json.h"

#define MAX_GPUS_PER_NODE 8
#define MAX_NODES 2048
#define MIB_BYTES (INT64_C(1) << 20)

/* One row per GPU type; a preset's name is "<prefix>_<GPUs per node>x<nodes>". */
static const struct gpu_type {
  const char *prefix;
  struct cluster cluster;
  const char *source;
} gpu_types[] = {
    {"h200",
     {.gpu = "h200_sxm",
      .memory_bytes = 143771 * MIB_BYTES,
      .peak_flops_per_s = 989.5e12,
      .nvlink_bytes_per_s = 450e9,
      .nic_bytes_per_s = 50e9,
      .oversubscription = 1},
     "NVIDIA H200 SXM data sheet; memory as the driver reports it (143771 MiB); NVLink 4; one 400 Gb/s NIC per GPU"},
    {"h100",
     {.gpu = "h100_sxm",
      .memory_bytes = 81559 * MIB_BYTES,
      .peak_flops_per_s = 989.5e12,
      .nvlink_bytes_per_s = 450e9,
      .nic_bytes_per_s = 50e9,
      .oversubscription = 1},
     "NVIDIA H100 SXM data sheet; memory as the driver reports it (81559 MiB); NVLink 4; one 400 Gb/s NIC per GPU"},
    {"cpu",
     {.gpu = "cpu",
      .memory_bytes = 4096 * MIB_BYTES,
      .peak_flops_per_s = 100e9,
      .nvlink_bytes_per_s = 10e9,
      .nic_bytes_per_s = 1.25e9,
      .oversubscription = 1},
     "processes on CPUs, for execute --device cpu: nominal figures; needs --params of calibrate run and fit"},
};
#define GPU_TYPES ((int)(sizeof gpu_types / sizeof gpu_types[0]))

static int load_file(struct cluster *out, const char *path, struct err *err) {
  static const char *const keys[] = {"schema",
                                     "name",
                                     "gpu",
                                     "gpus_per_node",
                                     "nodes",
                                     "memory_bytes",
                                     "peak_flops_per_s",
                                     "nic_bytes_per_s",
                                     "nvlink_bytes_per_s",
                                     "oversubscription",
                                     NULL};
  struct json_doc doc = {0};
  struct cluster c = {.oversubscription = 1};
  const char *name = "", *gpu = "";
  int64_t gpus_per_node = 0, nodes = 0;
  int rc = -1;
  if (json_doc_read(&doc, "cluster", path, "dcpsim.cluster/1", err))
    return -1;
  if (json_check_keys(&doc, doc.root, keys, err) || json_get_string(&doc, doc.root, "name", true, &name, err) ||
      json_get_string(&doc, doc.root, "gpu", true, &gpu, err) ||
      json_get_int(&doc, doc.root, "gpus_per_node", true, 1, MAX_GPUS_PER_NODE, &gpus_per_node, err) ||
      json_get_int(&doc, doc.root, "nodes", true, 1, MAX_NODES, &nodes, err) ||
      json_get_int(&doc, doc.root, "memory_bytes", true, 1, INT64_C(1) << 50, &c.memory_bytes, err) ||
      json_get_double(&doc, doc.root, "peak_flops_per_s", true, 1e6, 1e18, &c.peak_flops_per_s, err) ||
      json_get_double(&doc, doc.root, "nvlink_bytes_per_s", true, 1e3, 1e15, &c.nvlink_bytes_per_s, err) ||
      json_get_double(&doc, doc.root, "nic_bytes_per_s", true, 1e3, 1e15, &c.nic_bytes_per_s, err) ||
      json_get_double(&doc, doc.root, "oversubscription", false, 1, 1e3, &c.oversubscription, err))
    goto out;
  if (strlen(name) >= sizeof c.name || strlen(gpu) >= sizeof c.gpu) {
    json_error(&doc, json_object_get(doc.root, "name"), err, "'name' or 'gpu' is too long (at most %zu and %zu)",
               sizeof c.name - 1, sizeof c.gpu - 1);
    goto out;
  }
  strcpy(c.name, name);
  strcpy(c.gpu, gpu);
  c.gpus_per_node = (int)gpus_per_node;
  c.nodes = (int)nodes;
  *out = c;
  rc = 0;
out:
  json_doc_release(&doc);
  return rc;
}

/* A decimal number 1..max without sign or leading zero; advances *s past it. 0 when there is none. */
static int read_count(const char **s, int max) {
  int v = 0;
  if (**s == '0')
    return 0;
  while (**s >= '0' && **s <= '9') {
    v = v * 10 + (*(*s)++ - '0');
    if (v > max)
      return 0;
  }
  return v;
}

static bool parse_preset(struct cluster *out, const char *name) {
  for (int i = 0; i < GPU_TYPES; i++) {
    size_t length = strlen(gpu_types[i].prefix);
    if (strncmp(name, gpu_types[i].prefix, length) != 0 || name[length] != '_')
      continue;
    const char *s = name + length + 1;
    int gpus = read_count(&s, MAX_GPUS_PER_NODE);
    if (!gpus || *s++ != 'x')
      return false;
    int nodes = read_count(&s, MAX_NODES);
    if (!nodes || *s)
      return false;
    *out = gpu_types[i].cluster;
    snprintf(out->name, sizeof out->name, "%s", name);
    out->gpus_per_node = gpus;
    out->nodes = nodes;
    return true;
  }
  return false;
}

bool cluster_preset_resize(const char *preset, int nodes, char *buf, size_t size) {
  struct cluster c;
  if (!parse_preset(&c, preset) || nodes < 1 || nodes > MAX_NODES)
    return false;
  snprintf(buf, size, "%.*s%d", (int)(strrchr(preset, 'x') + 1 - preset), preset, nodes);
  return true;
}

int cluster_load(struct cluster *out, const char *name_or_path, struct err *err) {
  size_t length = strlen(name_or_path);
  if (strchr(name_or_path, '/') || (length > 5 && strcmp(name_or_path + length - 5, ".json") == 0))
    return load_file(out, name_or_path, err);
  if (parse_preset(out, name_or_path))
    return 0;
  return err_usage(
      err,
      "unknown cluster '%s'; valid: h200_GxN, h100_GxN or cpu_GxN with G = 1..%d GPUs per node and N = 1..%d nodes "
      "(h200_8x4 has 32 GPUs), or a JSON file",
      name_or_path, MAX_GPUS_PER_NODE, MAX_NODES);
}

void cluster_list(FILE *out) {
  for (int i = 0; i < GPU_TYPES; i++) {
    const struct cluster *c = &gpu_types[i].cluster;
    fprintf(out, "%s_GxN  G = 1..%d GPUs per node, N = 1..%d nodes (%s_8x4: 32 GPUs)  %6.1f GiB  %s\n",
            gpu_types[i].prefix, MAX_GPUS_PER_NODE, MAX_NODES, gpu_types[i].prefix,
            (double)c->memory_bytes / (1024.0 * 1024.0 * 1024.0), gpu_types[i].source);
  }
}
