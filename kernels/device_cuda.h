/* device_cuda.h: one GPU by the driver's interface, for the files that make up the row "cuda" of device.h. */
#ifndef KERNELS_DEVICE_CUDA_H
#define KERNELS_DEVICE_CUDA_H
#include "kernels/cublaslt.h"
#include "kernels/cuda_driver.h"
#include "kernels/device.h"
#include "kernels/kernel_launch.h"

enum { CUDA_MAX_FUNCTIONS = 256 };

struct cuda {
  struct device shared;
  const struct cuda_driver *driver;
  int ordinal; /* the driver's number of the GPU */
  void *context, *module, *started, *stopped /* events */, *gemm_workspace;
  struct cublaslt *cublaslt; /* opened by the first gemm */
  struct {
    const char *name; /* static */
    void *handle;
    unsigned shared_bytes; /* allowed so far */
  } functions[CUDA_MAX_FUNCTIONS];
  int n_functions;
};

/* ---- cuda_operators.c ---- */

/* Issues the kernels of a call on the device's stream. Errors do not name the device and the call yet. */
int cuda_operator_run(struct cuda *cuda, const struct operator_call *call, struct err *err);

/* ---- device_cuda.c ---- */

/* One kernel; `args` is the struct that it takes by value. */
int cuda_launch(struct cuda *cuda, const struct kernel_launch *launch, const void *args, struct err *err);

#endif
