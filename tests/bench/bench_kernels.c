/* Rates of the CPU device: GEMM and attention, forward and backward, in GFLOP/s; bandwidth of a norm. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/device.h"
#include "sim/base/units.h"

static struct device *device;

static void *array(size_t n) {
  void *p = NULL;
  float *host = xmalloc(n * sizeof *host);
  struct err err;
  for (size_t i = 0; i < n; i++)
    host[i] = (float)(i * 2654435761u % 1000) / 1000 - 0.5f;
  if (device_resize(device, &p, n * sizeof(float), &err) || device_upload(device, p, host, n, &err))
    exit(1);
  free(host);
  return p;
}

/* The best of several runs. */
static void measure(const struct operator_call *call, double work, const char *unit) {
  char what[256];
  struct err err = {0};
  double best_s = 1e9;
  for (int i = 0; i < 5; i++) {
    double time_s;
    if (device_wait(device, NULL, &err) || device_run(device, call, &err) || device_wait(device, &time_s, &err)) {
      fprintf(stderr, "%s\n", err.msg);
      exit(1);
    }
    best_s = time_s < best_s ? time_s : best_s;
  }
  printf("%-110s %8.3f ms %7.1f %s\n", operator_describe(call, what, sizeof what), best_s * 1e3, work / best_s / 1e9,
         unit);
}

static void bench_gemm(int64_t m, int64_t n, int64_t k) {
  struct operator_call c = {.kind = OPERATOR_GEMM};
  c.gemm = (struct gemm_call){.m = m,
                              .n = n,
                              .k = k,
                              .b_transposed = true,
                              .a = array((size_t)(m * k)),
                              .b = array((size_t)(n * k)),
                              .c = array((size_t)(m * n))};
  measure(&c, 2.0 * (double)m * (double)n * (double)k, "GFLOP/s");
}

static void bench_attention(int64_t batch, int64_t length, int64_t heads, int64_t head_dim, bool causal) {
  const int64_t rows = batch * length, n = rows * heads * head_dim;
  int32_t *cu_seqlens = xcalloc((size_t)batch + 1, sizeof *cu_seqlens);
  for (int64_t i = 0; i <= batch; i++)
    cu_seqlens[i] = (int32_t)(i * length);
  struct operator_call c = {.kind = OPERATOR_ATTENTION_FORWARD};
  c.attention = (struct attention_call){batch,
                                        heads,
                                        heads,
                                        head_dim,
                                        rows,
                                        rows,
                                        length,
                                        length,
                                        causal,
                                        0.125f,
                                        cu_seqlens,
                                        cu_seqlens,
                                        array((size_t)n),
                                        array((size_t)n),
                                        array((size_t)n),
                                        array((size_t)n),
                                        array((size_t)(rows * heads)),
                                        array((size_t)n),
                                        array((size_t)n),
                                        array((size_t)n),
                                        array((size_t)n),
                                        array((size_t)(rows * heads))};
  const double work = (causal ? 2.0 : 4.0) * (double)(batch * heads * head_dim) * (double)length * (double)length;
  measure(&c, work, "GFLOP/s");
  c.kind = OPERATOR_ATTENTION_BACKWARD;
  measure(&c, 2.5 * work, "GFLOP/s");
}

int main(void) {
  struct err err = {0};
  if (device_open(&device, "cpu", 0, &err)) {
    fprintf(stderr, "%s\n", err.msg);
    return 1;
  }
  printf("%s\n", device->name);
  bench_gemm(1024, 1024, 1024);
  bench_gemm(2048, 512, 128);
  bench_gemm(16, 384, 128);
  bench_attention(1, 4096, 4, 64, false);
  bench_attention(1, 4096, 4, 64, true);
  bench_attention(8, 512, 8, 16, false);
  bench_attention(256, 16, 8, 16, false);
  bench_attention(1, 1024, 8, 128, true);
  struct operator_call c = {.kind = OPERATOR_RMSNORM_FORWARD};
  c.rmsnorm = (struct rmsnorm_call){.rows = 4096,
                                    .width = 1024,
                                    .eps = 1e-5f,
                                    .x = array(4096 * 1024),
                                    .weight = array(1024),
                                    .y = array(4096 * 1024),
                                    .rstd = array(4096)};
  measure(&c, 2.0 * 4 * 4096 * 1024, "GB/s");
  c.kind = OPERATOR_GELU_FORWARD;
  c.gelu = (struct gelu_call){.n = 4096 * 1024, .x = array(4096 * 1024), .y = array(4096 * 1024)};
  measure(&c, 2.0 * 4 * 4096 * 1024, "GB/s");
  return 0; /* memory is the process's */
}
