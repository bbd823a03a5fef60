/* Time of one look-up of each cost function, over random shapes, and of loading a parameter file. */
#include <stdio.h>
#include <stdlib.h>

#include "models/bound.h"
#include "models/collective.h"
#include "models/memory.h"
#include "models/operation.h"
#include "sim/base/progress.h"

#define SHAPES 4096
#define ROUNDS 256

static struct params *params;
static struct cluster cluster;
static struct transformer model;
static struct system setup;
static int64_t size[SHAPES][3];

static double bench_gemm(const int64_t *v) { return gemm_time_s(params, v[0], v[1], v[2]); }

static double bench_attention(const int64_t *v) {
  struct attention_shape a = {true, v[0] & 63, v[1], v[1], 32, 8, 128};
  return attention_forward_time_s(params, &a);
}

static double bench_attention_between(const int64_t *v) {
  struct attention_shape a = {false, v[0] & 63, v[1], v[1], 16, 16, 96};
  return attention_backward_time_s(params, &a);
}

static double bench_collective(const int64_t *v) {
  return collective_cost(params, &cluster, COLLECTIVE_ALL_TO_ALL, 8, 1, (double)(v[0] * v[1])).time_s;
}

static double bench_collective_nodes(const int64_t *v) {
  return collective_cost(params, &cluster, COLLECTIVE_REDUCE_SCATTER, 32, 4, (double)(v[0] * v[1])).time_s;
}

static double bench_bound(const int64_t *v) { return bound_gpu_seconds(&setup, v[1], 1); }

static double bench_memory(const int64_t *v) {
  struct microbatch mb = {.batch = 1 + (v[0] & 7), .seqlen = v[1], .recompute_blocks = {16}};
  return (double)memory_peak_bytes(&setup, 1, &mb, true);
}

static void run(const char *name, double (*f)(const int64_t *)) {
  double sum = 0;
  int64_t start_ns = wall_clock_ns();
  for (int r = 0; r < ROUNDS; r++)
    for (int i = 0; i < SHAPES; i++)
      sum += f(size[i]);
  double ns = (double)(wall_clock_ns() - start_ns) / (ROUNDS * SHAPES);
  printf("%-32s %7.1f ns   (checksum %.6g)\n", name, ns, sum);
}

int main(void) {
  struct err err = {0};
  int64_t start_ns = wall_clock_ns();
  if (params_load(&params, "h200_sxm", &err) || cluster_load(&cluster, "h200_8x4", &err) ||
      transformer_load(&model, "llama2-7b", &err)) {
    fprintf(stderr, "%s\n", err.msg);
    return 1;
  }
  printf("%-32s %7.2f ms\n", "load parameters", (double)(wall_clock_ns() - start_ns) * 1e-6);
  setup = (struct system){.model = &model,
                          .cluster = &cluster,
                          .params = params,
                          .framework = framework_find("fused", &err),
                          .parallel = {.zero = 1, .grad_bytes = 2}};
  srand(1);
  for (int i = 0; i < SHAPES; i++)
    for (int k = 0; k < 3; k++)
      size[i][k] = 1 + (int64_t)(rand() % 1000) * (rand() % 100);
  run("gemm", bench_gemm);
  run("attention forward", bench_attention);
  run("attention between head dims", bench_attention_between);
  run("collective, one node", bench_collective);
  run("collective, four nodes", bench_collective_nodes);
  run("bound of a sample", bench_bound);
  run("memory of a micro-batch", bench_memory);
  params_free(params);
  return 0;
}
