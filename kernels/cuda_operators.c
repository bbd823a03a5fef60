/* From operator calls to kernels: argument structs filled, kernels issued. Which kernel, grid and shared memory a shape
 * needs is in X_launch.h, beside X.cu. Results that the operator adds to and the kernel overwrites, and memory that
 * only the kernel needs, are made up for here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/activation_launch.h"
#include "kernels/attention_launch.h"
#include "kernels/attention_merge_launch.h"
#include "kernels/cast_launch.h"
#include "kernels/copy_launch.h"
#include "kernels/cross_entropy_launch.h"
#include "kernels/device_cuda.h"
#include "kernels/embedding_launch.h"
#include "kernels/norm_launch.h"
#include "kernels/optimizer_launch.h"
#include "kernels/residual_add_launch.h"
#include "kernels/rope_launch.h"
#include "kernels/sample_launch.h"
#include "kernels/squared_error_launch.h"
#include "kernels/sum_squares_launch.h"
#include "kernels/swiglu_launch.h"
#include "sim/base/units.h"

enum { ELEMENT_SIZE = 2 }; /* bf16 */

static int32_t narrow(int64_t n) {
  ASSERT(n >= 0 && n <= INT32_MAX);
  return (int32_t)n;
}

/* A kernel by its X_launch, with its arguments; and that of one of two passes. */
#define LAUNCH(name, args) cuda_launch(cuda, name##_launch(args), args, err)
#define LAUNCH_PASS(name, args) (backward ? LAUNCH(name##_backward, args) : LAUNCH(name##_forward, args))

static int run_gemm(struct cuda *cuda, const struct gemm_call *call, struct err *err) {
  if (!cuda->cublaslt && cublaslt_open(&cuda->cublaslt, cuda->gemm_workspace, err))
    return -1;
  return cublaslt_gemm(cuda->cublaslt, call, cuda->shared.stream, err);
}

/* Sequences are the third extent of a grid, which ends at 65535: more are done in turns. */
static int run_attention_turns(struct cuda *cuda, struct attention_args args, bool backward, struct err *err) {
  const int32_t sequences = args.sequences, most = 65535;
  for (int32_t first = 0; first < sequences; first += most) {
    args.sequences = sequences - first < most ? sequences - first : most;
    const bool wgmma = cuda->attention_wgmma && attention_forward_wgmma_launch(&args).kernel;
    if (backward ? LAUNCH(attention_key_value_gradient, &args) || LAUNCH(attention_query_gradient, &args)
        : wgmma  ? LAUNCH(attention_forward_wgmma, &args)
                 : LAUNCH(attention_forward, &args))
      return -1;
    args.cu_seqlens_q += args.sequences;
    args.cu_seqlens_k += args.sequences;
  }
  return 0;
}

static int run_attention(struct cuda *cuda, const struct attention_call *c, bool backward, struct err *err) {
  const struct attention_args args = {.q = c->q,
                                      .k = c->k,
                                      .v = c->v,
                                      .out = c->out,
                                      .lse = c->lse,
                                      .dout = c->dout,
                                      .delta = c->delta,
                                      .dq = c->dq,
                                      .dk = c->dk,
                                      .dv = c->dv,
                                      .cu_seqlens_q = c->cu_seqlens_q,
                                      .cu_seqlens_k = c->cu_seqlens_k,
                                      .sequences = narrow(c->batch),
                                      .tokens_q = narrow(c->q_rows),
                                      .tokens_k = narrow(c->kv_rows),
                                      .max_len_q = narrow(c->max_q),
                                      .max_len_k = narrow(c->max_kv),
                                      .heads_q = narrow(c->heads),
                                      .heads_kv = narrow(c->kv_heads),
                                      .head_dim = narrow(c->head_dim),
                                      .causal = c->causal,
                                      .scale = c->scale};
  if (backward && LAUNCH(attention_delta, &args))
    return -1;
  return run_attention_turns(cuda, args, backward, err);
}

