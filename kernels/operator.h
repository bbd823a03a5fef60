/* operator.h: all operators as one list, and a call of any of them as one struct, so that calibration and execution
 * name what to run and a device runs it. An operator is OPERATOR_X, call struct, function stem: X_reference in plain
 * double (the definition), X_cpu in fp32; what a device does besides is in its row of device.h.
 *
 * Shapes are the caller's: calls are made from checked schedules and calibration grids, so a shape that does not fit is
 * a broken invariant (ASSERT), not an error. Every extent may be 0: nothing is done. */
#ifndef KERNELS_OPERATOR_H
#define KERNELS_OPERATOR_H
#include <stddef.h>

#include "kernels/adamw.h"
#include "kernels/attention.h"
#include "kernels/attention_merge.h"
#include "kernels/bias.h"
#include "kernels/cast.h"
#include "kernels/clear.h"
#include "kernels/copy.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/gate.h"
#include "kernels/gelu.h"
#include "kernels/gemm.h"
#include "kernels/layernorm.h"
#include "kernels/modulate.h"
#include "kernels/residual.h"
#include "kernels/rmsnorm.h"
#include "kernels/rope.h"
#include "kernels/sgd.h"
#include "kernels/silu.h"
#include "kernels/squared_error.h"
#include "kernels/sum_squares.h"
#include "kernels/swiglu.h"

/* X(NAME, stem, member of the union) */
#define OPERATOR_LIST(X)                                                                                               \
  X(GEMM, gemm, gemm)                                                                                                  \
  X(ATTENTION_FORWARD, attention_forward, attention)                                                                   \
  X(ATTENTION_BACKWARD, attention_backward, attention)                                                                 \
  X(ATTENTION_MERGE, attention_merge, attention_merge)                                                                 \
  X(RMSNORM_FORWARD, rmsnorm_forward, rmsnorm)                                                                         \
  X(RMSNORM_BACKWARD, rmsnorm_backward, rmsnorm)                                                                       \
  X(LAYERNORM_FORWARD, layernorm_forward, layernorm)                                                                   \
  X(LAYERNORM_BACKWARD, layernorm_backward, layernorm)                                                                 \
  X(ROPE, rope, rope)                                                                                                  \
  X(SWIGLU_FORWARD, swiglu_forward, swiglu)                                                                            \
  X(SWIGLU_BACKWARD, swiglu_backward, swiglu)                                                                          \
  X(GELU_FORWARD, gelu_forward, gelu)                                                                                  \
  X(GELU_BACKWARD, gelu_backward, gelu)                                                                                \
  X(SILU_FORWARD, silu_forward, silu)                                                                                  \
  X(SILU_BACKWARD, silu_backward, silu)                                                                                \
  X(RESIDUAL, residual, residual)                                                                                      \
  X(BIAS_FORWARD, bias_forward, bias)                                                                                  \
  X(BIAS_BACKWARD, bias_backward, bias)                                                                                \
  X(MODULATE_FORWARD, modulate_forward, modulate)                                                                      \
  X(MODULATE_BACKWARD, modulate_backward, modulate)                                                                    \
  X(GATE_FORWARD, gate_forward, gate)                                                                                  \
  X(GATE_BACKWARD, gate_backward, gate)                                                                                \
  X(CROSS_ENTROPY_FORWARD, cross_entropy_forward, cross_entropy)                                                       \
  X(CROSS_ENTROPY_BACKWARD, cross_entropy_backward, cross_entropy)                                                     \
  X(SQUARED_ERROR, squared_error, squared_error)                                                                       \
  X(EMBEDDING_FORWARD, embedding_forward, embedding)                                                                   \
  X(EMBEDDING_BACKWARD, embedding_backward, embedding)                                                                 \
  X(ADAMW, adamw, adamw)                                                                                               \
  X(SGD, sgd, sgd)                                                                                                     \
  X(COPY, copy, copy)                                                                                                  \
  X(CAST, cast, cast)                                                                                                  \
  X(SUM_SQUARES, sum_squares, sum_squares)                                                                             \
  X(CLEAR, clear, clear)

#define OPERATOR_ENUM(NAME, stem, member) OPERATOR_##NAME,
enum operator_kind { OPERATOR_LIST(OPERATOR_ENUM) OPERATOR_KINDS };
#undef OPERATOR_ENUM

struct operator_call {
  enum operator_kind kind;
  union {
    struct adamw_call adamw;
    struct attention_call attention;
    struct attention_merge_call attention_merge;
    struct bias_call bias;
    struct cast_call cast;
    struct clear_call clear;
    struct copy_call copy;
    struct cross_entropy_call cross_entropy;
    struct embedding_call embedding;
    struct gate_call gate;
    struct gelu_call gelu;
    struct gemm_call gemm;
    struct layernorm_call layernorm;
    struct modulate_call modulate;
    struct residual_call residual;
    struct rmsnorm_call rmsnorm;
    struct rope_call rope;
    struct sgd_call sgd;
    struct silu_call silu;
    struct squared_error_call squared_error;
    struct sum_squares_call sum_squares;
    struct swiglu_call swiglu;
  };
};

const char *operator_name(enum operator_kind kind); /* "gemm", "attention_forward", ... */

/* Writes name and shape, as messages show them: "gemm m 2048, n 4096, k 128". Returns buf. */
const char *operator_describe(const struct operator_call *call, char *buf, size_t size);

void operator_run_reference(const struct operator_call *call);
void operator_run_cpu(const struct operator_call *call);

#endif
