/* Whole experiments: the bytes choose numbers of any magnitude that the readers accept, for parameters, model, cluster,
 * lengths and options. Whatever they are, a run ends with a result or with one line of error. Layers and GPUs are few,
 * so that it ends soon. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/experiment/experiment.h"
#include "tests/fuzz/fuzz.h"

struct input {
  const uint8_t *data;
  size_t size, at;
};

static unsigned byte(struct input *in) { return in->at < in->size ? in->data[in->at++] : 0; }

/* 0: the usual value; else on a logarithmic scale from least to most. */
static double number(struct input *in, double least, double usual, double most) {
  unsigned b = byte(in);
  return b == 0 ? usual : fmin(most, least * exp(log(most / least) * (b - 1) / 254));
}

static double whole(struct input *in, double least, double usual, double most) {
  return floor(number(in, least, usual, most) + 0.5);
}

/* 0: off; else as number. */
static double optional(struct input *in, double least, double most) { return number(in, least, 0, most); }

enum { PARAMS, MODEL, CLUSTER, FILES };

static const char *put_file(int which, const char *text) {
  static int fds[FILES] = {-1, -1, -1};
  static char paths[FILES][64];
  ssize_t size = (ssize_t)strlen(text);
  if (fds[which] < 0) {
    fds[which] = memfd_create("input", MFD_CLOEXEC);
    snprintf(paths[which], sizeof paths[which], "/proc/self/fd/%d", fds[which]);
  }
  ASSERT(ftruncate(fds[which], 0) == 0 && pwrite(fds[which], text, (size_t)size, 0) == size);
  return paths[which];
}

struct text {
  char v[16384];
  size_t n;
};

#define ADD(t, ...) ((t)->n += (size_t)snprintf((t)->v + (t)->n, sizeof(t)->v - (t)->n, __VA_ARGS__))

/* `n` times that begin at `usual`, scaled by a factor of the input's and rising by `step` each. */
static void add_times(struct text *t, struct input *in, const char *key, int n, double usual, double step) {
  double value = usual * number(in, 1e-12, 1, 1e12), rise = number(in, 1, step, 1e6);
  ADD(t, "\"%s\": [", key);
  for (int i = 0; i < n; i++, value *= rise)
    ADD(t, "%s%.6g", i ? ", " : "", value);
  ADD(t, "]");
}

