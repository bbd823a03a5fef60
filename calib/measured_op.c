#include "calib/measured_op.h"

#include <math.h>
#include <string.h>

#include "sim/base/units.h"

enum { MODULATE_SAMPLES = 4 };

/* ---- Attention ---- */

static int64_t pack_tokens(const int64_t *s, bool varlen) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < s[SHAPE_BATCH]; i++)
    tokens += varlen ? row_varlen_length(s[SHAPE_SEQLEN], s[SHAPE_BATCH], i) : s[SHAPE_SEQLEN];
  return tokens;
}

static void put_lengths(const int64_t *s, bool varlen, int32_t *out) {
  out[0] = 0;
  for (int64_t i = 0; i < s[SHAPE_BATCH]; i++)
    out[i + 1] = out[i] + (int32_t)(varlen ? row_varlen_length(s[SHAPE_SEQLEN], s[SHAPE_BATCH], i) : s[SHAPE_SEQLEN]);
}

/* q, k, v, out, lse, cu_seqlens; backward: dout, dq, dk, dv, delta. */
static int attention_arrays(const int64_t *s, struct array *out, bool varlen, bool backward) {
  const int64_t t = pack_tokens(s, varlen), q = t * s[SHAPE_HEADS] * s[SHAPE_HEAD_DIM],
                kv = t * s[SHAPE_KV_HEADS] * s[SHAPE_HEAD_DIM], rows = t * s[SHAPE_HEADS];
  const struct array arrays[] = {{ARRAY_IN, q},   {ARRAY_IN, kv},         {ARRAY_IN, kv},
                                 {ARRAY_OUT, q},  {ARRAY_OUT_FP32, rows}, {ARRAY_INT32, s[SHAPE_BATCH] + 1},
                                 {ARRAY_IN, q},   {ARRAY_OUT, q},         {ARRAY_OUT, kv},
                                 {ARRAY_OUT, kv}, {ARRAY_SCRATCH, rows}};
  const int n = backward ? 11 : 6;
  memcpy(out, arrays, (size_t)n * sizeof *out);
  return n;
}

static void bind_attention(const int64_t *s, void *const *p, struct operator_call *call, bool varlen, bool backward) {
  const int64_t t = pack_tokens(s, varlen);
  call->kind = backward ? OPERATOR_ATTENTION_BACKWARD : OPERATOR_ATTENTION_FORWARD;
  call->attention = (struct attention_call){.batch = s[SHAPE_BATCH],
                                            .heads = s[SHAPE_HEADS],
                                            .kv_heads = s[SHAPE_KV_HEADS],
                                            .head_dim = s[SHAPE_HEAD_DIM],
                                            .q_rows = t,
                                            .kv_rows = t,
                                            .max_q = s[SHAPE_SEQLEN],
                                            .max_kv = s[SHAPE_SEQLEN],
                                            .causal = s[SHAPE_CAUSAL] != 0,
                                            .scale = 1 / sqrtf((float)s[SHAPE_HEAD_DIM]),
                                            .cu_seqlens_q = p[5],
                                            .cu_seqlens_k = p[5],
                                            .q = p[0],
                                            .k = p[1],
                                            .v = p[2],
                                            .out = p[3],
                                            .lse = p[4]};
  if (!backward)
    return;
  call->attention.dout = p[6];
  call->attention.dq = p[7];
  call->attention.dk = p[8];
  call->attention.dv = p[9];
  call->attention.delta = p[10];
}

#define ATTENTION(name, varlen, backward)                                                                              \
  static int arrays_##name(const int64_t *s, struct array *out) { return attention_arrays(s, out, varlen, backward); } \
  static void bind_##name(const int64_t *s, void *const *p, struct operator_call *call) {                              \
    bind_attention(s, p, call, varlen, backward);                                                                      \
  }
ATTENTION(attention_forward, false, false)
ATTENTION(attention_backward, false, true)
ATTENTION(attention_varlen_forward, true, false)
ATTENTION(attention_varlen_backward, true, true)

static void equal_lengths(const int64_t *s, int32_t *out) { put_lengths(s, false, out); }
static void varlen_lengths(const int64_t *s, int32_t *out) { put_lengths(s, true, out); }

