/* The executor on one rank of the CPU device: its tensors, its optimizer against a double-precision reference, and what
 * zero 3 changes: nothing but the memory. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "sim/execute/execute.h"
#include "sim/plan/lower.h"

#define RATE 1e-3

struct run {
  struct transformer model;
  struct cluster cluster;
  struct params *params;
  struct system system;
  struct device *device;
  struct communicator *world;
  struct executor *executor;
  struct program program, tail;
  double *tail_s;
  struct sample sample;
  uint32_t ids[2];
  struct execute_micro_batch micro_batches[2];
  struct execute_group group;
  struct execute_step step;
};

/* How the steps of a run are played. */
struct way {
  int zero, ranks; /* ranks > 1: the others are stood in for */
  int shard_ranks;
  int micro_batches;
  int layers; /* 0: the model's */
  bool tied;
};

static void open_way(struct run *r, const char *model, struct sample sample, struct way way) {
  struct err err = {0};
  *r = (struct run){.sample = sample, .ids = {7, 8}};
  cr_assert_eq(transformer_load(&r->model, model, &err), 0, "%s", err.msg);
  r->model.tied_embeddings |= way.tied;
  r->model.layers = way.layers ? way.layers : r->model.layers;
  cr_assert_eq(cluster_load(&r->cluster, way.ranks > 1 ? "h200_8x1" : "h200_1x1", &err), 0, "%s", err.msg);
  cr_assert_eq(params_load(&r->params, "h200_sxm", &err), 0, "%s", err.msg);
  r->system = (struct system){&r->model, &r->cluster, r->params, framework_find("fused", &err), {.grad_bytes = 2}};
  r->system.parallel.sp_kind = r->model.is_2d ? SP_DSP : SP_ULYSSES;
  r->system.parallel.zero = way.zero;
  cr_assert_eq(device_open(&r->device, "cpu", 0, &err), 0, "%s", err.msg);
  if (way.ranks > 1)
    r->world = execute_stand_in(r->device, way.ranks - 1, way.ranks);
  else
    cr_assert_eq(communicator_open(&r->world, "self", r->device, &err), 0, "%s", err.msg);
  struct execute_options options = {
      .optimizer = OPTIMIZER_ADAMW, .learning_rate = RATE, .zero = way.zero, .shard_ranks = way.shard_ranks};
  cr_assert_eq(executor_open(&r->executor, &r->model, &options, r->world, &err), 0, "%s", err.msg);
  cr_assert_eq(executor_start(r->executor, &err), 0, "%s", err.msg);
  struct microbatch shape = {.batch = 1, .packed = &r->sample};
  lower_micro_batch(&r->program, &r->system, 1, &shape);
  lower_step_tail(&r->tail, &r->system);
  r->tail_s = calloc(r->tail.n_ops, sizeof *r->tail_s);
  for (int i = 0; i < way.micro_batches; i++)
    r->micro_batches[i] = (struct execute_micro_batch){.program = &r->program,
                                                       .batch = 1,
                                                       .samples = &r->sample,
                                                       .ids = &r->ids[i],
                                                       .packed = true,
                                                       .ring = 1,
                                                       .weight = 1.0 / way.micro_batches};
  r->group = (struct execute_group){
      .first_rank = r->world->rank, .sp = 1, .micro_batches = r->micro_batches, .n_micro_batches = way.micro_batches};
  r->step = (struct execute_step){.groups = &r->group,
                                  .n_groups = 1,
                                  .tail = &r->tail,
                                  .tail_s = r->tail_s,
                                  .posts_every_micro_batch = way.zero == 3};
}

static void open_run(struct run *r, const char *model, struct sample sample) {
  open_way(r, model, sample, (struct way){.ranks = 1, .micro_batches = 1});
}

static void close_run(struct run *r) {
  executor_close(r->executor);
  communicator_close(r->world);
  device_close(r->device);
  program_release(&r->program);
  program_release(&r->tail);
  params_free(r->params);
  free(r->tail_s);
}