static void add_network(struct text *t, struct input *in) {
  static const char *const ops[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"};
  ADD(t,
      "\"network\": {\"source\": \"s\", \"reference_nic_bytes_per_s\": %.6g, \"reference_nvlink_bytes_per_s\": %.6g, "
      "\"nvlink_bytes_per_s\": %.6g, \"curves\": [",
      number(in, 1, 50e9, 1e15), number(in, 1, 450e9, 1e15), number(in, 1, 337e9, 1e15));
  for (int i = 0; i < 4; i++) {
    ADD(t, "%s{\"source\": \"s\", \"op\": \"%s\", \"ranks\": 8, \"nodes\": 1, \"bytes\": [512, 536870912], ",
        i ? ", " : "", ops[i]);
    add_times(t, in, "time_s", 2, 1.6e-5, 130);
    ADD(t, "}");
  }
  ADD(t, "], \"inter\": {\"source\": \"s\", \"nodes\": [2, 64]");
  for (int i = 0; i < 5; i++) {
    ADD(t, ", \"%s\": {\"source\": \"s\", ", ops[i]);
    add_times(t, in, "nic_bytes_per_s", 2, 4e10, 1);
    ADD(t, ", ");
    add_times(t, in, "floor_s", 2, 4e-5, 2);
    ADD(t, "}");
  }
  ADD(t, "}, \"ramp\": {\"source\": \"s\", \"nic_bytes\": [1e3, 1e8], \"efficiency_frac\": [%.6g, 1]}}",
      number(in, 1e-6, 0.1, 1));
}

static const char *write_params(struct input *in) {
  static const char *const classes[] = {"contiguous", "broadcast", "permute", "reduction", "mixed", "optimizer"};
  static struct text t;
  t.n = 0;
  ADD(&t,
      "{\"schema\": \"dcpsim.params/1\", \"gpu\": \"h200_sxm\", \"source\": \"s\", \"memory_bound\": {\"floor_s\": "
      "%.6g, \"floor_source\": \"s\", \"classes\": {",
      number(in, 1e-12, 2.5e-6, 1));
  for (int i = 0; i < 6; i++)
    ADD(&t, "%s\"%s\": {\"bytes_per_s\": %.6g, \"source\": \"s\"}", i ? ", " : "", classes[i],
        number(in, 1, 2e12, 1e18));
  ADD(&t,
      "}}, \"host\": {\"copy_bytes_per_s\": %.6g, \"copy_floor_s\": %.6g, \"source\": \"s\"}, \"in_step\": {\"fused\": "
      "{\"compute_derate\": %.6g, \"host_op_s\": %.6g, \"source\": \"s\"}}, \"overlap\": {\"slowdown_frac\": %.6g, "
      "\"source\": \"s\"}, \"reserve\": {\"bytes\": 1000000, \"source\": \"s\"}, ",
      number(in, 1, 3e9, 1e15), number(in, 1e-12, 2e-5, 1), number(in, 1, 1.2, 10), number(in, 1e-12, 4e-6, 1),
      number(in, 1e-3, 0.1, 1));
  ADD(&t, "\"gemm\": {\"source\": \"s\", \"m\": [1, 32768], \"n\": [32, 65536], \"k\": [32, 65536], \"wgrad_factor\": "
          "1.1, \"wgrad_source\": \"s\", ");
  add_times(&t, in, "time_ns", 8, 2480, 4);
  ADD(&t, "}, \"attention\": {\"source\": \"s\", \"backward_ratio\": {\"source\": \"s\", \"keys\": [512, 65536], ");
  add_times(&t, in, "ratio", 2, 3, 1);
  ADD(&t, "}, \"tables\": [");
  for (int causal = 0; causal < 2; causal++) {
    ADD(&t,
        "%s{\"source\": \"s\", \"causal\": %s, \"head_dim\": 64, \"tile_rows\": 192, \"tile_fill\": 1, \"keys\": "
        "[1, 65536], \"tiles\": [1, 270336], ",
        causal ? ", " : "", causal ? "true" : "false");
    add_times(&t, in, "time_ns", 4, 7421, 60);
    ADD(&t, "}");
  }
  ADD(&t, "]}, ");
  add_network(&t, in);
  ADD(&t, "}");
  ASSERT(t.n < sizeof t.v);
  return put_file(PARAMS, t.v);
}

static const char *write_model(struct input *in, bool is_2d) {
  static struct text t;
  t.n = 0;
  double kv_heads = whole(in, 1, 8, 1 << 12), group = whole(in, 1, 1, 64);
  ADD(&t,
      "{\"schema\": \"dcpsim.model/1\", \"name\": \"m\", \"source\": \"s\", \"layers\": %.0f, \"hidden\": %.0f, "
      "\"heads\": %.0f, \"kv_heads\": %.0f, \"head_dim\": %.0f, \"ffn\": %.0f, ",
      whole(in, 1, 8, 64), whole(in, 1, 1024, 1 << 24), is_2d ? kv_heads : kv_heads * group, kv_heads,
      whole(in, 1, 128, 1 << 24), whole(in, 1, 4096, 1 << 24));
  if (is_2d)
    ADD(&t,
        "\"is_2d\": true, \"text_tokens\": %.0f, \"text_channels\": %.0f, \"in_channels\": 4, \"out_channels\": 8, "
        "\"frequency_dim\": 256}",
        whole(in, 1, 120, 1 << 24), whole(in, 1, 4096, 1 << 24));
  else
    ADD(&t, "\"vocab\": %.0f}", whole(in, 1, 32000, 1 << 24));
  return put_file(MODEL, t.v);
}

static const char *write_cluster(struct input *in) {
  static struct text t;
  t.n = 0;
  ADD(&t,
      "{\"schema\": \"dcpsim.cluster/1\", \"name\": \"c\", \"gpu\": \"h200_sxm\", \"gpus_per_node\": %.0f, \"nodes\": "
      "%.0f, \"memory_bytes\": %.0f, \"peak_flops_per_s\": %.6g, \"nvlink_bytes_per_s\": %.6g, \"nic_bytes_per_s\": "
      "%.6g, \"oversubscription\": %.6g}",
      whole(in, 1, 2, 8), whole(in, 1, 2, 4), whole(in, 1e6, 1.5e11, 1125899906842624.0), number(in, 1, 1e15, 1e18),
      number(in, 1, 450e9, 1e15), number(in, 1, 50e9, 1e15), number(in, 1, 1, 1000));
  return put_file(CLUSTER, t.v);
}

static void set_number(struct experiment_options *o, const char *name, double value) {
  char text[64];
  struct err err = {0};
  snprintf(text, sizeof text, value == floor(value) ? "%.0f" : "%.9f", value);
  if (value > 0)
    ASSERT(options_set(o, name, text, &err) == 0);
}

static void set_options(struct experiment_options *o, struct input *in, bool is_2d) {
  static const char *const rules[] = {"full", "none", "adaptive"};
  char text[64];
  int n = 0;
  while (policies[n])
    n++;
  unsigned kind = byte(in), zero = byte(in) % 5;
  int policy = 1 + (int)(kind % (unsigned)(n - 1)); /* given needs batches */
  ASSERT(options_set(o, "policy", policies[policy]->name, NULL) == 0);
  ASSERT(options_set(o, "zero", zero == 0 ? "1" : (const char *[]){"0", "1", "2", "3"}[zero - 1], NULL) == 0);
  ASSERT(options_set(o, "threads", "1", NULL) == 0);
  unsigned bits = byte(in);
  if (!is_2d && bits & 1)
    ASSERT(options_set(o, "sp-kind", "ring", NULL) == 0);
  if (bits & 2)
    ASSERT(options_set(o, "shard", "node", NULL) == 0);
  if (bits & 4)
    ASSERT(options_set(o, "recompute", rules[bits >> 6 & 1 ? 1 : 2], NULL) == 0);
  if (bits & 8)
    ASSERT(options_set(o, "drop-last", "true", NULL) == 0);
  ASSERT(options_set(o, "framework", "fused", NULL) == 0);
  ASSERT(options_set(o, "draws", bits & 16 ? "2" : "0", NULL) == 0);
  set_number(o, "jitter", optional(in, 1e-3, 10));
  set_number(o, "tokens-per-step", floor(optional(in, 1, 1e15)));
  set_number(o, "max-gas", floor(optional(in, 1, 1e3)));
  set_number(o, "min-gas", floor(optional(in, 1, 1e6)));
  set_number(o, "batch", floor(optional(in, 1, 1e9)));
  set_number(o, "global-batch", floor(optional(in, 1, 4e9)));
  set_number(o, "steps", floor(optional(in, 1, 100)));
  double factor = optional(in, 0.01, 1000);
  snprintf(text, sizeof text, "0:%.6g", factor);
  if (factor > 0)
    ASSERT(options_set(o, "straggler", text, NULL) == 0);
}

static struct trace make_trace(struct input *in, bool is_2d) {
  struct trace t = {.name = xstrdup("t"), .format = "text", .is_2d = is_2d, .n = 1 + byte(in) % 8};
  t.samples = xcalloc((size_t)t.n, sizeof *t.samples);
  for (int64_t i = 0; i < t.n; i++) {
    double a = whole(in, 1, 512, is_2d ? 1e4 : TRACE_MAX_LENGTH), b = is_2d ? whole(in, 1, 256, 1e5) : 1;
    t.samples[i] = (struct sample){(uint32_t)a, (uint32_t)b};
  }
  return t;
}

static void run(const struct experiment *x) {
  struct policy_result results[MAX_POLICIES];
  struct err err = {0};
  int status = experiment_run(x, NULL, results, &err);
  fuzz_check(status, &err);
  if (status < 0)
    return;
  double shares = 0;
  for (int i = 0; i < SHARES; i++)
    shares += results[0].share[i];
  ASSERT(results[0].steps == 0 || (results[0].time_s > 0 && isfinite(results[0].tokens_per_s)));
  ASSERT(results[0].steps == 0 || fabs(shares - 1) < 1e-9);
}

static void plan(const struct experiment *x) {
  struct policy_result result;
  struct experiment_plan p = {0};
  struct err err = {0};
  int status = experiment_plan(x, &p, &result, &err);
  fuzz_check(status, &err);
  ASSERT(status < 0 || isfinite(p.time_s));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, size, 0};
  struct experiment_options o;
  struct experiment x;
  struct err err = {0};
  bool is_2d = byte(&in) & 1;
  options_init(&o);
  set_options(&o, &in, is_2d);
  ASSERT(options_set(&o, "trace", "t", NULL) == 0);
  struct trace trace = make_trace(&in, is_2d);
  ASSERT(options_set(&o, "cluster", write_cluster(&in), NULL) == 0);
  ASSERT(options_set(&o, "model", write_model(&in, is_2d), NULL) == 0);
  ASSERT(options_set(&o, "params", write_params(&in), NULL) == 0);
  int status = experiment_open_lengths(&x, &o, NULL, &trace, &err);
  fuzz_check(status, &err);
  if (getenv("FUZZ_TELL") && status < 0)
    fprintf(stderr, "%s\n", err.msg);
  if (status == 0) {
    run(&x);
    plan(&x);
    experiment_close(&x);
  }
  options_release(&o);
  return 0;
}
