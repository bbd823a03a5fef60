#include "sim/plan/lower.h"

#include "sim/base/units.h"
#include "sim/plan/lower_block.h"
#include "sim/plan/program_time.h"

static struct lowering lowering_of(struct program *out, const struct system *s, int sp, const struct microbatch *mb) {
  struct in_step_scalars scalars = params_in_step(s->params, s->framework->name);
  out->sp = sp;
  out->host_op_ns = ns_from_s(scalars.host_op_s);
  return (struct lowering){.program = out,
                           .system = s,
                           .sp = sp,
                           .mb = mb,
                           .derate = scalars.compute_derate,
                           .category = TIMELINE_CAT_COMPUTE};
}

void lower_micro_batch(struct program *out, const struct system *s, int sp, const struct microbatch *mb) {
  *out = (struct program){0};
  struct lowering l = lowering_of(out, s, sp, mb);
  if (s->model->is_2d)
    lower_2d(&l);
  else
    lower_1d(&l);
  out->host_sync_first = out->ops[0].kind == OP_HOST;
  program_fold_cache(out);
}

double lower_block_forward_s(const struct system *s, int sp, const struct microbatch *mb, int module) {
  struct program p = {0};
  struct lowering l = lowering_of(&p, s, sp, mb);
  program_begin_section(&p, SECTION_FORWARD, 1);
  if (s->model->is_2d)
    lower_2d_block_forward(&l, module);
  else
    lower_1d_block_forward(&l);
  program_fold_cache(&p);
  double seconds = s_from_ns(p.cold.time_ns);
  program_release(&p);
  return seconds;
}

/* AdamW per local parameter: fp32 master, two moments read and written (24 bytes), gradient read, bf16 weight written.
 */
static double optimizer_bytes_per_param(const struct system *s) { return 24.0 + s->parallel.grad_bytes + 2.0; }

void lower_step_tail(struct program *out, const struct system *s) {
  *out = (struct program){0};
  struct lowering l = lowering_of(out, s, 1, NULL);
  int zero = s->parallel.zero, world = system_world(s);
  double params = (double)transformer_params(s->model);
  int shards = zero == 0 ? 1 : s->parallel.shard_node ? s->cluster->gpus_per_node : world;
  program_begin_section(out, SECTION_AFTER, 1);
  emit_wait(&l, 0);
  emit_post(&l, "grad_norm", COLLECTIVE_ALL_REDUCE, 4);
  emit_wait(&l, 0);
  l.category = TIMELINE_CAT_OPTIMIZER;
  emit_compute(&l, "optimizer",
               memory_time_s(s->params, MEMORY_OPTIMIZER, params / shards * optimizer_bytes_per_param(s)), WORK_EXACT,
               1);
  if (zero == 1 || zero == 2) {
    emit_post(&l, "param_gather", COLLECTIVE_ALL_GATHER, 2 * params);
    emit_wait(&l, 0);
  }
}

void lower_real_work(const struct system *s, const struct sample *samples, const uint32_t *entries, int64_t n,
                     double real_work[WORK_CLASSES]) {
  double tokens = 0, first = 0, second = 0;
  for (int64_t i = 0; i < n; i++) {
    double a = samples[entries[i]].a, b = samples[entries[i]].b;
    tokens += a * b;
    first += a * a * b;
    second += a * b * b;
  }
  real_work[WORK_EXACT] = 1;
  real_work[WORK_TOKENS] = tokens;
  real_work[WORK_ATTENTION] = first; /* 1D: sum of L^2; 2D temporal: sum of S*T^2 */
  real_work[WORK_SPATIAL_TOKENS] = s->model->is_2d ? tokens : 0;
  real_work[WORK_SPATIAL_ATTENTION] = s->model->is_2d ? second : 0;
}
