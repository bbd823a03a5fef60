/* A cuBLASLt that multiplies on the host, in the column-major terms of the real one: bf16 in, float sums, bf16 or float
 * out. It stands in for libcublasLt.so.13. Environment: FAKE_CUBLASLT_NONE=1: there is no algorithm for any shape. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct layout {
  int type;
  uint64_t rows, columns;
  int64_t ld;
};

struct desc {
  int32_t transposed_a, transposed_b;
  uint32_t epilogue;
  const uint16_t *bias;
};

struct heuristic {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

#define LIBRARY(name, ...)                                                                                             \
  int name(__VA_ARGS__);                                                                                               \
  int name(__VA_ARGS__)

size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return 130001; }

LIBRARY(cublasLtCreate, void **handle) {
  *handle = malloc(1);
  return 0;
}

LIBRARY(cublasLtDestroy, void *handle) {
  free(handle);
  return 0;
}

LIBRARY(cublasLtMatmulDescCreate, void **desc, int compute, int scale_type) {
  *desc = calloc(1, sizeof(struct desc));
  return compute == 68 && scale_type == 0 ? 0 : 7;
}

LIBRARY(cublasLtMatmulDescDestroy, void *desc) {
  free(desc);
  return 0;
}

LIBRARY(cublasLtMatmulDescSetAttribute, void *desc, int attribute, const void *value, size_t bytes) {
  struct desc *d = desc;
  void *to = attribute == 3   ? (void *)&d->transposed_a
             : attribute == 4 ? (void *)&d->transposed_b
             : attribute == 7 ? (void *)&d->epilogue
             : attribute == 8 ? (void *)&d->bias
                              : NULL;
  if (!to || bytes != (attribute == 8 ? 8 : 4))
    return 7;
  memcpy(to, value, bytes);
  return 0;
}

LIBRARY(cublasLtMatrixLayoutCreate, void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld) {
  struct layout *l = malloc(sizeof *l);
  *l = (struct layout){type, rows, columns, ld};
  *layout = l;
  return ld >= (int64_t)rows ? 0 : 7;
}

LIBRARY(cublasLtMatrixLayoutDestroy, void *layout) {
  free(layout);
  return 0;
}

LIBRARY(cublasLtMatmulPreferenceCreate, void **preference) {
  *preference = malloc(1);
  return 0;
}

LIBRARY(cublasLtMatmulPreferenceDestroy, void *preference) {
  free(preference);
  return 0;
}

LIBRARY(cublasLtMatmulPreferenceSetAttribute, void *preference, int attribute, const void *value, size_t bytes) {
  (void)preference, (void)value;
  return (attribute == 1 && bytes == 8) || ((attribute == 3 || (attribute >= 5 && attribute <= 8)) && bytes == 4) ? 0
                                                                                                                  : 7;
}

LIBRARY(cublasLtMatmulAlgoGetHeuristic, void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
        int wanted, struct heuristic *out, int *found) {
  (void)handle, (void)desc, (void)a, (void)b, (void)c, (void)d, (void)preference, (void)wanted;
  memset(out, 0, sizeof *out);
  *found = getenv("FAKE_CUBLASLT_NONE") ? 0 : 1;
  return 0;
}

static float from_bf16(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static float get(const void *matrix, const struct layout *l, int64_t row, int64_t column) {
  const int64_t at = column * l->ld + row;
  return l->type == 14 ? from_bf16(((const uint16_t *)matrix)[at]) : ((const float *)matrix)[at];
}

static void set(void *matrix, const struct layout *l, int64_t row, int64_t column, float value) {
  const int64_t at = column * l->ld + row;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (l->type == 14)
    ((uint16_t *)matrix)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  else
    ((float *)matrix)[at] = value;
}

LIBRARY(cublasLtMatmul, void *handle, void *desc, const void *alpha, const void *a, void *a_layout, const void *b,
        void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout, const void *algorithm,
        void *workspace, size_t workspace_bytes, void *stream) {
  (void)handle, (void)algorithm, (void)workspace, (void)workspace_bytes, (void)stream;
  const struct desc *p = desc;
  const struct layout *la = a_layout, *lb = b_layout, *lc = c_layout, *ld = d_layout;
  const uint64_t k = p->transposed_a ? la->rows : la->columns;
  if ((p->transposed_a ? la->columns : la->rows) != ld->rows || (p->transposed_b ? lb->columns : lb->rows) != k ||
      (p->transposed_b ? lb->rows : lb->columns) != ld->columns)
    return 7;
  for (int64_t j = 0; j < (int64_t)ld->columns; j++)
    for (int64_t i = 0; i < (int64_t)ld->rows; i++) {
      float sum = 0;
      for (int64_t l = 0; l < (int64_t)k; l++)
        sum += (p->transposed_a ? get(a, la, l, i) : get(a, la, i, l)) *
               (p->transposed_b ? get(b, lb, j, l) : get(b, lb, l, j));
      sum *= *(const float *)alpha;
      if (*(const float *)beta != 0)
        sum += *(const float *)beta * get(c, lc, i, j);
      set(d, ld, i, j, sum + (p->epilogue == 4 ? from_bf16(p->bias[i]) : 0));
    }
  return 0;
}