static int run_attention_merge(struct cuda *cuda, const struct attention_merge_call *c, struct err *err) {
  const struct attention_merge_args args = {.out_a = c->out_a,
                                            .lse_a = c->lse_a,
                                            .out_b = c->out_b,
                                            .lse_b = c->lse_b,
                                            .tokens = c->rows,
                                            .heads = narrow(c->heads),
                                            .head_dim = narrow(c->head_dim)};
  return LAUNCH(attention_merge, &args);
}

/* A row of ones and one of zeros, for norms without weight and bias. */
static int make_constants(struct cuda *cuda, struct err *err) {
  static uint16_t rows[2 * NORM_HIDDEN_MAX];
  if (cuda->constants)
    return 0;
  for (int i = 0; i < NORM_HIDDEN_MAX; i++)
    rows[i] = 0x3f80; /* bf16 1 */
  return cuda_allocate(cuda, &cuda->constants, sizeof rows, err) ||
                 cuda_transfer(cuda, cuda->constants, rows, sizeof rows, err)
             ? -1
             : 0;
}

/* The column sums of a norm's partial gradients (rows, width), added to `total`: its old contents are one row more. */
static int add_columns(struct cuda *cuda, float *partial, int32_t rows, int32_t width, void *total, struct err *err) {
  const struct column_sum_args sum = {.partial = partial, .out = total, .rows = rows + 1, .columns = width};
  const struct copy_args old = {
      .from = total, .to = partial + (size_t)rows * (size_t)width, .bytes = width * (int64_t)sizeof(float)};
  return LAUNCH(copy, &old) || LAUNCH(column_sum, &sum) ? -1 : 0;
}

/* Weight 1 and bias 0 where the norm has none. */
static int complete_norm(struct cuda *cuda, struct norm_args *args, struct err *err) {
  if (args->weight)
    return 0;
  if (make_constants(cuda, err))
    return -1;
  args->weight = cuda->constants;
  args->bias = args->weight + NORM_HIDDEN_MAX;
  return 0;
}

/* The backward kernel, which leaves the gradients of `vectors` of weight and bias as sums over parts of the rows, and
 * those added up; NULL: not wanted. */
static int run_norm_backward(struct cuda *cuda, struct norm_args *args, struct kernel_launch launch, int vectors,
                             void *dweight, void *dbias, struct err *err) {
  const int32_t rows = norm_partial_rows(args->tokens);
  const size_t each = size_mul((size_t)(rows + 1), (size_t)args->hidden);
  if (cuda_scratch(cuda, size_mul(each, (size_t)vectors * sizeof(float)), err))
    return -1;
  args->dweight_partial = cuda->scratch;
  args->dbias_partial = vectors > 1 ? args->dweight_partial + each : NULL;
  if (cuda_launch(cuda, launch, args, err))
    return -1;
  return (dweight && add_columns(cuda, args->dweight_partial, rows, args->hidden, dweight, err)) ||
                 (dbias && add_columns(cuda, args->dbias_partial, rows, args->hidden, dbias, err))
             ? -1
             : 0;
}

static int run_rmsnorm(struct cuda *cuda, const struct rmsnorm_call *c, bool backward, struct err *err) {
  struct norm_args args = {.x = c->x,
                           .weight = c->weight,
                           .y = c->y,
                           .rstd = c->rstd,
                           .dy = c->dy,
                           .dx = c->dx,
                           .tokens = c->rows,
                           .hidden = narrow(c->width),
                           .epsilon = c->eps};
  if (complete_norm(cuda, &args, err))
    return -1;
  return backward ? run_norm_backward(cuda, &args, rmsnorm_backward_launch(&args), 1, c->dweight, NULL, err)
                  : LAUNCH(rmsnorm_forward, &args);
}

