/* cublaslt.h: gemm.h on a GPU: bf16 operands, fp32 accumulation, by cuBLASLt (libcublasLt, loaded at run time). The
 * best algorithm by cuBLASLt's own heuristic is asked for once per shape. */
#ifndef KERNELS_CUBLASLT_H
#define KERNELS_CUBLASLT_H
#include <stddef.h>

#include "kernels/gemm.h"
#include "sim/base/err.h"

struct cublaslt;

enum { CUBLASLT_WORKSPACE_BYTES = 32 << 20 };

/* `workspace`: device memory of CUBLASLT_WORKSPACE_BYTES, the caller's. The current CUDA context is used. */
int cublaslt_open(struct cublaslt **out, void *workspace, struct err *err);
void cublaslt_close(struct cublaslt *lt); /* NULL is fine */

/* Issues the product on the stream. Pointers are multiples of 16 bytes. bias and c_fp32 exclude each other. */
int cublaslt_gemm(struct cublaslt *lt, const struct gemm_call *call, void *stream, struct err *err);

#endif
