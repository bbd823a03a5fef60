/* The executor on one rank of the CPU device: its tensors, and its optimizer against a double-precision reference. */
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
  uint32_t id;
  struct execute_micro_batch micro_batch;
  struct execute_group group;
  struct execute_step step;
};

static void open_run(struct run *r, const char *model, struct sample sample) {
  struct err err = {0};
  *r = (struct run){.sample = sample, .id = 7};
  cr_assert_eq(transformer_load(&r->model, model, &err), 0, "%s", err.msg);
  cr_assert_eq(cluster_load(&r->cluster, "h200_1x1", &err), 0, "%s", err.msg);
  cr_assert_eq(params_load(&r->params, "h200_sxm", &err), 0, "%s", err.msg);
  r->system = (struct system){&r->model, &r->cluster, r->params, framework_find("fused", &err), {.grad_bytes = 2}};
  r->system.parallel.sp_kind = r->model.is_2d ? SP_DSP : SP_ULYSSES;
  cr_assert_eq(device_open(&r->device, "cpu", 0, &err), 0, "%s", err.msg);
  cr_assert_eq(communicator_open(&r->world, "self", r->device, &err), 0, "%s", err.msg);
  struct execute_options options = {.optimizer = OPTIMIZER_ADAMW, .learning_rate = RATE};
  cr_assert_eq(executor_open(&r->executor, &r->model, &options, r->world, &err), 0, "%s", err.msg);
  cr_assert_eq(executor_start(r->executor, &err), 0, "%s", err.msg);
  struct microbatch shape = {.batch = 1, .packed = &r->sample};
  lower_micro_batch(&r->program, &r->system, 1, &shape);
  lower_step_tail(&r->tail, &r->system);
  r->tail_s = calloc(r->tail.n_ops, sizeof *r->tail_s);
  r->micro_batch = (struct execute_micro_batch){
      .program = &r->program, .batch = 1, .samples = &r->sample, .ids = &r->id, .packed = true, .ring = 1, .weight = 1};
  r->group = (struct execute_group){.sp = 1, .micro_batches = &r->micro_batch, .n_micro_batches = 1};
  r->step = (struct execute_step){.groups = &r->group, .n_groups = 1, .tail = &r->tail, .tail_s = r->tail_s};
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
