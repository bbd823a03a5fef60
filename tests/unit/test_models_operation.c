/* Operation and collective times: limits, monotone in work, rows met, and nothing beats the lower bound. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models/bound.h"
#include "models/collective.h"
#include "models/operation.h"
#include "sim/base/share.h"

static const char *const gpus[] = {"h200_sxm", "h100_sxm"};

static struct params *load(const char *name) {
  struct params *p = NULL;
  struct err err = {0};
  cr_assert_eq(params_load(&p, name, &err), 0, "%s", err.msg);
  return p;
}

static uint64_t state = 88172645463325252u;

static double uniform(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)(state >> 11) / 9007199254740992.0;
}

static int64_t log_uniform(double low, double high) { return (int64_t)exp(log(low) + uniform() * log(high / low)); }

Test(models_operation, gemm_is_monotone_and_bounded) {
  for (int g = 0; g < 2; g++) {
    struct params *p = load(gpus[g]);
    const double best = best_gemm_flops_per_s(p);
    cr_expect(best > 600e12 && best < 989.5e12, "%g", best);
    for (int i = 0; i < 20000; i++) {
      int64_t m = log_uniform(1, 3e5), n = log_uniform(1, 3e5), k = log_uniform(1, 3e5);
      double t = gemm_time_s(p, m, n, k), more = t * (1 + 1e-9);
      cr_assert(t > 1e-6 && t * best >= 2.0 * (double)m * (double)n * (double)k * (1 - 1e-9), "%ld %ld %ld", (long)m,
                (long)n, (long)k);
      cr_assert(gemm_time_s(p, m + log_uniform(1, 1e4), n, k) * (1 + 1e-9) >= t);
      cr_assert(gemm_time_s(p, m, n + log_uniform(1, 1e4), k) * (1 + 1e-9) >= t);
      cr_assert(gemm_time_s(p, m, n, k + log_uniform(1, 1e4)) * (1 + 1e-9) >= t);
      cr_assert(gemm_wgrad_time_s(p, m, n, k) * (1 + 1e-9) >= t && more > 0);
    }
    cr_expect_eq(gemm_time_s(p, 0, 5, 5), 0);
    /* saturated: in proportion */
    cr_expect_float_eq(gemm_time_s(p, 1 << 20, 8192, 8192) / gemm_time_s(p, 1 << 19, 8192, 8192), 2, 1e-9);
    params_free(p);
  }
}

static struct attention_shape random_shape(void) {
  static const int64_t dims[] = {16, 64, 72, 80, 96, 128, 192, 256, 512};
  struct attention_shape a = {.causal = uniform() < 0.5, .batch = log_uniform(1, 512), .q_len = log_uniform(1, 2e6)};
  a.kv_heads = log_uniform(1, 16);
  a.heads = a.kv_heads * log_uniform(1, 9);
  a.head_dim = dims[(int)(uniform() * 9)];
  a.kv_len = a.causal || uniform() < 0.5 ? a.q_len : log_uniform(1, 1e5);
  return a;
}

Test(models_operation, attention_is_monotone_and_bounded) {
  for (int g = 0; g < 2; g++) {
    struct params *p = load(gpus[g]);
    for (int i = 0; i < 20000; i++) {
      struct attention_shape a = random_shape(), b = a;
      double f = attention_forward_time_s(p, &a), w = attention_backward_time_s(p, &a);
      double flops =
          (a.causal ? 2.0 : 4.0) * (double)(a.batch * a.heads * a.head_dim) * (double)a.q_len * (double)a.kv_len;
      cr_assert(f > 1e-6 && w >= f * (1 - 1e-9));
      cr_assert(f * best_attention_forward_flops_per_s(p, a.causal, a.head_dim) >= flops * (1 - 1e-9));
      cr_assert(w * best_attention_backward_flops_per_s(p, a.causal, a.head_dim) >= 2.5 * flops * (1 - 1e-9));
      b.batch += log_uniform(1, 100);
      cr_assert(attention_forward_time_s(p, &b) * (1 + 1e-9) >= f &&
                attention_backward_time_s(p, &b) * (1 + 1e-9) >= w);
      b = a;
      b.q_len = b.kv_len = a.q_len > a.kv_len ? a.q_len : a.kv_len;
      b.q_len += 100;
      b.kv_len += 100;
      cr_assert(attention_forward_time_s(p, &b) * (1 + 1e-9) >= f &&
                attention_backward_time_s(p, &b) * (1 + 1e-9) >= w);
      b = a;
      b.heads += b.kv_heads;
      cr_assert(attention_forward_time_s(p, &b) * (1 + 1e-9) >= f);
      cr_assert(attention_forward_row_time_s(p, &a) >= f);
    }
    params_free(p);
  }
}

