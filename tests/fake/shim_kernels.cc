// shim_kernels.cc: the CUDA kernels on the CPU (tests/cuda_shim), by name, for tests/fake/fake_cuda_driver.c.
#include <type_traits>

#include "kernels/attention_launch.h"
#include "kernels/copy_launch.h"
#include "kernels/cross_entropy_launch.h"
#include "kernels/embedding_launch.h"
#include "kernels/gelu_launch.h"
#include "kernels/norm_launch.h"
#include "kernels/optimizer_launch.h"
#include "kernels/residual_add_launch.h"
#include "kernels/rope_launch.h"
#include "kernels/swiglu_launch.h"

#define KERNELS(X)                                                                                                     \
  X(attention_forward_64, attention_args)                                                                              \
  X(attention_forward_72, attention_args)                                                                              \
  X(attention_forward_80, attention_args)                                                                              \
  X(attention_forward_128, attention_args)                                                                             \
  X(attention_delta, attention_args)                                                                                   \
  X(attention_key_value_gradient_64, attention_args)                                                                   \
  X(attention_key_value_gradient_72, attention_args)                                                                   \
  X(attention_key_value_gradient_80, attention_args)                                                                   \
  X(attention_key_value_gradient_128, attention_args)                                                                  \
  X(attention_query_gradient_64, attention_args)                                                                       \
  X(attention_query_gradient_72, attention_args)                                                                       \
  X(attention_query_gradient_80, attention_args)                                                                       \
  X(attention_query_gradient_128, attention_args)                                                                      \
  X(rmsnorm_forward, norm_args)                                                                                        \
  X(rmsnorm_backward, norm_args)                                                                                       \
  X(layernorm_forward, norm_args)                                                                                      \
  X(layernorm_backward, norm_args)                                                                                     \
  X(column_sum, column_sum_args)                                                                                       \
  X(rope_by_8, rope_args)                                                                                              \
  X(rope_by_4, rope_args)                                                                                              \
  X(swiglu_forward, swiglu_args)                                                                                       \
  X(swiglu_backward, swiglu_args)                                                                                      \
  X(gelu_forward, gelu_args)                                                                                           \
  X(gelu_backward, gelu_args)                                                                                          \
  X(residual_add, residual_add_args)                                                                                   \
  X(cross_entropy_forward, cross_entropy_args)                                                                         \
  X(cross_entropy_backward, cross_entropy_args)                                                                        \
  X(adamw_of_fp32, optimizer_args)                                                                                     \
  X(sgd_of_fp32, optimizer_args)                                                                                       \
  X(embedding_gather, embedding_args)                                                                                  \
  X(embedding_scatter, embedding_args)                                                                                 \
  X(copy, copy_args)
#define KERNEL(name, args) extern "C" void name(const struct args a);
KERNELS(KERNEL)

extern "C" const char *fake_cuda_run(const char *kernel, const unsigned grid[3], unsigned block, unsigned shared_bytes,
                                     const void *args) {
  const struct kernel_launch launch = {kernel, {grid[0], grid[1], grid[2]}, block, shared_bytes};
#define TRY(name, type)                                                                                                \
  if (strcmp(kernel, #name) == 0)                                                                                      \
    return shim_launch<struct type>(name, launch, *(const struct type *)args, SHIM_RANDOM);
  KERNELS(TRY)
  return "not among the kernels";
}
