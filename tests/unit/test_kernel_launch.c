/* Launches of the CUDA kernels, from C: grids, blocks and shared memory worked out by hand. What the kernels compute is
 * tested in tests/cuda. */
#include <criterion/criterion.h>
#include <string.h>

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

static void expect(struct kernel_launch l, const char *kernel, unsigned x, unsigned y, unsigned z, unsigned block,
                   unsigned shared_bytes) {
  cr_assert_str_eq(l.kernel, kernel);
  cr_assert(l.grid[0] == x && l.grid[1] == y && l.grid[2] == z, "%s: grid %u %u %u", kernel, l.grid[0], l.grid[1],
            l.grid[2]);
  cr_assert_eq(l.block, block, "%s: block %u", kernel, l.block);
  cr_assert_eq(l.shared_bytes, shared_bytes, "%s: %u bytes", kernel, l.shared_bytes);
}

Test(kernel_launch, attention) {
  struct attention_args a = {.sequences = 3,
                             .tokens_q = 2001,
                             .tokens_k = 3000,
                             .max_len_q = 1000,
                             .max_len_k = 1025,
                             .heads_q = 32,
                             .heads_kv = 8,
                             .head_dim = 128};
  /* 128 queries; queries 128 x 256 bytes, 2 stages of 2 x 64 keys x 256 bytes */
  expect(attention_forward_launch(&a), "attention_forward_128", 8, 32, 3, 256, 32768 + 2 * 32768);
  expect(attention_delta_launch(&a), "attention_delta", 251, 32, 1, 256, 0);
  /* 128 keys; keys and values, 2 stages of 2 x 32 queries x 256 bytes and 2 x 32 floats */
  expect(attention_key_value_gradient_launch(&a), "attention_key_value_gradient_128", 9, 8, 3, 256,
         65536 + 2 * (16384 + 256));
  expect(attention_query_gradient_launch(&a), "attention_query_gradient_128", 8, 32, 3, 256, 65536 + 2 * 16384);
  a.head_dim = 72; /* rows of 80 elements */
  expect(attention_forward_launch(&a), "attention_forward_72", 8, 32, 3, 128, 128 * 160 + 3 * 2 * 32 * 160);
  a.head_dim = 16;
  expect(attention_forward_launch(&a), "attention_forward_16", 8, 32, 3, 128, 128 * 32 + 3 * 2 * 48 * 32);
  a.head_dim = 96; /* as 128 */
  expect(attention_forward_launch(&a), "attention_forward_96", 8, 32, 3, 256, 128 * 192 + 2 * 2 * 64 * 192);
  for (int dim = 0; dim <= 256; dim++) {
    a.head_dim = dim;
    bool taken = dim == 16 || dim == 32 || dim == 64 || dim == 72 || dim == 80 || dim == 96 || dim == 128;
    cr_assert_eq(attention_forward_wgmma_launch(&a).kernel != NULL, dim == 64 || dim == 128, "head dim %d", dim);
    cr_assert_eq(attention_query_gradient_launch(&a).kernel != NULL, taken, "head dim %d", dim);
    if (taken)
      cr_assert(attention_key_value_gradient_launch(&a).shared_bytes <= 227 * 1024);
  }
  a = (struct attention_args){.head_dim = 64, .heads_q = 1, .heads_kv = 1}; /* nothing to do */
  cr_assert_eq(attention_forward_launch(&a).grid[0], 0);
}