static int run_layernorm(struct cuda *cuda, const struct layernorm_call *c, bool backward, struct err *err) {
  struct norm_args args = {.x = c->x,
                           .weight = c->weight,
                           .bias = c->bias,
                           .y = c->y,
                           .mean = c->mean,
                           .rstd = c->rstd,
                           .dy = c->dy,
                           .dx = c->dx,
                           .tokens = c->rows,
                           .hidden = narrow(c->width),
                           .epsilon = c->eps};
  if (complete_norm(cuda, &args, err))
    return -1;
  return backward ? run_norm_backward(cuda, &args, layernorm_backward_launch(&args), 2, c->dweight, c->dbias, err)
                  : LAUNCH(layernorm_forward, &args);
}

/* Cosines and sines up to a position, kept for the next call: made on the host, since late positions need doubles. */
static int make_rope_table(struct cuda *cuda, const struct rope_call *c, struct err *err) {
  const int64_t half = c->head_dim / 2, positions = c->max_position + 1;
  if (cuda->rope.table && cuda->rope.base == c->base && cuda->rope.head_dim == c->head_dim &&
      cuda->rope.positions >= positions)
    return 0;
  const size_t n = size_mul((size_t)positions, (size_t)half), bytes = size_mul(n, 2 * sizeof(float));
  float *table = xmalloc(bytes);
  for (int64_t i = 0; i < half; i++) {
    const double frequency = pow(c->base, -2.0 * (double)i / (double)c->head_dim);
    for (int64_t position = 0; position < positions; position++) {
      table[position * half + i] = (float)cos((double)position * frequency);
      table[(positions + position) * half + i] = (float)sin((double)position * frequency);
    }
  }
  void *old = cuda->rope.table;
  cuda->rope.table = NULL;
  int rc = old ? cuda_driver_check(cuda->driver, cuda->driver->cuMemFree_v2(old), "cuMemFree_v2", err) : 0;
  rc = rc || cuda_allocate(cuda, &cuda->rope.table, bytes, err) ||
       cuda_transfer(cuda, cuda->rope.table, table, bytes, err);
  free(table);
  cuda->rope.positions = positions;
  cuda->rope.head_dim = c->head_dim;
  cuda->rope.base = rc ? 0 : c->base; /* 0: no call has it */
  return rc ? -1 : 0;
}

static int run_rope(struct cuda *cuda, const struct rope_call *c, struct err *err) {
  if (make_rope_table(cuda, c, err))
    return -1;
  const float *table = cuda->rope.table;
  const struct rope_args args = {.x = c->x,
                                 .y = c->x,
                                 .positions = c->positions,
                                 .cos = table,
                                 .sin = table + cuda->rope.positions * (c->head_dim / 2),
                                 .tokens = c->rows,
                                 .heads = narrow(c->heads),
                                 .head_dim = narrow(c->head_dim),
                                 .backward = c->inverse};
  return LAUNCH(rope, &args);
}

static int run_swiglu(struct cuda *cuda, const struct swiglu_call *c, bool backward, struct err *err) {
  const struct swiglu_args args = {.gate = c->x,
                                   .up = (const uint16_t *)c->x + c->width,
                                   .out = c->y,
                                   .dout = c->dy,
                                   .dgate = c->dx,
                                   .dup = backward ? (uint16_t *)c->dx + c->width : NULL,
                                   .tokens = c->rows,
                                   .stride = 2 * c->width,
                                   .width = narrow(c->width)};
  return LAUNCH_PASS(swiglu, &args);
}

static int run_gelu(struct cuda *cuda, const struct gelu_call *c, bool backward, struct err *err) {
  const struct activation_args args = {.x = c->x, .out = c->y, .dout = c->dy, .dx = c->dx, .count = c->n};
  return LAUNCH_PASS(gelu, &args);
}

static int run_silu(struct cuda *cuda, const struct silu_call *c, bool backward, struct err *err) {
  const struct activation_args args = {.x = c->x, .out = c->y, .dout = c->dy, .dx = c->dx, .count = c->n};
  return LAUNCH_PASS(silu, &args);
}