/* All tensors one after another. */
static float *read_all(struct run *r, int (*read)(struct executor *, int, float *, struct err *), int64_t *total) {
  struct err err = {0};
  int64_t n;
  *total = 0;
  for (int i = 0; i < executor_tensors(r->executor); i++) {
    executor_tensor(r->executor, i, &n);
    *total += n;
  }
  float *all = calloc((size_t)*total, sizeof *all), *at = all;
  for (int i = 0; i < executor_tensors(r->executor); i++, at += n) {
    executor_tensor(r->executor, i, &n);
    cr_assert_eq(read(r->executor, i, at, &err), 0, "%s", err.msg);
  }
  return all;
}

static void check_adamw(const char *model, struct sample sample) {
  struct run r;
  struct execute_result result;
  struct err err = {0};
  int64_t n;
  open_run(&r, model, sample);
  float *before = read_all(&r, executor_weight, &n);
  double *m = calloc((size_t)n, sizeof *m), *v = calloc((size_t)n, sizeof *v), *w = calloc((size_t)n, sizeof *w);
  for (int64_t i = 0; i < n; i++)
    w[i] = before[i];
  for (int step = 1; step <= 3; step++) {
    double error = 0, moved = 0;
    cr_assert_eq(executor_step(r.executor, &r.step, NULL, &result, &err), 0, "%s", err.msg);
    float *grad = read_all(&r, executor_gradient, &n), *after = read_all(&r, executor_weight, &n);
    for (int64_t i = 0; i < n; i++) {
      double old = w[i], g = grad[i];
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      w[i] -= RATE * (m[i] / (1 - pow(0.9, step)) / (sqrt(v[i] / (1 - pow(0.95, step))) + 1e-8) + 0.1 * w[i]);
      moved += (w[i] - old) * (w[i] - old);
      error += (after[i] - w[i]) * (after[i] - w[i]);
    }
    cr_expect_gt(sqrt(moved), RATE, "step %d of %s moves nothing", step, model);
    cr_expect_lt(sqrt(error / moved), 1e-4, "step %d of %s: %.3g", step, model, sqrt(error / moved));
    free(grad);
    free(after);
  }
  free(before);
  free(m);
  free(v);
  free(w);
  close_run(&r);
}

Test(execute, adamw_is_the_reference) {
  check_adamw("tiny-1d", (struct sample){37, 1});
  check_adamw("tiny-2d", (struct sample){3, 12});
}

static void check_params(const char *model) {
  struct run r;
  int64_t n;
  open_run(&r, model, (struct sample){4, 1});
  free(read_all(&r, executor_weight, &n));
  cr_expect_eq(n, transformer_params(&r.model), "%s: %lld tensors' numbers, not %lld", model, (long long)n,
               (long long)transformer_params(&r.model));
  close_run(&r);
}

Test(execute, tensors_are_the_models_parameters) {
  check_params("tiny-1d");
  check_params("tiny-2d");
}

/* Loss, gradient and weights of two steps of two micro-batches each. */
static void check_zero3(const char *model, struct sample sample, bool tied) {
  struct run whole, shards;
  struct err err = {0};
  int64_t n;
  open_way(&whole, model, sample, (struct way){.ranks = 1, .micro_batches = 2, .tied = tied});
  open_way(&shards, model, sample, (struct way){.zero = 3, .ranks = 1, .micro_batches = 2, .tied = tied});
  for (int step = 0; step < 2; step++) {
    struct execute_result a, b;
    cr_assert_eq(executor_step(whole.executor, &whole.step, NULL, &a, &err), 0, "%s", err.msg);
    cr_assert_eq(executor_step(shards.executor, &shards.step, NULL, &b, &err), 0, "%s", err.msg);
    cr_expect_float_eq(a.loss, b.loss, 1e-6 * a.loss, "%s, step %d: loss", model, step);
    cr_expect(a.grad_norm > 0);
    cr_expect_float_eq(a.grad_norm, b.grad_norm, 1e-5 * a.grad_norm, "%s, step %d: norm", model, step);
    float *g = read_all(&whole, executor_gradient, &n), *h = read_all(&shards, executor_gradient, &n);
    float *v = read_all(&whole, executor_weight, &n), *w = read_all(&shards, executor_weight, &n);
    double off = 0;
    for (int64_t i = 0; i < n; i++) {
      off += ((double)g[i] - h[i]) * ((double)g[i] - h[i]);
      cr_assert_float_eq(v[i], w[i], 1e-6, "%s, step %d, weight %lld", model, step, (long long)i);
    }
    cr_expect_lt(sqrt(off), 1e-5 * a.grad_norm, "%s, step %d: gradient", model, step);
    free(g);
    free(h);
    free(v);
    free(w);
  }
  close_run(&whole);
  close_run(&shards);
}

