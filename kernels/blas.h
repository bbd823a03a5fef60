/* blas.h: the one matrix product that the CPU operators are built on. OpenBLAS is loaded when first needed, not linked:
 * GSL brings symbols of the same names, and the core type must be in the environment before the library starts, which
 * else may choose kernels several times too slow where it does not know the processor. Respects OPENBLAS_CORETYPE,
 * OPENBLAS_NUM_THREADS and OMP_NUM_THREADS if set; else ranks on one machine share its cores. Without the library, or
 * with DCPSIM_BLAS=none, plain loops do the work. */
#ifndef KERNELS_BLAS_H
#define KERNELS_BLAS_H
#include <stdbool.h>
#include <stdint.h>

/* C = alpha op(A) op(B) + beta C, row-major: op(A) (m, k), op(B) (k, n); rows lda, ldb, ldc apart as stored. */
struct blas_product {
  bool a_transposed, b_transposed;
  int64_t m, n, k;
  float alpha;
  const float *a;
  int64_t lda;
  const float *b;
  int64_t ldb;
  float beta; /* 0: C is not read */
  float *c;
  int64_t ldc;
};

void blas_sgemm(const struct blas_product *p);
void blas_sgemm_plain(const struct blas_product *p); /* the loops */

/* What does the work: "OpenBLAS SkylakeX" or "plain loops". */
const char *blas_name(void);

#endif