static void small_attention(const int64_t *s, int64_t *out) {
  const int64_t group = s[SHAPE_HEADS] / s[SHAPE_KV_HEADS], kv_heads = int64_min(2, s[SHAPE_KV_HEADS]);
  const int64_t small[] = {s[SHAPE_CAUSAL], 2, 77, group * kv_heads, kv_heads, s[SHAPE_HEAD_DIM]};
  memcpy(out, small, sizeof small);
}

/* ---- GEMM ---- */

static int arrays_gemm(const int64_t *s, struct array *out) {
  out[0] = (struct array){ARRAY_IN, s[SHAPE_M] * s[SHAPE_K]};
  out[1] = (struct array){ARRAY_IN, s[SHAPE_N] * s[SHAPE_K]};
  out[2] = (struct array){ARRAY_OUT, s[SHAPE_M] * s[SHAPE_N]};
  return 3;
}

/* A linear layer's forward: (tokens, in) times the transpose of (out, in). */
static void bind_gemm(const int64_t *s, void *const *p, struct operator_call *call) {
  call->kind = OPERATOR_GEMM;
  call->gemm = (struct gemm_call){
      .m = s[SHAPE_M], .n = s[SHAPE_N], .k = s[SHAPE_K], .b_transposed = true, .a = p[0], .b = p[1], .c = p[2]};
}

static int arrays_gemm_wgrad(const int64_t *s, struct array *out) {
  arrays_gemm(s, out);
  out[2].kind = ARRAY_ADD_FP32;
  return 3;
}

static void bind_gemm_wgrad(const int64_t *s, void *const *p, struct operator_call *call) {
  bind_gemm(s, p, call);
  call->gemm.b_transposed = false;
  call->gemm.a_transposed = call->gemm.accumulate = call->gemm.c_fp32 = true;
}

static void small_gemm(const int64_t *s, int64_t *out) {
  (void)s;
  out[SHAPE_M] = 72;
  out[SHAPE_N] = 104;
  out[SHAPE_K] = 136;
}

/* ---- What memory bounds ---- */

static void small_memory(const int64_t *s, int64_t *out) {
  out[SHAPE_ROWS] = 24;
  out[SHAPE_HIDDEN] = int64_min(s[SHAPE_HIDDEN], 256);
}

/* The arrays of an operation on `rows` x `width`: kinds and sizes side by side. */
#define ARRAYS(name, ...)                                                                                              \
  static int arrays_##name(const int64_t *s, struct array *out) {                                                      \
    const int64_t rows = s[SHAPE_ROWS], width = s[SHAPE_HIDDEN], all = rows * width;                                   \
    const struct array arrays[] = {__VA_ARGS__};                                                                       \
    (void)rows, (void)width, (void)all;                                                                                \
    memcpy(out, arrays, sizeof arrays);                                                                                \
    return sizeof arrays / sizeof *arrays;                                                                             \
  }
#define BIND(name, KIND, member, ...)                                                                                  \
  static void bind_##name(const int64_t *s, void *const *p, struct operator_call *call) {                              \
    const int64_t rows = s[SHAPE_ROWS], width = s[SHAPE_HIDDEN], all = rows * width;                                   \
    (void)rows, (void)width, (void)all;                                                                                \
    call->kind = OPERATOR_##KIND;                                                                                      \
    call->member = (struct member##_call){__VA_ARGS__};                                                                \
  }

ARRAYS(rmsnorm, {ARRAY_IN, all}, {ARRAY_IN, width}, {ARRAY_OUT, all}, {ARRAY_OUT_FP32, rows})
BIND(rmsnorm, RMSNORM_FORWARD, rmsnorm, .rows = rows, .width = width, .eps = 1e-5f, .x = p[0], .weight = p[1],
     .y = p[2], .rstd = p[3])
ARRAYS(rmsnorm_backward, {ARRAY_IN, all}, {ARRAY_IN, width}, {ARRAY_IN_FP32, rows}, {ARRAY_IN, all}, {ARRAY_OUT, all},
       {ARRAY_ADD_FP32, width})
