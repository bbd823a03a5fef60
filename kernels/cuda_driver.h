/* cuda_driver.h: the part of the CUDA driver that a device needs, loaded at run time (libcuda.so.1, which comes with
 * the GPU's driver), so that one program runs with and without it and needs no toolkit to be built. Types and numbers
 * are the driver's: handles are pointers, results int, 0 for success. */
#ifndef KERNELS_CUDA_DRIVER_H
#define KERNELS_CUDA_DRIVER_H
#include <stddef.h>

#include "sim/base/err.h"

/* X(symbol, parameters) */
#define CUDA_DRIVER_SYMBOLS(X)                                                                                         \
  X(cuInit, (unsigned flags))                                                                                          \
  X(cuGetErrorName, (int result, const char **name))                                                                   \
  X(cuGetErrorString, (int result, const char **text))                                                                 \
  X(cuDeviceGetCount, (int *count))                                                                                    \
  X(cuDeviceGet, (int *device, int index))                                                                             \
  X(cuDeviceGetName, (char *name, int size, int device))                                                               \
  X(cuDeviceGetAttribute, (int *value, int attribute, int device))                                                     \
  X(cuDevicePrimaryCtxRetain, (void **context, int device))                                                            \
  X(cuDevicePrimaryCtxRelease_v2, (int device))                                                                        \
  X(cuCtxSetCurrent, (void *context))                                                                                  \
  X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                                      \
  X(cuMemAlloc_v2, (void **memory, size_t bytes))                                                                      \
  X(cuMemFree_v2, (void *memory))                                                                                      \
  X(cuMemcpyAsync, (void *to, const void *from, size_t bytes, void *stream))                                           \
  X(cuMemsetD8Async, (void *memory, unsigned char value, size_t bytes, void *stream))                                  \
  X(cuModuleLoadData, (void **module, const void *image))                                                              \
  X(cuModuleUnload, (void *module))                                                                                    \
  X(cuModuleGetFunction, (void **function, void *module, const char *name))                                            \
  X(cuFuncSetAttribute, (void *function, int attribute, int value))                                                    \
  X(cuLaunchKernel,                                                                                                    \
    (void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,            \
     unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra))                          \
  X(cuStreamCreate, (void **stream, unsigned flags))                                                                   \
  X(cuStreamDestroy_v2, (void *stream))                                                                                \
  X(cuStreamSynchronize, (void *stream))                                                                               \
  X(cuEventCreate, (void **event, unsigned flags))                                                                     \
  X(cuEventDestroy_v2, (void *event))                                                                                  \
  X(cuEventRecord, (void *event, void *stream))                                                                        \
  X(cuEventElapsedTime, (float *time_ms, void *from, void *to))

enum {
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_NO_DEVICE = 100,
  CUDA_CAPABILITY_MAJOR = 75, /* device attributes */
  CUDA_CAPABILITY_MINOR = 76,
  CUDA_FUNCTION_MAX_SHARED_BYTES = 8, /* function attribute: dynamic shared memory a launch may ask for */
  CUDA_STREAM_NON_BLOCKING = 1,
};

struct cuda_driver {
  void *handle;
#define CUDA_DRIVER_SLOT(symbol, parameters) int(*symbol) parameters;
  CUDA_DRIVER_SYMBOLS(CUDA_DRIVER_SLOT)
#undef CUDA_DRIVER_SLOT
};

/* Loads and starts the driver, once per process; the caller does not free it. NULL with a reason: no driver installed,
 * a driver too old to have a symbol, no GPU. */
const struct cuda_driver *cuda_driver_load(struct err *err);

/* 0 if `result` is; else an error "what: the driver's words (CUDA_ERROR_NAME)". `symbol` is the call that failed. */
int cuda_driver_check(const struct cuda_driver *driver, int result, const char *symbol, struct err *err);

/* A shared library's functions: dlopen of the first of `names` (ended by NULL) that is found, dlsym of each symbol into
 * slots[i]. NULL with a reason naming `title`. */
void *cuda_library_load(const char *title, const char *const *names, const char *const *symbols, void **const *slots,
                        struct err *err);

#endif
