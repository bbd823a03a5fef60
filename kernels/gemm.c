#include "kernels/gemm.h"

#include "kernels/blas.h"

void gemm_reference(const struct gemm_call *call) {
  const int64_t m = call->m, n = call->n, k = call->k;
  const double *a = call->a, *b = call->b, *bias = call->bias;
  double *c = call->c;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = (bias ? bias[j] : 0) + (call->accumulate ? c[i * n + j] : 0);
      for (int64_t l = 0; l < k; l++)
        sum += (call->a_transposed ? a[l * m + i] : a[i * k + l]) * (call->b_transposed ? b[j * k + l] : b[l * n + j]);
      c[i * n + j] = sum;
    }
}

void gemm_cpu(const struct gemm_call *call) {
  const int64_t m = call->m, n = call->n, k = call->k;
  const float *bias = call->bias;
  float *c = call->c;
  blas_sgemm(&(struct blas_product){.a_transposed = call->a_transposed,
                                    .b_transposed = call->b_transposed,
                                    .m = m,
                                    .n = n,
                                    .k = k,
                                    .alpha = 1,
                                    .a = call->a,
                                    .lda = call->a_transposed ? m : k,
                                    .b = call->b,
                                    .ldb = call->b_transposed ? k : n,
                                    .beta = call->accumulate ? 1 : 0,
                                    .c = c,
                                    .ldc = n});
  for (int64_t i = 0; bias && i < m; i++)
    for (int64_t j = 0; j < n; j++)
      c[i * n + j] += bias[j];
}
