#include "kernels/cublaslt.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda_driver.h"
#include "sim/base/units.h"

/* Numbers of cublasLt.h and library_types.h. */
enum { COMPUTE_32F = 68, TYPE_32F = 0, TYPE_16BF = 14, OP_N = 0, OP_T = 1 };
enum { DESC_TRANS_A = 3, DESC_TRANS_B = 4, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8, EPILOGUE_BIAS = 4 };
enum { PREFERENCE_WORKSPACE = 1, PREFERENCE_REDUCTIONS = 3, PREFERENCE_ALIGNMENT_A = 5, ALIGNMENT_BYTES = 16 };
enum { REDUCTION_COMPUTE_TYPE = 2 };

struct heuristic {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

#define CUBLASLT_SYMBOLS(X)                                                                                            \
  X(cublasLtCreate, (void **handle))                                                                                   \
  X(cublasLtDestroy, (void *handle))                                                                                   \
  X(cublasLtMatmulDescCreate, (void **desc, int compute, int scale_type))                                              \
  X(cublasLtMatmulDescDestroy, (void *desc))                                                                           \
  X(cublasLtMatmulDescSetAttribute, (void *desc, int attribute, const void *value, size_t bytes))                      \
  X(cublasLtMatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld))                \
  X(cublasLtMatrixLayoutDestroy, (void *layout))                                                                       \
  X(cublasLtMatmulPreferenceCreate, (void **preference))                                                               \
  X(cublasLtMatmulPreferenceDestroy, (void *preference))                                                               \
  X(cublasLtMatmulPreferenceSetAttribute, (void *preference, int attribute, const void *value, size_t bytes))          \
  X(cublasLtMatmulAlgoGetHeuristic, (void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,   \
                                     int wanted, struct heuristic *out, int *found))                                   \
  X(cublasLtMatmul, (void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,        \
                     void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,         \
                     const void *algorithm, void *workspace, size_t workspace_bytes, void *stream))

/* A product as cuBLASLt wants it, prepared once: descriptors and algorithm. Pointers of `shape` are unused. */
struct product {
  struct gemm_call shape;
  void *desc, *a, *b, *c;
  struct heuristic best;
};

enum { PRODUCTS = 256 };

struct cublaslt {
  void *library; /* stays loaded: it starts threads of its own */
  void *handle, *preference, *workspace;
  struct product *products; /* PRODUCTS of them, replaced in turn */
  int n_products, next;
#define SLOT(symbol, parameters) int(*symbol) parameters;
  CUBLASLT_SYMBOLS(SLOT)
#undef SLOT
};

static int check(int status, const char *symbol, struct err *err) {
  return status == 0 ? 0 : err_set(err, "%s: cuBLASLt status %d", symbol, status);
}

#define CALL(lt, symbol, ...) check((lt)->symbol(__VA_ARGS__), #symbol, err)

static int start(struct cublaslt *lt, struct err *err) {
  const size_t workspace_bytes = CUBLASLT_WORKSPACE_BYTES;
  const uint32_t alignment = ALIGNMENT_BYTES;
  const uint32_t reductions = REDUCTION_COMPUTE_TYPE; /* parts of a split k are added up as fp32, never as bf16 */
  if (CALL(lt, cublasLtCreate, &lt->handle) || CALL(lt, cublasLtMatmulPreferenceCreate, &lt->preference) ||
      CALL(lt, cublasLtMatmulPreferenceSetAttribute, lt->preference, PREFERENCE_WORKSPACE, &workspace_bytes,
           sizeof workspace_bytes) ||
      CALL(lt, cublasLtMatmulPreferenceSetAttribute, lt->preference, PREFERENCE_REDUCTIONS, &reductions,
           sizeof reductions))
    return -1;
  for (int i = 0; i < 4; i++) /* of a, b, c, d */
    if (CALL(lt, cublasLtMatmulPreferenceSetAttribute, lt->preference, PREFERENCE_ALIGNMENT_A + i, &alignment,
             sizeof alignment))
      return -1;
  return 0;
}

int cublaslt_open(struct cublaslt **out, void *workspace, struct err *err) {
  static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};
#define NAME(symbol, parameters) #symbol,
  static const char *const symbols[] = {CUBLASLT_SYMBOLS(NAME) NULL};
#undef NAME
  struct cublaslt *lt = xcalloc(1, sizeof *lt);
#define SLOT(symbol, parameters) (void **)&lt->symbol,
  void **const slots[] = {CUBLASLT_SYMBOLS(SLOT) NULL};
#undef SLOT
  lt->library = cuda_library_load("cuBLASLt", names, symbols, slots, err);
  lt->workspace = workspace;
  lt->products = xcalloc(PRODUCTS, sizeof *lt->products);
  if (!lt->library || start(lt, err)) {
    cublaslt_close(lt);
    return -1;
  }
  *out = lt;
  return 0;
}

static void product_release(struct cublaslt *lt, struct product *p) {
  void *const layouts[] = {p->a, p->b, p->c};
  for (int i = 0; i < 3; i++)
    if (layouts[i])
      lt->cublasLtMatrixLayoutDestroy(layouts[i]);
  if (p->desc)
    lt->cublasLtMatmulDescDestroy(p->desc);
  *p = (struct product){0};
}