static int run_residual(struct cuda *cuda, const struct residual_call *c, struct err *err) {
  const struct residual_add_args args = {.a = c->a, .b = c->b, .out = c->y, .count = c->n};
  return LAUNCH(residual_add, &args);
}

/* The sums over parts, added to the gradient of a vector of each sample. */
static int add_sample_sums(struct cuda *cuda, const struct sample_args *args, const float *partial, void *total,
                           struct err *err) {
  const struct sample_sum_args sum = {.partial = partial,
                                      .out = total,
                                      .stride = args->stride,
                                      .parts = sample_parts(args->rows, args->samples, args->width),
                                      .samples = args->samples,
                                      .width = args->width};
  return args->rows > 0 ? LAUNCH(sample_sum, &sum) : 0;
}

/* The backward kernel, which leaves the gradients of the samples' vectors as sums over parts of the rows, and those
 * added up; NULL: the operator has no such vector. */
static int run_sample_backward(struct cuda *cuda, struct sample_args *args, struct kernel_launch launch, void *dscale,
                               void *dshift, struct err *err) {
  const size_t parts = (size_t)sample_parts(args->rows, args->samples, args->width), vectors = dscale && dshift ? 2 : 1;
  const size_t each = size_mul(size_mul(parts, (size_t)args->samples), (size_t)args->width);
  if (cuda_scratch(cuda, size_mul(each, vectors * sizeof(float)), err))
    return -1;
  args->dscale_partial = dscale ? cuda->scratch : NULL;
  args->dshift_partial = !dshift ? NULL : dscale ? args->dscale_partial + each : cuda->scratch;
  return cuda_launch(cuda, launch, args, err) ||
                 (dscale && add_sample_sums(cuda, args, args->dscale_partial, dscale, err)) ||
                 (dshift && add_sample_sums(cuda, args, args->dshift_partial, dshift, err))
             ? -1
             : 0;
}

static int run_bias(struct cuda *cuda, const struct bias_call *c, bool backward, struct err *err) {
  struct sample_args args = {
      .x = c->x, .shift = c->bias, .y = c->y, .dy = c->dy, .rows = c->rows, .samples = 1, .width = narrow(c->width)};
  return backward ? run_sample_backward(cuda, &args, bias_backward_launch(&args), NULL, c->dbias, err)
                  : LAUNCH(bias_forward, &args);
}

static int run_modulate(struct cuda *cuda, const struct modulate_call *c, bool backward, struct err *err) {
  struct sample_args args = {.x = c->x,
                             .scale = c->scale,
                             .shift = c->shift,
                             .y = c->y,
                             .dy = c->dy,
                             .dx = c->dx,
                             .cu_rows = c->cu_rows,
                             .rows = c->rows,
                             .stride = c->sample_stride,
                             .samples = narrow(c->batch),
                             .width = narrow(c->width)};
  return backward ? run_sample_backward(cuda, &args, modulate_backward_launch(&args), c->dscale, c->dshift, err)
                  : LAUNCH(modulate_forward, &args);
}

static int run_gate(struct cuda *cuda, const struct gate_call *c, bool backward, struct err *err) {
  struct sample_args args = {.x = c->x,
                             .scale = c->gate,
                             .residual = c->residual,
                             .y = c->y,
                             .dy = c->dy,
                             .dx = c->dx,
                             .cu_rows = c->cu_rows,
                             .rows = c->rows,
                             .stride = c->sample_stride,
                             .samples = narrow(c->batch),
                             .width = narrow(c->width)};
  return backward ? run_sample_backward(cuda, &args, gate_backward_launch(&args), c->dgate, NULL, err)
                  : LAUNCH(gate_forward, &args);
}

static int run_squared_error(struct cuda *cuda, const struct squared_error_call *c, struct err *err) {
  const struct squared_error_args args = {.x = c->x,
                                          .target = c->target,
                                          .loss = c->loss,
                                          .dx = c->dx,
                                          .rows = c->rows,
                                          .width = narrow(c->width),
                                          .scale = c->scale};
  return LAUNCH(squared_error, &args);
}