BIND(rmsnorm_backward, RMSNORM_BACKWARD, rmsnorm, .rows = rows, .width = width, .eps = 1e-5f, .x = p[0], .weight = p[1],
     .rstd = p[2], .dy = p[3], .dx = p[4], .dweight = p[5])
ARRAYS(layernorm, {ARRAY_IN, all}, {ARRAY_IN, width}, {ARRAY_IN, width}, {ARRAY_OUT, all}, {ARRAY_OUT_FP32, rows},
       {ARRAY_OUT_FP32, rows})
BIND(layernorm, LAYERNORM_FORWARD, layernorm, .rows = rows, .width = width, .eps = 1e-5f, .x = p[0], .weight = p[1],
     .bias = p[2], .y = p[3], .mean = p[4], .rstd = p[5])
ARRAYS(layernorm_backward, {ARRAY_IN, all}, {ARRAY_IN, width}, {ARRAY_IN, width}, {ARRAY_IN_FP32, rows},
       {ARRAY_IN_FP32, rows}, {ARRAY_IN, all}, {ARRAY_OUT, all}, {ARRAY_ADD_FP32, width}, {ARRAY_ADD_FP32, width})
BIND(layernorm_backward, LAYERNORM_BACKWARD, layernorm, .rows = rows, .width = width, .eps = 1e-5f, .x = p[0],
     .weight = p[1], .bias = p[2], .mean = p[3], .rstd = p[4], .dy = p[5], .dx = p[6], .dweight = p[7], .dbias = p[8])
ARRAYS(residual, {ARRAY_IN, all}, {ARRAY_IN, all}, {ARRAY_OUT, all})
BIND(residual, RESIDUAL, residual, .n = all, .a = p[0], .b = p[1], .y = p[2])
ARRAYS(swiglu, {ARRAY_IN, 2 * all}, {ARRAY_OUT, all})
BIND(swiglu, SWIGLU_FORWARD, swiglu, .rows = rows, .width = width, .x = p[0], .y = p[1])
ARRAYS(swiglu_backward, {ARRAY_IN, 2 * all}, {ARRAY_IN, all}, {ARRAY_OUT, 2 * all})
BIND(swiglu_backward, SWIGLU_BACKWARD, swiglu, .rows = rows, .width = width, .x = p[0], .dy = p[1], .dx = p[2])
ARRAYS(gelu, {ARRAY_IN, all}, {ARRAY_OUT, all})
BIND(gelu, GELU_FORWARD, gelu, .n = all, .x = p[0], .y = p[1])
ARRAYS(gelu_backward, {ARRAY_IN, all}, {ARRAY_IN, all}, {ARRAY_OUT, all})
BIND(gelu_backward, GELU_BACKWARD, gelu, .n = all, .x = p[0], .dy = p[1], .dx = p[2])
ARRAYS(bias_backward, {ARRAY_IN, all}, {ARRAY_ADD_FP32, width})
BIND(bias_backward, BIAS_BACKWARD, bias, .rows = rows, .width = width, .dy = p[0], .dbias = p[1])
ARRAYS(adamw, {ARRAY_IN_FP32, all}, {ARRAY_ADD_FP32, all}, {ARRAY_ADD_FP32, all}, {ARRAY_ADD_FP32, all},
       {ARRAY_OUT, all})
BIND(adamw, ADAMW, adamw, .n = all, .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.95f, .eps = 1e-8f, .weight_decay = 0.1f,
     .grad_scale = 1, .step = 3, .grad = p[0], .master = p[1], .m = p[2], .v = p[3], .weight = p[4])

/* Scale and shift of each sample lie in one row of a table, as a DiT's six do. */
ARRAYS(modulate, {ARRAY_IN, all}, {ARRAY_IN, 2 * MODULATE_SAMPLES *width}, {ARRAY_INT32, MODULATE_SAMPLES + 1},
       {ARRAY_OUT, all})
static void bind_modulate(const int64_t *s, void *const *p, struct operator_call *call) {
  const int64_t width = s[SHAPE_HIDDEN];
  call->kind = OPERATOR_MODULATE_FORWARD;
  call->modulate = (struct modulate_call){.batch = MODULATE_SAMPLES,
                                          .rows = s[SHAPE_ROWS],
                                          .width = width,
                                          .sample_stride = 2 * width,
                                          .cu_rows = p[2],
                                          .x = p[0],
                                          .scale = p[1],
                                          .shift = p[1],
                                          .y = p[3]};
}