Test(execute, zero3_computes_the_same) {
  check_zero3("tiny-1d", (struct sample){37, 1}, false);
  check_zero3("tiny-1d", (struct sample){37, 1}, true);
  check_zero3("tiny-2d", (struct sample){3, 12}, false);
}

/* Peak of a step on one of 8 ranks, whose others are stood in for. */
static int64_t peak_bytes(const char *model, struct sample sample, int zero, int shard_ranks) {
  struct run r;
  struct execute_result result;
  struct err err = {0};
  open_way(&r, model, sample,
           (struct way){.zero = zero, .ranks = 8, .shard_ranks = shard_ranks, .micro_batches = 1, .layers = 8});
  cr_assert_eq(executor_step(r.executor, &r.step, NULL, &result, &err), 0, "%s", err.msg);
  cr_expect(isfinite(result.loss) && result.loss > 0);
  int64_t bytes = executor_peak_bytes(r.executor);
  close_run(&r);
  return bytes;
}

/* Zero 2 keeps all weights and its own sum of all gradients; zero 3 an eighth of the weights, and whole what memory.h
 * says. */
static void check_memory(const char *model, struct sample sample) {
  struct transformer m;
  struct err err = {0};
  cr_assert_eq(transformer_load(&m, model, &err), 0, "%s", err.msg);
  m.layers = 8;
  int64_t fp32 = 4, params = transformer_params(&m), layer = transformer_block_params(&m, 0), whole;
  if (m.is_2d) {
    layer += transformer_block_params(&m, 1);
    whole = 3 * layer + 2 * transformer_other_params(&m);
  } else {
    cr_assert_gt(layer, m.vocab * m.hidden);
    whole = 3 * layer;
  }
  int64_t saved = (2 * params - params / 8 - whole) * fp32;
  int64_t less = peak_bytes(model, sample, 2, 0) - peak_bytes(model, sample, 3, 0);
  cr_expect((double)less > 0.97 * (double)saved && (double)less < 1.03 * (double)saved, "%s: %lld bytes less, not %lld",
            model, (long long)less, (long long)saved);
}

Test(execute, zero3_keeps_shards) {
  check_memory("tiny-1d", (struct sample){37, 1});
  check_memory("tiny-2d", (struct sample){3, 12});
}

/* Over the 4 ranks of a node, a shard is twice as long as over all 8: of the summed gradient, master and two moments,
 * under zero 3 of the weights, too. Zero 0 has no shards. */
Test(execute, shards_within_a_node_are_longer) {
  static const int64_t arrays[] = {0, 4, 4, 5}, fp32 = 4;
  struct sample sample = {37, 1};
  struct transformer m;
  struct err err = {0};
  cr_assert_eq(transformer_load(&m, "tiny-1d", &err), 0, "%s", err.msg);
  m.layers = 8;
  for (int zero = 0; zero <= 3; zero++) {
    int64_t more = peak_bytes("tiny-1d", sample, zero, 4) - peak_bytes("tiny-1d", sample, zero, 0);
    int64_t shard = transformer_params(&m) / 8 * fp32; /* zero 1, 2: besides, a longer part of one layer to send */
    cr_expect(more >= arrays[zero] * shard * 99 / 100 && more <= arrays[zero] * shard * 105 / 100,
              "zero %d: %lld bytes more, not %lld", zero, (long long)more, (long long)(arrays[zero] * shard));
  }
}
