/* From operator calls to kernels. Which kernel, grid and shared memory a shape needs is in X_launch.h, beside X.cu. */
#include "kernels/device_cuda.h"
#include "sim/base/units.h"

static int run_gemm(struct cuda *cuda, const struct gemm_call *call, struct err *err) {
  if (!cuda->cublaslt && cublaslt_open(&cuda->cublaslt, cuda->gemm_workspace, err))
    return -1;
  return cublaslt_gemm(cuda->cublaslt, call, cuda->shared.stream, err);
}

static int run_clear(struct cuda *cuda, const struct clear_call *call, struct err *err) {
  if (call->n == 0)
    return 0;
  const int rc =
      cuda->driver->cuMemsetD8Async(call->x, 0, size_mul((size_t)call->n, sizeof(float)), cuda->shared.stream);
  return cuda_driver_check(cuda->driver, rc, "cuMemsetD8Async", err);
}

int cuda_operator_run(struct cuda *cuda, const struct operator_call *call, struct err *err) {
  switch (call->kind) {
  case OPERATOR_GEMM:
    return run_gemm(cuda, &call->gemm, err);
  case OPERATOR_CLEAR:
    return run_clear(cuda, &call->clear, err);
  default:
    return err_set(err, "there is no CUDA kernel for this operator");
  }
}