static void sample_rows(const int64_t *s, int32_t *out) {
  for (int i = 0; i <= MODULATE_SAMPLES; i++)
    out[i] = (int32_t)(s[SHAPE_ROWS] * i / MODULATE_SAMPLES);
}

/* (rows, width) as 8 parts of rows, the parts made the inner index, as between frames and positions; rows that do not
 * divide stay where they are. */
static struct copy_call transposing_copy(const int64_t *s, bool accumulate, void *const *p) {
  const int64_t parts = s[SHAPE_ROWS] % 8 == 0 ? 8 : 1, inner = s[SHAPE_ROWS] / parts, width = s[SHAPE_HIDDEN];
  return (struct copy_call){.extent = {1, parts, inner},
                            .width = width,
                            .src_stride = {0, inner * width, width},
                            .dst_stride = {0, width, parts * width},
                            .accumulate = accumulate,
                            .src = p[0],
                            .dst = p[1]};
}

ARRAYS(permute, {ARRAY_IN, all}, {ARRAY_OUT, all})
static void bind_permute(const int64_t *s, void *const *p, struct operator_call *call) {
  call->kind = OPERATOR_COPY;
  call->copy = transposing_copy(s, false, p);
}

ARRAYS(permute_add, {ARRAY_IN, all}, {ARRAY_ADD, all})
static void bind_permute_add(const int64_t *s, void *const *p, struct operator_call *call) {
  call->kind = OPERATOR_COPY;
  call->copy = transposing_copy(s, true, p);
}

ARRAYS(silu, {ARRAY_IN, all}, {ARRAY_OUT, all})
BIND(silu, SILU_FORWARD, silu, .n = all, .x = p[0], .y = p[1])
ARRAYS(silu_backward, {ARRAY_IN, all}, {ARRAY_IN, all}, {ARRAY_OUT, all})
BIND(silu_backward, SILU_BACKWARD, silu, .n = all, .x = p[0], .dy = p[1], .dx = p[2])
ARRAYS(bias, {ARRAY_IN, all}, {ARRAY_IN, width}, {ARRAY_OUT, all})
BIND(bias, BIAS_FORWARD, bias, .rows = rows, .width = width, .x = p[0], .bias = p[1], .y = p[2])

ARRAYS(modulate_backward, {ARRAY_IN, all}, {ARRAY_IN, MODULATE_SAMPLES *width}, {ARRAY_INT32, MODULATE_SAMPLES + 1},
       {ARRAY_IN, all}, {ARRAY_OUT, all}, {ARRAY_ADD_FP32, MODULATE_SAMPLES *width},
       {ARRAY_ADD_FP32, MODULATE_SAMPLES *width})
BIND(modulate_backward, MODULATE_BACKWARD, modulate, .batch = MODULATE_SAMPLES, .rows = rows, .width = width,
     .sample_stride = width, .x = p[0], .scale = p[1], .cu_rows = p[2], .dy = p[3], .dx = p[4], .dscale = p[5],
     .dshift = p[6])
ARRAYS(gate, {ARRAY_IN, all}, {ARRAY_IN, MODULATE_SAMPLES *width}, {ARRAY_INT32, MODULATE_SAMPLES + 1}, {ARRAY_IN, all},
       {ARRAY_OUT, all})
BIND(gate, GATE_FORWARD, gate, .batch = MODULATE_SAMPLES, .rows = rows, .width = width, .sample_stride = width,
     .x = p[0], .gate = p[1], .cu_rows = p[2], .residual = p[3], .y = p[4])
ARRAYS(gate_backward, {ARRAY_IN, all}, {ARRAY_IN, MODULATE_SAMPLES *width}, {ARRAY_INT32, MODULATE_SAMPLES + 1},
       {ARRAY_IN, all}, {ARRAY_OUT, all}, {ARRAY_ADD_FP32, MODULATE_SAMPLES *width})
