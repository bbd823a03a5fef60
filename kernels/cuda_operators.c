/* From operator calls to kernels: argument structs filled, kernels issued. Which kernel, grid and shared memory a shape
 * needs is in X_launch.h, beside X.cu. Results that the operator adds to and the kernel overwrites, and memory that
 * only the kernel needs, are made up for here. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/attention_launch.h"
#include "kernels/copy_launch.h"
#include "kernels/cross_entropy_launch.h"
#include "kernels/device_cuda.h"
#include "kernels/embedding_launch.h"
#include "kernels/gelu_launch.h"
#include "kernels/norm_launch.h"
#include "kernels/optimizer_launch.h"
#include "kernels/residual_add_launch.h"
#include "kernels/rope_launch.h"
#include "kernels/swiglu_launch.h"
#include "sim/base/units.h"

enum { ELEMENT_SIZE = 2 }; /* bf16 */

static int32_t narrow(int64_t n) {
  ASSERT(n >= 0 && n <= INT32_MAX);
  return (int32_t)n;
}

/* X_launch and its arguments of one kernel. */
#define LAUNCH(name, args) (launch = name##_launch(args), cuda_launch(cuda, &launch, args, err))

static int run_gemm(struct cuda *cuda, const struct gemm_call *call, struct err *err) {
  if (!cuda->cublaslt && cublaslt_open(&cuda->cublaslt, cuda->gemm_workspace, err))
    return -1;
  return cublaslt_gemm(cuda->cublaslt, call, cuda->shared.stream, err);
}

static int run_attention(struct cuda *cuda, const struct attention_call *c, bool backward, struct err *err) {
  struct kernel_launch launch;
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
  if (!backward)
    return LAUNCH(attention_forward, &args);
  return LAUNCH(attention_delta, &args) || LAUNCH(attention_key_value_gradient, &args) ||
                 LAUNCH(attention_query_gradient, &args)
             ? -1
             : 0;
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
  struct kernel_launch launch;
  const struct column_sum_args sum = {.partial = partial, .out = total, .rows = rows + 1, .columns = width};
  const struct copy_args old = {
      .from = total, .to = partial + (size_t)rows * (size_t)width, .bytes = width * (int64_t)sizeof(float)};
  return LAUNCH(copy, &old) || LAUNCH(column_sum, &sum) ? -1 : 0;
}

static int run_rmsnorm(struct cuda *cuda, const struct rmsnorm_call *c, bool backward, struct err *err) {
  struct kernel_launch launch;
  struct norm_args args = {.x = c->x,
                           .weight = c->weight,
                           .y = c->y,
                           .rstd = c->rstd,
                           .dy = c->dy,
                           .dx = c->dx,
                           .tokens = c->rows,
                           .hidden = narrow(c->width),
                           .epsilon = c->eps};
  const int32_t rows = norm_partial_rows(c->rows);
  if (!c->weight) {
    if (make_constants(cuda, err))
      return -1;
    args.weight = cuda->constants;
  }
  if (!backward)
    return LAUNCH(rmsnorm_forward, &args);
  if (cuda_scratch(cuda, size_mul((size_t)(rows + 1), (size_t)c->width * sizeof(float)), err))
    return -1;
  args.dweight_partial = cuda->scratch;
  if (LAUNCH(rmsnorm_backward, &args))
    return -1;
  return c->dweight ? add_columns(cuda, args.dweight_partial, rows, args.hidden, c->dweight, err) : 0;
}

static int run_layernorm(struct cuda *cuda, const struct layernorm_call *c, bool backward, struct err *err) {
  struct kernel_launch launch;
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
  const int32_t rows = norm_partial_rows(c->rows);
  const size_t partial = size_mul((size_t)(rows + 1), (size_t)c->width);
  if (!c->weight) {
    if (make_constants(cuda, err))
      return -1;
    args.weight = cuda->constants;
    args.bias = args.weight + NORM_HIDDEN_MAX;
  }
  if (!backward)
    return LAUNCH(layernorm_forward, &args);
  if (cuda_scratch(cuda, size_mul(partial, 2 * sizeof(float)), err))
    return -1;
  args.dweight_partial = cuda->scratch;
  args.dbias_partial = args.dweight_partial + partial;
  if (LAUNCH(layernorm_backward, &args))
    return -1;
  return c->dweight && (add_columns(cuda, args.dweight_partial, rows, args.hidden, c->dweight, err) ||
                        add_columns(cuda, args.dbias_partial, rows, args.hidden, c->dbias, err))
             ? -1
             : 0;
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
  struct kernel_launch launch;
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
  struct kernel_launch launch;
  const struct swiglu_args args = {.gate = c->x,
                                   .up = (const uint16_t *)c->x + c->width,
                                   .out = c->y,
                                   .dout = c->dy,
                                   .dgate = c->dx,
                                   .dup = backward ? (uint16_t *)c->dx + c->width : NULL,
                                   .tokens = c->rows,
                                   .stride = 2 * c->width,
                                   .width = narrow(c->width)};
  return backward ? LAUNCH(swiglu_backward, &args) : LAUNCH(swiglu_forward, &args);
}