Test(models_operation, varlen_of_equal_lengths_is_a_batch) {
  struct params *p = load("h200_sxm");
  uint32_t lengths[48];
  for (int i = 0; i < 48; i++)
    lengths[i] = 1000;
  struct attention_shape a = {true, 48, 1000, 1000, 32, 8, 128};
  cr_expect_float_eq(
      attention_varlen_forward_time_s(p, true, lengths, 48, 32, 8, 128) / attention_forward_time_s(p, &a), 1, 1e-12);
  cr_expect_float_eq(
      attention_varlen_backward_time_s(p, true, lengths, 48, 32, 8, 128) / attention_backward_time_s(p, &a), 1, 1e-12);
  a.head_dim = 96;
  cr_expect_float_eq(attention_varlen_forward_time_s(p, true, lengths, 48, 32, 8, 96) / attention_forward_time_s(p, &a),
                     1, 1e-12);
  cr_expect_eq(attention_varlen_forward_time_s(p, true, lengths, 0, 32, 8, 128), 0);
  /* a long one among short ones: at least itself, less than the padded batch */
  lengths[7] = 40000;
  struct attention_shape alone = {true, 1, 40000, 40000, 32, 8, 128}, padded = {true, 48, 40000, 40000, 32, 8, 128};
  double t = attention_varlen_forward_time_s(p, true, lengths, 48, 32, 8, 128);
  cr_expect(t >= attention_forward_time_s(p, &alone) && t < attention_forward_time_s(p, &padded) / 10);
  params_free(p);
}

Test(models_operation, memory_host_and_scalars) {
  for (int g = 0; g < 2; g++) {
    struct params *p = load(gpus[g]);
    for (int c = 0; c < MEMORY_CLASSES; c++) {
      double small = memory_time_s(p, (enum memory_class)c, 1), big = memory_time_s(p, (enum memory_class)c, 1e10);
      cr_expect(small > 1e-6 && small < 4e-6);
      cr_expect(big * best_memory_bytes_per_s(p) >= 1e10);
    }
    cr_expect_eq(memory_time_s(p, MEMORY_CONTIGUOUS, 0), 0);
    cr_expect(host_copy_time_s(p, 4915200) > 1e-3 && host_copy_time_s(p, 4915200) < 3e-3);
    cr_expect(params_in_step(p, "fused").compute_derate >= 1 && params_in_step(p, "eager").host_op_s > 0);
    cr_expect(params_overlap_slowdown_frac(p) > 0 && params_overlap_slowdown_frac(p) < 0.5);
    cr_expect_str_eq(params_gpu(p), gpus[g]);
    cr_expect_eq(strlen(params_sha256(p)), 64);
    params_free(p);
  }
}

Test(models_operation, collectives_meet_their_rows) {
  for (int g = 0; g < 2; g++) {
    struct params *p = load(gpus[g]);
    struct cluster c;
    char cluster[16], relative[64], path[4096], line[256];
    snprintf(cluster, sizeof cluster, "%.4s_8x1", gpus[g]);
    cr_assert_eq(cluster_load(&c, cluster, NULL), 0);
    snprintf(relative, sizeof relative, "calib/data/%s/nccl_intranode.csv", gpus[g]);
    cr_assert_eq(share_path(path, sizeof path, relative), 0);
    FILE *f = fopen(path, "r");
    int rows = 0, met = 0;
    while (fgets(line, sizeof line, f)) {
      char op[32], dtype[16];
      int ranks, nodes;
      double bytes, time;
      if (sscanf(line, "%31[^,],%15[^,],%d,%d,%lf,%lf", op, dtype, &ranks, &nodes, &bytes, &time) != 6)
        continue;
      enum collective kind = COLLECTIVE_ALL_REDUCE;
      while (strcmp(collective_name(kind), op) != 0)
        kind++;
      struct collective_cost cost = collective_cost(p, &c, kind, ranks, nodes, bytes);
      rows++;
      met += cost.time_s == time;
      cr_expect(cost.time_s <= time, "%s", line); /* the table holds the faster of two data types */
      cr_expect_eq(cost.load[PORT_NVLINK], 1);
      cr_expect_eq(cost.load[PORT_NIC], 0);
    }
    fclose(f);
    cr_expect(rows > 390 && met * 2 >= rows, "%d of %d rows met", met, rows);
    params_free(p);
  }
}

