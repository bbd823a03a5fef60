#include "kernels/operator.h"

#include <stdio.h>

#include "sim/base/err.h"

const char *operator_name(enum operator_kind kind) {
#define NAME(UPPER, stem, member) [OPERATOR_##UPPER] = #stem,
  static const char *const names[] = {OPERATOR_LIST(NAME)};
#undef NAME
  ASSERT((unsigned)kind < OPERATOR_KINDS);
  return names[kind];
}

void operator_run_reference(const struct operator_call *call) {
  switch (call->kind) {
#define RUN(UPPER, stem, member)                                                                                       \
  case OPERATOR_##UPPER:                                                                                               \
    stem##_reference(&call->member);                                                                                   \
    return;
    OPERATOR_LIST(RUN)
#undef RUN
  default:
    ASSERT(!"an operator");
  }
}

void operator_run_cpu(const struct operator_call *call) {
  switch (call->kind) {
#define RUN(UPPER, stem, member)                                                                                       \
  case OPERATOR_##UPPER:                                                                                               \
    stem##_cpu(&call->member);                                                                                         \
    return;
    OPERATOR_LIST(RUN)
#undef RUN
  default:
    ASSERT(!"an operator");
  }
}

static void describe_shape(const struct operator_call *c, char *buf, size_t size) {
#define SHAPE(...) snprintf(buf, size, __VA_ARGS__)
  switch (c->kind) {
  case OPERATOR_GEMM:
    SHAPE("m %lld, n %lld, k %lld", (long long)c->gemm.m, (long long)c->gemm.n, (long long)c->gemm.k);
    return;
  case OPERATOR_ATTENTION_FORWARD:
  case OPERATOR_ATTENTION_BACKWARD:
    SHAPE("%s, batch %lld, queries %lld, keys %lld, heads %lld, kv_heads %lld, head_dim %lld",
          c->attention.causal ? "causal" : "full", (long long)c->attention.batch, (long long)c->attention.q_rows,
          (long long)c->attention.kv_rows, (long long)c->attention.heads, (long long)c->attention.kv_heads,
          (long long)c->attention.head_dim);
    return;
  case OPERATOR_ATTENTION_MERGE:
    SHAPE("rows %lld, heads %lld, head_dim %lld", (long long)c->attention_merge.rows,
          (long long)c->attention_merge.heads, (long long)c->attention_merge.head_dim);
    return;
  case OPERATOR_ROPE:
    SHAPE("rows %lld, heads %lld, head_dim %lld", (long long)c->rope.rows, (long long)c->rope.heads,
          (long long)c->rope.head_dim);
    return;
  case OPERATOR_COPY:
    SHAPE("%lld x %lld x %lld x %lld", (long long)c->copy.extent[0], (long long)c->copy.extent[1],
          (long long)c->copy.extent[2], (long long)c->copy.width);
    return;
#define ROWS(UPPER, member, width)                                                                                     \
  case OPERATOR_##UPPER:                                                                                               \
    SHAPE("rows %lld, " #width " %lld", (long long)c->member.rows, (long long)c->member.width);                        \
    return;
    ROWS(RMSNORM_FORWARD, rmsnorm, width)
    ROWS(RMSNORM_BACKWARD, rmsnorm, width)
    ROWS(LAYERNORM_FORWARD, layernorm, width)
    ROWS(LAYERNORM_BACKWARD, layernorm, width)
    ROWS(SWIGLU_FORWARD, swiglu, width)
    ROWS(SWIGLU_BACKWARD, swiglu, width)
    ROWS(BIAS_FORWARD, bias, width)
    ROWS(BIAS_BACKWARD, bias, width)
    ROWS(MODULATE_FORWARD, modulate, width)
    ROWS(MODULATE_BACKWARD, modulate, width)
    ROWS(GATE_FORWARD, gate, width)
    ROWS(GATE_BACKWARD, gate, width)
    ROWS(CROSS_ENTROPY_FORWARD, cross_entropy, vocab)
    ROWS(CROSS_ENTROPY_BACKWARD, cross_entropy, vocab)
    ROWS(SQUARED_ERROR, squared_error, width)
    ROWS(EMBEDDING_FORWARD, embedding, width)
    ROWS(EMBEDDING_BACKWARD, embedding, width)
#undef ROWS
#define COUNT(UPPER, member)                                                                                           \
  case OPERATOR_##UPPER:                                                                                               \
    SHAPE("n %lld", (long long)c->member.n);                                                                           \
    return;
    COUNT(GELU_FORWARD, gelu)
    COUNT(GELU_BACKWARD, gelu)
    COUNT(SILU_FORWARD, silu)
    COUNT(SILU_BACKWARD, silu)
    COUNT(RESIDUAL, residual)
    COUNT(ADAMW, adamw)
    COUNT(SGD, sgd)
    COUNT(CAST, cast)
    COUNT(SUM_SQUARES, sum_squares)
    COUNT(CLEAR, clear)
#undef COUNT
  default:
    ASSERT(!"an operator");
  }
#undef SHAPE
}

const char *operator_describe(const struct operator_call *call, char *buf, size_t size) {
  char shape[160];
  describe_shape(call, shape, sizeof shape);
  snprintf(buf, size, "%s %s", operator_name(call->kind), shape);
  return buf;
}