Test(kernel_launch, memory_bound) {
  struct norm_args norm = {.tokens = 1000, .hidden = 4096};
  expect(rmsnorm_forward_launch(&norm), "rmsnorm_forward", 1000, 1, 1, 256, 8192 + 32);
  expect(rmsnorm_backward_launch(&norm), "rmsnorm_backward", 264, 1, 1, 256, 8 * 4096 + 64);
  cr_assert_eq(norm_partial_rows(norm.tokens), 264);
  norm.hidden = NORM_HIDDEN_MAX;
  cr_assert(layernorm_backward_launch(&norm).shared_bytes <= 227 * 1024);
  norm.hidden++;
  cr_assert_null(layernorm_forward_launch(&norm).kernel);
  struct column_sum_args sum = {.rows = 264, .columns = 4100};
  expect(column_sum_launch(&sum), "column_sum", 129, 1, 1, 256, 1024);
  struct rope_args rope = {.tokens = 5, .heads = 2, .head_dim = 72};
  expect(rope_launch(&rope), "rope_by_4", 5, 1, 1, 256, 0);
  struct swiglu_args swiglu = {.tokens = 100000, .stride = 22016, .width = 11008};
  expect(swiglu_backward_launch(&swiglu), "swiglu_backward", LAUNCH_BLOCKS_MAX, 1, 1, 256, 0);
  struct activation_args gelu = {.count = 2049};
  expect(gelu_forward_launch(&gelu), "gelu_forward", 2, 1, 1, 256, 0);
  struct residual_add_args add = {.count = 0};
  expect(residual_add_launch(&add), "residual_add", 0, 1, 1, 256, 0);
  struct cross_entropy_args loss = {.tokens = 7, .vocabulary = 32000};
  expect(cross_entropy_forward_launch(&loss), "cross_entropy_forward", 7, 1, 1, 512, 128);
  struct optimizer_args optimizer = {.count = 1025, .gradient_is_fp32 = 1};
  expect(adamw_launch(&optimizer), "adamw_of_fp32", 2, 1, 1, 256, 0);
  struct embedding_args embedding = {.tokens = 3, .hidden = 64};
  expect(embedding_scatter_launch(&embedding), "embedding_scatter", 3, 1, 1, 256, 0);
  struct copy_args copy = {.bytes = 16385};
  expect(copy_launch(&copy), "copy", 2, 1, 1, 256, 0);
  struct copy_strided_args strided = {.extent = {3, 5, 7}, .width = 24, .vector = 8};
  expect(copy_strided_launch(&strided), "copy_strided_by_8", 2, 1, 1, 256, 0); /* 315 accesses */
  struct activation_args silu = {.count = 2049};
  expect(silu_backward_launch(&silu), "silu_backward", 2, 1, 1, 256, 0);
  struct cast_args cast = {.count = 1025};
  expect(cast_launch(&cast, true), "cast_to_fp32", 2, 1, 1, 256, 0);
  struct squared_error_args error = {.rows = 17, .width = 32};
  expect(squared_error_launch(&error), "squared_error", 3, 1, 1, 256, 0);
  struct attention_merge_args merge = {.tokens = 17, .heads = 5, .head_dim = 72};
  expect(attention_merge_launch(&merge), "attention_merge", 3, 5, 1, 256, 0);
  struct sum_squares_args squares = {.count = 1025};
  expect(sum_squares_launch(&squares), "sum_squares", 2, 1, 1, 256, 32);
  expect(sum_squares_total_launch(&squares), "sum_squares_total", 1, 1, 1, 256, 32);
  squares.count = 0;
  cr_assert_eq(sum_squares_total_launch(&squares).grid[0], 0);
}

Test(kernel_launch, sample) {
  /* 5 blocks of 256 columns and 3 samples: 71 parts fill 132 multiprocessors 8 times */
  struct sample_args a = {.rows = 100000, .stride = 6912, .samples = 3, .width = 1152};
  expect(modulate_forward_launch(&a), "modulate_forward", 704, 3, 1, 256, 0);
  expect(modulate_backward_launch(&a), "modulate_backward", 5, 3, 71, 256, 2 * 8192);
  expect(gate_backward_launch(&a), "gate_backward", 5, 3, 71, 256, 8192);
  cr_assert_eq(sample_parts(1, 3, 1152), 1);
  cr_assert_eq(sample_parts(129, 3, 1152), 3); /* 64 rows each */
  cr_assert_eq(sample_parts(1000000, 1, 8), SAMPLE_PARTS_MAX);
  struct sample_sum_args sum = {.parts = 71, .samples = 3, .width = 1152};
  expect(sample_sum_launch(&sum), "sample_sum", 5, 3, 1, 256, 0);
  a.rows = 0;
  cr_assert_eq(bias_forward_launch(&a).grid[0], 0);
  cr_assert_eq(bias_backward_launch(&a).grid[0], 0);
}
