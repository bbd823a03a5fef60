/* kernels.h: the CUDA kernels by name, for tests that run them on the shim. */
#ifndef CUDA_SHIM_KERNELS_H
#define CUDA_SHIM_KERNELS_H
#include <string.h>

#include <type_traits>

#include "kernels/activation_launch.h"
#include "kernels/attention_launch.h"
#include "kernels/attention_merge_launch.h"
#include "kernels/cast_launch.h"
#include "kernels/copy_launch.h"
#include "kernels/cross_entropy_launch.h"
#include "kernels/embedding_launch.h"
#include "kernels/norm_launch.h"
#include "kernels/optimizer_launch.h"
#include "kernels/residual_add_launch.h"
#include "kernels/rope_launch.h"
#include "kernels/sample_launch.h"
#include "kernels/squared_error_launch.h"
#include "kernels/sum_squares_launch.h"
#include "kernels/swiglu_launch.h"

#define SHIM_ATTENTION_KERNELS(X, HEAD_DIM)                                                                            \
  X(attention_forward_##HEAD_DIM, attention_args)                                                                      \
  X(attention_key_value_gradient_##HEAD_DIM, attention_args)                                                           \
  X(attention_query_gradient_##HEAD_DIM, attention_args)

/* X(name, struct that it takes) */
#define SHIM_KERNELS(X)                                                                                                \
  SHIM_ATTENTION_KERNELS(X, 16)                                                                                        \
  SHIM_ATTENTION_KERNELS(X, 32)                                                                                        \
  SHIM_ATTENTION_KERNELS(X, 64)                                                                                        \
  SHIM_ATTENTION_KERNELS(X, 72)                                                                                        \
  SHIM_ATTENTION_KERNELS(X, 80)                                                                                        \
  SHIM_ATTENTION_KERNELS(X, 96)                                                                                        \
  SHIM_ATTENTION_KERNELS(X, 128)                                                                                       \
  X(attention_forward_wgmma_64, attention_args)                                                                        \
  X(attention_forward_wgmma_128, attention_args)                                                                       \
  X(attention_delta, attention_args)                                                                                   \
  X(attention_merge, attention_merge_args)                                                                             \
  X(rmsnorm_forward, norm_args)                                                                                        \
  X(rmsnorm_backward, norm_args)                                                                                       \
  X(layernorm_forward, norm_args)                                                                                      \
  X(layernorm_backward, norm_args)                                                                                     \
  X(column_sum, column_sum_args)                                                                                       \
  X(rope_by_8, rope_args)                                                                                              \
  X(rope_by_4, rope_args)                                                                                              \
  X(swiglu_forward, swiglu_args)                                                                                       \
  X(swiglu_backward, swiglu_args)                                                                                      \
  X(gelu_forward, activation_args)                                                                                     \
  X(gelu_backward, activation_args)                                                                                    \
  X(silu_forward, activation_args)                                                                                     \
  X(silu_backward, activation_args)                                                                                    \
  X(residual_add, residual_add_args)                                                                                   \
  X(bias_forward, sample_args)                                                                                         \
  X(bias_backward, sample_args)                                                                                        \
  X(modulate_forward, sample_args)                                                                                     \
  X(modulate_backward, sample_args)                                                                                    \
  X(gate_forward, sample_args)                                                                                         \
  X(gate_backward, sample_args)                                                                                        \
  X(sample_sum, sample_sum_args)                                                                                       \
  X(cross_entropy_forward, cross_entropy_args)                                                                         \
  X(cross_entropy_backward, cross_entropy_args)                                                                        \
  X(squared_error, squared_error_args)                                                                                 \
  X(adamw_of_bf16, optimizer_args)                                                                                     \
  X(adamw_of_fp32, optimizer_args)                                                                                     \
  X(sgd_of_bf16, optimizer_args)                                                                                       \
  X(sgd_of_fp32, optimizer_args)                                                                                       \
  X(embedding_gather, embedding_args)                                                                                  \
  X(embedding_scatter, embedding_args)                                                                                 \
  X(copy, copy_args)                                                                                                   \
  X(copy_strided_by_8, copy_strided_args)                                                                              \
  X(copy_strided_by_1, copy_strided_args)                                                                              \
  X(cast_to_fp32, cast_args)                                                                                           \
  X(cast_to_bf16, cast_args)                                                                                           \
  X(sum_squares, sum_squares_args)                                                                                     \
  X(sum_squares_total, sum_squares_args)

#define SHIM_DECLARE(name, args) extern "C" void name(const struct args a);
SHIM_KERNELS(SHIM_DECLARE)
#undef SHIM_DECLARE

/* Runs the kernel that a launch names; it must take an A. */
template <class A>
static const char *shim_launch_named(const struct kernel_launch &l, const A &a, enum shim_order order) {
#define SHIM_TRY(name, args)                                                                                           \
  if constexpr (std::is_same<A, struct args>::value)                                                                   \
    if (l.kernel && strcmp(l.kernel, #name) == 0)                                                                      \
      return shim_launch<A>(name, l, a, order);
  SHIM_KERNELS(SHIM_TRY)
#undef SHIM_TRY
  return "no kernel for this shape";
}

#endif