void cublaslt_close(struct cublaslt *lt) {
  if (!lt)
    return;
  for (int i = 0; i < lt->n_products; i++)
    product_release(lt, &lt->products[i]);
  if (lt->preference)
    lt->cublasLtMatmulPreferenceDestroy(lt->preference);
  if (lt->handle)
    lt->cublasLtDestroy(lt->handle);
  free(lt->products);
  free(lt);
}

/* cuBLASLt counts by columns: a row-major matrix is its transpose there. So C^T = op(B)^T op(A)^T is asked for, B
 * first, and a matrix that is stored as it is used needs no transposition. */
static int describe(struct cublaslt *lt, struct product *p, struct err *err) {
  const struct gemm_call *g = &p->shape;
  const int32_t first = g->b_transposed ? OP_T : OP_N, second = g->a_transposed ? OP_T : OP_N;
  const uint64_t m = (uint64_t)g->m, n = (uint64_t)g->n, k = (uint64_t)g->k;
  const uint32_t epilogue = EPILOGUE_BIAS;
  const uint64_t aligned = ALIGNMENT_BYTES;
  if (CALL(lt, cublasLtMatmulDescCreate, &p->desc, COMPUTE_32F, TYPE_32F) ||
      CALL(lt, cublasLtMatmulDescSetAttribute, p->desc, DESC_TRANS_A, &first, sizeof first) ||
      CALL(lt, cublasLtMatmulDescSetAttribute, p->desc, DESC_TRANS_B, &second, sizeof second) ||
      CALL(lt, cublasLtMatrixLayoutCreate, &p->b, TYPE_16BF, g->b_transposed ? k : n, g->b_transposed ? n : k,
           g->b_transposed ? g->k : g->n) ||
      CALL(lt, cublasLtMatrixLayoutCreate, &p->a, TYPE_16BF, g->a_transposed ? m : k, g->a_transposed ? k : m,
           g->a_transposed ? g->m : g->k) ||
      CALL(lt, cublasLtMatrixLayoutCreate, &p->c, g->c_fp32 ? TYPE_32F : TYPE_16BF, n, m, g->n))
    return -1;
  if (!g->bias)
    return 0;
  /* cublasLt.h: the heuristic reads the bias's alignment off the pointer, which each call replaces. NULL would be
   * aligned to anything. */
  return CALL(lt, cublasLtMatmulDescSetAttribute, p->desc, DESC_EPILOGUE, &epilogue, sizeof epilogue) ||
                 CALL(lt, cublasLtMatmulDescSetAttribute, p->desc, DESC_BIAS_POINTER, &aligned, sizeof aligned)
             ? -1
             : 0;
}

static bool same_shape(const struct gemm_call *a, const struct gemm_call *b) {
  return a->m == b->m && a->n == b->n && a->k == b->k && a->a_transposed == b->a_transposed &&
         a->b_transposed == b->b_transposed && a->accumulate == b->accumulate && a->c_fp32 == b->c_fp32 &&
         !a->bias == !b->bias;
}

/* NULL on failure. */
static struct product *product_of(struct cublaslt *lt, const struct gemm_call *call, struct err *err) {
  int found = 0;
  for (int i = 0; i < lt->n_products; i++)
    if (same_shape(&lt->products[i].shape, call))
      return &lt->products[i];
  struct product p = {.shape = *call};
  if (describe(lt, &p, err) ||
      CALL(lt, cublasLtMatmulAlgoGetHeuristic, lt->handle, p.desc, p.b, p.a, p.c, p.c, lt->preference, 1, &p.best,
           &found) ||
      ((found == 0 || p.best.status != 0) && err_set(err, "cuBLASLt has no algorithm for this shape"))) {
    product_release(lt, &p);
    return NULL;
  }
  struct product *at = &lt->products[lt->next];
  product_release(lt, at);
  *at = p;
  lt->next = (lt->next + 1) % PRODUCTS;
  lt->n_products += lt->n_products < PRODUCTS;
  return at;
}

int cublaslt_gemm(struct cublaslt *lt, const struct gemm_call *call, void *stream, struct err *err) {
  const float alpha = 1, beta = call->accumulate ? 1 : 0;
  ASSERT(((uintptr_t)call->a | (uintptr_t)call->b | (uintptr_t)call->c | (uintptr_t)call->bias) % ALIGNMENT_BYTES == 0);
  ASSERT(!call->bias || !call->c_fp32);
  if (call->m == 0 || call->n == 0 || (call->k == 0 && call->accumulate && !call->bias)) /* nothing changes */
    return 0;
  struct product *p = product_of(lt, call, err);
  if (!p)
    return -1;
  if (call->bias &&
      CALL(lt, cublasLtMatmulDescSetAttribute, p->desc, DESC_BIAS_POINTER, &call->bias, sizeof call->bias))
    return -1;
  return CALL(lt, cublasLtMatmul, lt->handle, p->desc, &alpha, call->b, p->b, call->a, p->a, &beta, call->c, p->c,
              call->c, p->c, p->best.algorithm, lt->workspace, p->best.workspace_bytes, stream);
}
