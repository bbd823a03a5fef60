#include "kernels/blas.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/launcher.h"
#include "sim/base/units.h"

/* cblas.h: CblasRowMajor, CblasNoTrans, CblasTrans; its integers are int. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

static void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda,
                     const float *b, int ldb, float beta, float *c, int ldc); /* NULL: plain loops */
static char name[64] = "plain loops";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose_core_type(void) {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
  else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    setenv("OPENBLAS_CORETYPE", "Haswell", 0);
#endif
}

/* dlsym returns an object pointer; the copy is POSIX's way to a function pointer. */
static void find(void *library, const char *symbol, void *function) {
  void *found = dlsym(library, symbol);
  memcpy(function, &found, sizeof found);
}

static void load(void) {
  const char *choice = getenv("DCPSIM_BLAS");
  if (choice && strcmp(choice, "none") == 0)
    return;
  choose_core_type();
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return;
  int (*procs)(void);
  void (*set_threads)(int);
  char *(*core)(void);
  find(library, "cblas_sgemm", &sgemm);
  find(library, "openblas_get_num_procs", &procs);
  find(library, "openblas_set_num_threads", &set_threads);
  find(library, "openblas_get_corename", &core);
  if (sgemm)
    snprintf(name, sizeof name, "OpenBLAS %s", core ? core() : "");
  if (procs && set_threads && launcher_local_ranks() > 1 && !getenv("OPENBLAS_NUM_THREADS") &&
      !getenv("OMP_NUM_THREADS"))
    set_threads((int)int64_max(1, procs() / launcher_local_ranks()));
}

void blas_sgemm_plain(const struct blas_product *p) {
  for (int64_t i = 0; i < p->m; i++) {
    float *row = p->c + i * p->ldc;
    for (int64_t j = 0; j < p->n; j++)
      row[j] = p->beta == 0 ? 0 : p->beta * row[j];
    if (p->b_transposed) { /* rows of B are columns of op(B): dot products */
      for (int64_t j = 0; j < p->n; j++) {
        float sum = 0;
        for (int64_t l = 0; l < p->k; l++)
          sum += (p->a_transposed ? p->a[l * p->lda + i] : p->a[i * p->lda + l]) * p->b[j * p->ldb + l];
        row[j] += p->alpha * sum;
      }
      continue;
    }
    for (int64_t l = 0; l < p->k; l++) { /* a row of C from rows of B */
      float factor = p->alpha * (p->a_transposed ? p->a[l * p->lda + i] : p->a[i * p->lda + l]);
      for (int64_t j = 0; j < p->n; j++)
        row[j] += factor * p->b[l * p->ldb + j];
    }
  }
}

void blas_sgemm(const struct blas_product *p) {
  pthread_once(&once, load);
  if (!sgemm || p->k == 0) {
    blas_sgemm_plain(p);
    return;
  }
  if (p->m == 0 || p->n == 0)
    return;
  ASSERT(p->m <= INT32_MAX && p->n <= INT32_MAX && p->k <= INT32_MAX);
  ASSERT(p->lda <= INT32_MAX && p->ldb <= INT32_MAX && p->ldc <= INT32_MAX);
  sgemm(ROW_MAJOR, p->a_transposed ? TRANS : NO_TRANS, p->b_transposed ? TRANS : NO_TRANS, (int)p->m, (int)p->n,
        (int)p->k, p->alpha, p->a, (int)p->lda, p->b, (int)p->ldb, p->beta, p->c, (int)p->ldc);
}

const char *blas_name(void) {
  pthread_once(&once, load);
  return name;
}