static int run_gelu(struct cuda *cuda, const struct gelu_call *c, bool backward, struct err *err) {
  struct kernel_launch launch;
  const struct gelu_args args = {.x = c->x, .out = c->y, .dout = c->dy, .dx = c->dx, .count = c->n};
  return backward ? LAUNCH(gelu_backward, &args) : LAUNCH(gelu_forward, &args);
}

static int run_residual(struct cuda *cuda, const struct residual_call *c, struct err *err) {
  struct kernel_launch launch;
  const struct residual_add_args args = {.a = c->a, .b = c->b, .out = c->y, .count = c->n};
  return LAUNCH(residual_add, &args);
}

static int run_cross_entropy(struct cuda *cuda, const struct cross_entropy_call *c, bool backward, struct err *err) {
  struct kernel_launch launch;
  const struct cross_entropy_args args = {.logits = c->x,
                                          .targets = c->targets,
                                          .loss = c->loss,
                                          .lse = c->lse,
                                          .dlogits = c->dx,
                                          .tokens = c->rows,
                                          .vocabulary = narrow(c->vocab),
                                          .scale = c->scale};
  return backward ? LAUNCH(cross_entropy_backward, &args) : LAUNCH(cross_entropy_forward, &args);
}

/* A position table is a second lookup, added to the first. */
static int run_embedding(struct cuda *cuda, const struct embedding_call *c, bool backward, struct err *err) {
  struct kernel_launch launch;
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
  struct kernel_launch launch;
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
  struct kernel_launch launch;
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
  return !c->accumulate;
}

static int run_copy(struct cuda *cuda, const struct copy_call *c, struct err *err) {
  struct kernel_launch launch;
  const struct copy_args args = {
      .from = c->src, .to = c->dst, .bytes = c->extent[0] * c->extent[1] * c->extent[2] * c->width * ELEMENT_SIZE};
  if (!contiguous(c))
    return err_set(err, "there is no CUDA kernel yet for a strided or adding copy");
  return LAUNCH(copy, &args);
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
  case OPERATOR_GEMM:
    return run_gemm(cuda, &call->gemm, err);
  case OPERATOR_ATTENTION_FORWARD:
  case OPERATOR_ATTENTION_BACKWARD:
    return run_attention(cuda, &call->attention, call->kind == OPERATOR_ATTENTION_BACKWARD, err);
  case OPERATOR_RMSNORM_FORWARD:
  case OPERATOR_RMSNORM_BACKWARD:
    return run_rmsnorm(cuda, &call->rmsnorm, call->kind == OPERATOR_RMSNORM_BACKWARD, err);
  case OPERATOR_LAYERNORM_FORWARD:
  case OPERATOR_LAYERNORM_BACKWARD:
    return run_layernorm(cuda, &call->layernorm, call->kind == OPERATOR_LAYERNORM_BACKWARD, err);
  case OPERATOR_ROPE:
    return run_rope(cuda, &call->rope, err);
  case OPERATOR_SWIGLU_FORWARD:
  case OPERATOR_SWIGLU_BACKWARD:
    return run_swiglu(cuda, &call->swiglu, call->kind == OPERATOR_SWIGLU_BACKWARD, err);
  case OPERATOR_GELU_FORWARD:
  case OPERATOR_GELU_BACKWARD:
    return run_gelu(cuda, &call->gelu, call->kind == OPERATOR_GELU_BACKWARD, err);
  case OPERATOR_RESIDUAL:
    return run_residual(cuda, &call->residual, err);
  case OPERATOR_CROSS_ENTROPY_FORWARD:
  case OPERATOR_CROSS_ENTROPY_BACKWARD:
    return run_cross_entropy(cuda, &call->cross_entropy, call->kind == OPERATOR_CROSS_ENTROPY_BACKWARD, err);
  case OPERATOR_EMBEDDING_FORWARD:
  case OPERATOR_EMBEDDING_BACKWARD:
    return run_embedding(cuda, &call->embedding, call->kind == OPERATOR_EMBEDDING_BACKWARD, err);
  case OPERATOR_ADAMW:
    return run_adamw(cuda, &call->adamw, err);
  case OPERATOR_SGD:
    return run_sgd(cuda, &call->sgd, err);
  case OPERATOR_COPY:
    return run_copy(cuda, &call->copy, err);
  case OPERATOR_CLEAR:
    return run_clear(cuda, &call->clear, err);
  default:
    return err_set(err, "there is no CUDA kernel yet for this operator");
  }
}
