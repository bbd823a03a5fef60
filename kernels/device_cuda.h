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
  bool attention_wgmma;      /* asked for in the environment: see device.h */
  struct {
    const char *name; /* static */
    void *handle;
    unsigned shared_bytes; /* allowed so far */
  } functions[CUDA_MAX_FUNCTIONS];
  int n_functions;

  /* What kernels need besides their operands. */
  void *scratch; /* for the length of one call */
  size_t scratch_bytes;
  void *constants; /* bf16: a row of ones, a row of zeros */
  struct {
    void *table; /* cosines, then sines: fp32 (positions, head_dim / 2) each */
    int64_t positions, head_dim;
    float base;
  } rope;
};

/* ---- cuda_operators.c ---- */

/* Issues the kernels of a call on the device's stream. Errors do not name the device and the call yet. */
int cuda_operator_run(struct cuda *cuda, const struct operator_call *call, struct err *err);

/* ---- device_cuda.c ---- */

/* As the functions of the device's row, with messages that do not name the device yet. */
int cuda_allocate(struct cuda *cuda, void **memory, size_t bytes, struct err *err);
int cuda_transfer(struct cuda *cuda, void *to, const void *from, size_t bytes, struct err *err);

/* Makes cuda->scratch at least so large; what it held is lost. */
int cuda_scratch(struct cuda *cuda, size_t bytes, struct err *err);

/* One kernel; `args` is the struct that it takes by value. */
int cuda_launch(struct cuda *cuda, struct kernel_launch launch, const void *args, struct err *err);

#endif