Test(models_operation, collectives_between_nodes) {
  struct params *p = load("h100_sxm");
  struct cluster c;
  cr_assert_eq(cluster_load(&c, "h100_8x4", NULL), 0);
  /* rows of the 4-node log are met exactly: 1 GiB in 5.8028 ms */
  struct collective_cost cost = collective_cost(p, &c, COLLECTIVE_ALL_REDUCE, 32, 4, 1073741824);
  cr_expect_eq(cost.time_s, 5.8028e-3);
  cr_expect_eq(cost.load[PORT_NIC], 1);
  cr_expect(cost.load[PORT_NVLINK] > 0.6 && cost.load[PORT_NVLINK] < 1);
  cr_expect_eq(cost.load[PORT_CORE], 0);
  /* published bus bandwidths of large messages */
  double wire = 31.0 / 32 * 17179869184.0;
  cr_expect_float_eq(wire / collective_cost(p, &c, COLLECTIVE_ALL_GATHER, 32, 4, 17179869184.0).time_s, 324e9, 6e9);
  cr_expect_float_eq(wire / collective_cost(p, &c, COLLECTIVE_REDUCE_SCATTER, 32, 4, 17179869184.0).time_s, 360e9, 6e9);
  double algorithm = 17179869184.0 / collective_cost(p, &c, COLLECTIVE_ALL_TO_ALL, 32, 4, 17179869184.0).time_s;
  cr_expect_float_eq(algorithm, 4.0 / 3 * 47.5e9, 1.5e9);
  cr_expect_eq(collective_cost(p, &c, COLLECTIVE_ALL_TO_ALL, 1, 1, 1e9).time_s, 0);
  /* one rank a node: its own NIC */
  cost = collective_cost(p, &c, COLLECTIVE_ALL_REDUCE, 4, 4, 1e9);
  cr_expect_eq(cost.load[PORT_NVLINK], 0);
  cr_expect_float_eq(2 * 3.0 / 4 * 1e9 / cost.time_s, 45.8e9, 3e9);
  /* an oversubscribed core is a bottleneck of its own */
  double full = collective_cost(p, &c, COLLECTIVE_ALL_TO_ALL, 32, 4, 1e9).time_s;
  c.oversubscription = 4;
  cost = collective_cost(p, &c, COLLECTIVE_ALL_TO_ALL, 32, 4, 1e9);
  cr_expect(cost.time_s > 3.5 * full && cost.load[PORT_CORE] == 1 && cost.load[PORT_NIC] < 0.3);
  cost = collective_cost(p, &c, COLLECTIVE_ALL_TO_ALL, 16, 2, 1e9);
  cr_expect(cost.load[PORT_CORE] > 0.4 && cost.load[PORT_CORE] <= 1);
  params_free(p);
}

Test(models_operation, collectives_are_monotone_in_bytes) {
  struct params *p = load("h200_sxm");
  struct cluster c;
  cr_assert_eq(cluster_load(&c, "h200_8x64", NULL), 0);
  for (int kind = 0; kind < COLLECTIVE_KINDS; kind++)
    for (int nodes = 2; nodes <= 64; nodes *= 2)
      for (int per_node = 1; per_node <= 8; per_node *= 2) {
        double last = 0;
        for (double bytes = 256; bytes < 1e11; bytes *= 1.7) {
          struct collective_cost cost = collective_cost(p, &c, (enum collective)kind, nodes * per_node, nodes, bytes);
          cr_assert(cost.time_s >= last * (1 - 1e-9), "%s %d %d %g", collective_name((enum collective)kind), nodes,
                    per_node, bytes);
          cr_assert(cost.load[PORT_NIC] <= 1 && cost.load[PORT_NVLINK] <= 1 && cost.time_s > 5e-6);
          last = cost.time_s;
        }
      }
  params_free(p);
}