BIND(gate_backward, GATE_BACKWARD, gate, .batch = MODULATE_SAMPLES, .rows = rows, .width = width,
     .sample_stride = width, .x = p[0], .gate = p[1], .cu_rows = p[2], .dy = p[3], .dx = p[4], .dgate = p[5])

/* A row is heads side by side: of 128, or of the largest power of two that divides it. Odd widths have none. */
static int64_t rope_head_dim(int64_t width) {
  int64_t d = 128;
  while (width % d != 0)
    d /= 2;
  return d;
}

ARRAYS(rope, {ARRAY_ADD, all}, {ARRAY_INT32, rows})
BIND(rope, ROPE, rope, .rows = rows, .heads = width / rope_head_dim(width), .head_dim = rope_head_dim(width),
     .base = 10000, .max_position = rows - 1, .x = p[0], .positions = p[1])

static void row_numbers(const int64_t *s, int32_t *out) {
  for (int64_t i = 0; i < s[SHAPE_ROWS]; i++)
    out[i] = (int32_t)i;
}

/* Scattered, some several times, of a table or vocabulary of `n`. */
static void scatter(int64_t rows, int64_t n, int32_t *out) {
  for (int64_t i = 0; i < rows; i++)
    out[i] = (int32_t)(i * i * 7919 % n);
}

/* The table has as many rows as the output: only those that are read cost time. */
ARRAYS(embedding, {ARRAY_INT32, rows}, {ARRAY_IN, all}, {ARRAY_OUT, all})
BIND(embedding, EMBEDDING_FORWARD, embedding, .rows = rows, .width = width, .tokens = p[0], .table = p[1], .out = p[2])
ARRAYS(embedding_backward, {ARRAY_INT32, rows}, {ARRAY_IN, all}, {ARRAY_ADD_FP32, all})
BIND(embedding_backward, EMBEDDING_BACKWARD, embedding, .rows = rows, .width = width, .tokens = p[0], .dout = p[1],
     .dtable = p[2])
static void tokens(const int64_t *s, int32_t *out) { scatter(s[SHAPE_ROWS], s[SHAPE_ROWS], out); }

ARRAYS(cross_entropy, {ARRAY_IN, all}, {ARRAY_INT32, rows}, {ARRAY_OUT_FP32, rows}, {ARRAY_OUT_FP32, rows})
BIND(cross_entropy, CROSS_ENTROPY_FORWARD, cross_entropy, .rows = rows, .vocab = width, .x = p[0], .targets = p[1],
     .loss = p[2], .lse = p[3])
ARRAYS(cross_entropy_backward, {ARRAY_IN, all}, {ARRAY_INT32, rows}, {ARRAY_OUT_FP32, rows}, {ARRAY_OUT_FP32, rows},
       {ARRAY_OUT, all})
BIND(cross_entropy_backward, CROSS_ENTROPY_BACKWARD, cross_entropy, .rows = rows, .vocab = width, .x = p[0],
     .targets = p[1], .loss = p[2], .lse = p[3], .scale = 1, .dx = p[4])
static void targets(const int64_t *s, int32_t *out) { scatter(s[SHAPE_ROWS], s[SHAPE_HIDDEN], out); }

/* ---- The table ---- */