static int run_cast(struct cuda *cuda, const struct cast_call *c, struct err *err) {
  const struct cast_args args = {.from = c->src, .to = c->dst, .count = c->n, .scale = c->scale};
  return cuda_launch(cuda, cast_launch(&args, c->to_fp32), &args, err);
}

static int run_sum_squares(struct cuda *cuda, const struct sum_squares_call *c, struct err *err) {
  if (cuda_scratch(cuda, (size_t)sum_squares_blocks(c->n) * sizeof(float), err))
    return -1;
  const struct sum_squares_args args = {.x = c->x, .partial = cuda->scratch, .sum = c->sum, .count = c->n};
  return LAUNCH(sum_squares, &args) || LAUNCH(sum_squares_total, &args) ? -1 : 0;
}

static int run_cross_entropy(struct cuda *cuda, const struct cross_entropy_call *c, bool backward, struct err *err) {
  const struct cross_entropy_args args = {.logits = c->x,
                                          .targets = c->targets,
                                          .loss = c->loss,
                                          .lse = c->lse,
                                          .dlogits = c->dx,
                                          .tokens = c->rows,
                                          .vocabulary = narrow(c->vocab),
                                          .scale = c->scale};
  return LAUNCH_PASS(cross_entropy, &args);
}

/* A position table is a second lookup, added to the first. */
static int run_embedding(struct cuda *cuda, const struct embedding_call *c, bool backward, struct err *err) {
  struct embedding_args args = {.table = c->table,
                                .ids = c->tokens,
                                .out = c->out,
                                .dout = c->dout,
                                .dtable = c->dtable,
                                .tokens = c->rows,
                                .hidden = narrow(c->width)};
  if (backward ? LAUNCH(embedding_scatter, &args) : LAUNCH(embedding_gather, &args))
    return -1;
  args.ids = c->positions;
  if (backward) {
    args.dtable = c->dposition_table;
    return c->dposition_table ? LAUNCH(embedding_scatter, &args) : 0;
  }
  if (!c->position_table)
    return 0;
  const int64_t n = c->rows * c->width;
  if (cuda_scratch(cuda, size_mul((size_t)n, ELEMENT_SIZE), err))
    return -1;
  args.table = c->position_table;
  args.out = cuda->scratch;
  const struct residual_add_args sum = {.a = c->out, .b = cuda->scratch, .out = c->out, .count = n};
  return LAUNCH(embedding_gather, &args) || LAUNCH(residual_add, &sum) ? -1 : 0;
}

static int run_adamw(struct cuda *cuda, const struct adamw_call *c, struct err *err) {
  const struct optimizer_args args = {.master = c->master,
                                      .m = c->m,
                                      .v = c->v,
                                      .weight = c->weight,
                                      .gradient = c->grad,
                                      .count = c->n,
                                      .gradient_is_fp32 = 1,
                                      .rate = c->lr,
                                      .beta1 = c->beta1,
                                      .beta2 = c->beta2,
                                      .epsilon = c->eps,
                                      .decay = c->weight_decay,
                                      .correction1 = (float)(1 - pow(c->beta1, (double)c->step)),
                                      .correction2 = (float)(1 - pow(c->beta2, (double)c->step)),
                                      .gradient_scale = c->grad_scale};
  return LAUNCH(adamw, &args);
}

static int run_sgd(struct cuda *cuda, const struct sgd_call *c, struct err *err) {
  const struct optimizer_args args = {.master = c->master,
                                      .m = c->m,
                                      .weight = c->weight,
                                      .gradient = c->grad,
                                      .count = c->n,
                                      .gradient_is_fp32 = 1,
                                      .rate = c->lr,
                                      .beta1 = c->momentum,
                                      .decay = c->weight_decay,
                                      .gradient_scale = c->grad_scale};
  return LAUNCH(sgd, &args);
}

