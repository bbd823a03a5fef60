/* gemm.h: matrix product, row-major: C = op(A) op(B) (+ bias) (+ C), with op(A) (m, k), op(B) (k, n), C (m, n).
 *
 * A linear layer y = x W^T + b with x (rows, in), W (out, in) is, as three calls:
 *   forward          y  (rows, out) = x W^T + b     m rows, n out, k in,   b_transposed, bias
 *   data gradient    dx (rows, in)  = dy W          m rows, n in,  k out
 *   weight gradient  dW (out, in)  += dy^T x        m out,  n in,  k rows, a_transposed, c_fp32, accumulate
 * A transposed operand is stored as its transpose: A as (k, m), B as (n, k). The bias gradient is bias.h. */
#ifndef KERNELS_GEMM_H
#define KERNELS_GEMM_H
#include <stdbool.h>
#include <stdint.h>

struct gemm_call {
  int64_t m, n, k; /* >= 0; k = 0: the product is zero */
  bool a_transposed, b_transposed;
  bool accumulate;          /* add to what C holds */
  bool c_fp32;              /* C is fp32 instead of elements */
  const void *a, *b, *bias; /* elements; bias (n) is added to every row, or NULL */
  void *c;
};

void gemm_reference(const struct gemm_call *call);
void gemm_cpu(const struct gemm_call *call);

#endif