#define ROW(OP, KIND, name, ...)                                                                                       \
  { ROW_OP_##OP, OPERATOR_##KIND, arrays_##name, bind_##name, __VA_ARGS__ }
static const struct measured_op ops[] = {
    ROW(ATTENTION_FORWARD, ATTENTION_FORWARD, attention_forward, equal_lengths, small_attention, 0, 0),
    ROW(ATTENTION_BACKWARD, ATTENTION_BACKWARD, attention_backward, equal_lengths, small_attention,
        OPERATOR_ATTENTION_FORWARD, 1u << 3 | 1u << 4),
    ROW(ATTENTION_VARLEN_FORWARD, ATTENTION_FORWARD, attention_varlen_forward, varlen_lengths, small_attention, 0, 0),
    ROW(ATTENTION_VARLEN_BACKWARD, ATTENTION_BACKWARD, attention_varlen_backward, varlen_lengths, small_attention,
        OPERATOR_ATTENTION_FORWARD, 1u << 3 | 1u << 4),
    ROW(GEMM, GEMM, gemm, NULL, small_gemm, 0, 0),
    ROW(GEMM_WGRAD, GEMM, gemm_wgrad, NULL, small_gemm, 0, 0),
    ROW(RMSNORM, RMSNORM_FORWARD, rmsnorm, NULL, small_memory, 0, 0),
    ROW(RMSNORM_BACKWARD, RMSNORM_BACKWARD, rmsnorm_backward, NULL, small_memory, 0, 0),
    ROW(LAYERNORM, LAYERNORM_FORWARD, layernorm, NULL, small_memory, 0, 0),
    ROW(LAYERNORM_BACKWARD, LAYERNORM_BACKWARD, layernorm_backward, NULL, small_memory, 0, 0),
    ROW(RESIDUAL, RESIDUAL, residual, NULL, small_memory, 0, 0),
    ROW(SWIGLU, SWIGLU_FORWARD, swiglu, NULL, small_memory, 0, 0),
    ROW(SWIGLU_BACKWARD, SWIGLU_BACKWARD, swiglu_backward, NULL, small_memory, 0, 0),
    ROW(GELU, GELU_FORWARD, gelu, NULL, small_memory, 0, 0),
    ROW(GELU_BACKWARD, GELU_BACKWARD, gelu_backward, NULL, small_memory, 0, 0),
    ROW(MODULATE, MODULATE_FORWARD, modulate, sample_rows, small_memory, 0, 0),
    ROW(PERMUTE, COPY, permute, NULL, small_memory, 0, 0),
    ROW(BIAS_BACKWARD, BIAS_BACKWARD, bias_backward, NULL, small_memory, 0, 0),
    ROW(PERMUTE_ADD, COPY, permute_add, NULL, small_memory, 0, 0),
    ROW(ADAMW, ADAMW, adamw, NULL, small_memory, 0, 0),
    ROW(ROPE, ROPE, rope, row_numbers, small_memory, 0, 0),
    ROW(SILU, SILU_FORWARD, silu, NULL, small_memory, 0, 0),
    ROW(SILU_BACKWARD, SILU_BACKWARD, silu_backward, NULL, small_memory, 0, 0),
    ROW(BIAS, BIAS_FORWARD, bias, NULL, small_memory, 0, 0),
    ROW(MODULATE_BACKWARD, MODULATE_BACKWARD, modulate_backward, sample_rows, small_memory, 0, 0),
    ROW(GATE, GATE_FORWARD, gate, sample_rows, small_memory, 0, 0),
    ROW(GATE_BACKWARD, GATE_BACKWARD, gate_backward, sample_rows, small_memory, 0, 0),
    ROW(EMBEDDING, EMBEDDING_FORWARD, embedding, tokens, small_memory, 0, 0),
    ROW(EMBEDDING_BACKWARD, EMBEDDING_BACKWARD, embedding_backward, tokens, small_memory, 0, 0),
    ROW(CROSS_ENTROPY, CROSS_ENTROPY_FORWARD, cross_entropy, targets, small_memory, 0, 0),
    ROW(CROSS_ENTROPY_BACKWARD, CROSS_ENTROPY_BACKWARD, cross_entropy_backward, targets, small_memory,
        OPERATOR_CROSS_ENTROPY_FORWARD, 1u << 2 | 1u << 3),
};

const struct measured_op *measured_op_find(enum row_op op) {
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (ops[i].op == op)
      return &ops[i];
  return NULL;
}

int64_t array_value_bytes(enum array_kind kind, int64_t element_bytes) {
  return kind == ARRAY_IN || kind == ARRAY_OUT || kind == ARRAY_ADD ? element_bytes : 4;
}

int64_t measured_op_bytes(const struct measured_op *op, const int64_t *shape, int64_t element_bytes) {
  struct array arrays[MEASURED_ARRAYS_MAX];
  int64_t bytes = 0;
  const int n = op->arrays(shape, arrays);
  for (int i = 0; i < n; i++)
    bytes += ceil_div(arrays[i].n * array_value_bytes(arrays[i].kind, element_bytes), 256) * 256;
  return bytes;
}