/* Whether the extents lie one behind the other on both sides, as one run of elements. */
static bool contiguous(const struct copy_call *c) {
  int64_t next = c->width;
  for (int i = 2; i >= 0; i--) {
    if (c->extent[i] > 1 && (c->src_stride[i] != next || c->dst_stride[i] != next))
      return false;
    next *= c->extent[i];
  }
  return true;
}

/* Whether all that begins somewhere, on either side, begins at a multiple of 16 bytes. */
static bool aligned(const struct copy_call *c) {
  int64_t all = c->width;
  for (int i = 0; i < 3; i++)
    if (c->extent[i] > 1)
      all |= c->src_stride[i] | c->dst_stride[i];
  return all % LAUNCH_VECTOR == 0 && ((uintptr_t)c->src | (uintptr_t)c->dst) % 16 == 0;
}

static int run_copy(struct cuda *cuda, const struct copy_call *c, struct err *err) {
  const int64_t n = c->extent[0] * c->extent[1] * c->extent[2] * c->width;
  const struct copy_args all = {.from = c->src, .to = c->dst, .bytes = n * ELEMENT_SIZE};
  struct copy_strided_args args = {.from = c->src,
                                   .to = c->dst,
                                   .width = c->width,
                                   .vector = aligned(c) ? LAUNCH_VECTOR : 1,
                                   .accumulate = c->accumulate};
  memcpy(args.from_stride, c->src_stride, sizeof args.from_stride);
  memcpy(args.to_stride, c->dst_stride, sizeof args.to_stride);
  memcpy(args.extent, c->extent, sizeof args.extent);
  if (!c->accumulate && contiguous(c) && ((uintptr_t)c->src | (uintptr_t)c->dst) % 16 == 0)
    return LAUNCH(copy, &all);
  return LAUNCH(copy_strided, &args);
}

static int run_clear(struct cuda *cuda, const struct clear_call *call, struct err *err) {
  if (call->n == 0)
    return 0;
  const int rc =
      cuda->driver->cuMemsetD8Async(call->x, 0, size_mul((size_t)call->n, sizeof(float)), cuda->shared.stream);
  return cuda_driver_check(cuda->driver, rc, "cuMemsetD8Async", err);
}

int cuda_operator_run(struct cuda *cuda, const struct operator_call *call, struct err *err) {
  switch (call->kind) {
#define ONE(UPPER, member)                                                                                             \
  case OPERATOR_##UPPER:                                                                                               \
    return run_##member(cuda, &call->member, err);
#define PASSES(UPPER, member)                                                                                          \
  case OPERATOR_##UPPER##_FORWARD:                                                                                     \
    return run_##member(cuda, &call->member, false, err);                                                              \
  case OPERATOR_##UPPER##_BACKWARD:                                                                                    \
    return run_##member(cuda, &call->member, true, err);
    ONE(GEMM, gemm)
    PASSES(ATTENTION, attention)
    ONE(ATTENTION_MERGE, attention_merge)
    PASSES(RMSNORM, rmsnorm)
    PASSES(LAYERNORM, layernorm)
    ONE(ROPE, rope)
    PASSES(SWIGLU, swiglu)
    PASSES(GELU, gelu)
    PASSES(SILU, silu)
    ONE(RESIDUAL, residual)
    PASSES(BIAS, bias)
    PASSES(MODULATE, modulate)
    PASSES(GATE, gate)
    PASSES(CROSS_ENTROPY, cross_entropy)
    ONE(SQUARED_ERROR, squared_error)
    PASSES(EMBEDDING, embedding)
    ONE(ADAMW, adamw)
    ONE(SGD, sgd)
    ONE(COPY, copy)
    ONE(CAST, cast)
    ONE(SUM_SQUARES, sum_squares)
    ONE(CLEAR, clear)
#undef ONE
#undef PASSES
  default:
    ASSERT(!"an operator");
  }
}