/* Every execution of a sample does at least this: one launch of each operation at any batch. */
static double cheapest_1d(const struct params *p, const struct transformer *m, int64_t t) {
  int64_t h = m->hidden, q = m->heads * m->head_dim, qkv = q + 2 * m->kv_heads * m->head_dim, f = m->ffn;
  struct attention_shape a = {m->causal, 1, t, t, m->heads, m->kv_heads, m->head_dim};
  const int64_t shapes[][2] = {{qkv, h}, {h, q}, {f * (m->mlp_matrices - 1), h}, {h, f}};
  double block = attention_forward_time_s(p, &a) + attention_backward_time_s(p, &a);
  for (int i = 0; i < 4; i++) {
    int64_t n = shapes[i][0], k = shapes[i][1];
    block += gemm_time_s(p, t, n, k) + gemm_time_s(p, t, k, n) + gemm_wgrad_time_s(p, k, n, t);
  }
  return m->layers * block + gemm_time_s(p, t, m->vocab, h) + gemm_time_s(p, t, h, m->vocab) +
         gemm_wgrad_time_s(p, h, m->vocab, t);
}

Test(models_operation, nothing_beats_the_bound) {
  static const char *const names[] = {"llama2-7b", "llama3.1-70b", "mpt-760m", "qwen2.5-7b", "tiny-1d"};
  for (int g = 0; g < 2; g++)
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
      struct params *p = load(gpus[g]);
      struct transformer m;
      cr_assert_eq(transformer_load(&m, names[i], NULL), 0);
      struct system s = {.model = &m, .params = p};
      for (int64_t t = 1; t < 3000000; t = t * 5 / 3 + 1) {
        double bound = bound_gpu_seconds(&s, t, 1);
        cr_expect(bound > 0 && bound <= cheapest_1d(p, &m, t), "%s %ld", names[i], (long)t);
      }
      params_free(p);
    }
}

static void expect_error(const char *from, const char *to, const char *expected) {
  char path[4096], copy[] = "/tmp/dcpsim_params_XXXXXX", json_path[64];
  struct params *p = NULL;
  struct err err = {0};
  cr_assert_eq(share_path(path, sizeof path, "calib/params/h200_sxm.json"), 0);
  int fd = mkstemp(copy);
  cr_assert_geq(fd, 0);
  close(fd);
  snprintf(json_path, sizeof json_path, "%s.json", copy);
  FILE *in = fopen(path, "r"), *out = fopen(json_path, "w");
  static char text[4 << 20];
  text[fread(text, 1, sizeof text - 1, in)] = '\0';
  char *at = strstr(text, from);
  cr_assert(at, "%s", from);
  fprintf(out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  fclose(in);
  fclose(out);
  cr_expect_eq(params_load(&p, json_path, &err), -1);
  cr_expect(strstr(err.msg, expected) != NULL, "'%s' not in: %s", expected, err.msg);
  unlink(json_path);
  unlink(copy);
}

Test(models_operation, bad_parameter_files) {
  expect_error("\"floor_s\"", "\"flor_s\"", "floor_s");
  expect_error("\"wgrad_factor\": 1.11", "\"wgrad_factor\": \"x\"", "wgrad_factor");
  expect_error("\"time_ns\": [", "\"time_ns\": [7,", "time_ns");
  expect_error("\"m\": [1,", "\"m\": [-1,", "positive");
  expect_error("\"m\": [1,", "\"m\": [9,", "rise");
  expect_error("\"op\": \"all_gather\"", "\"op\": \"all_gatter\"", "all_gatter");
  expect_error("\"causal\": false", "\"causal\": true", "ordered");
  expect_error("dcpsim.params/1", "dcpsim.params/2", "schema");
  struct params *p = NULL;
  struct err err = {0};
  cr_expect_eq(params_load(&p, "h20_sxm", &err), -1);
  cr_expect(err.usage && strstr(err.msg, "h200_sxm"), "%s", err.msg);
}
