// shim_kernels.cc: the CUDA kernels on the CPU (tests/cuda_shim), by name, for tests/fake/fake_cuda_driver.c.
#include "tests/cuda_shim/kernels.h"

extern "C" const char *fake_cuda_run(const char *kernel, const unsigned grid[3], unsigned block, unsigned shared_bytes,
                                     const void *args) {
  const struct kernel_launch launch = {kernel, {grid[0], grid[1], grid[2]}, block, shared_bytes};
  if (grid[1] > 65535 || grid[2] > 65535)
    return "no such grid on this machine";
#define TRY(name, type)                                                                                                \
  if (strcmp(kernel, #name) == 0)                                                                                      \
    return shim_launch<struct type>(name, launch, *(const struct type *)args, SHIM_RANDOM);
  SHIM_KERNELS(TRY)
  return "not among the kernels";
}
