/* A GPU as a device: kernels from the fatbin inside this program, matrix products by cuBLASLt, all on one stream. */
#include "kernels/device_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device_table.h"
#include "sim/base/units.h"

/* The compiled kernels. Without a CUDA toolkit at build time there are none. */
#ifdef DCPSIM_HAVE_FATBIN
extern const unsigned char dcpsim_fatbin[];
extern const uint64_t dcpsim_fatbin_size;
#else
extern const unsigned char dcpsim_fatbin[] __attribute__((weak));
extern const uint64_t dcpsim_fatbin_size __attribute__((weak));
#endif

static bool have_kernels(void) {
  const uint64_t *volatile size = &dcpsim_fatbin_size; /* NULL where the weak symbol is undefined */
  return size && *size > 0;
}

#define CALL(cuda, symbol, ...) cuda_driver_check((cuda)->driver, (cuda)->driver->symbol(__VA_ARGS__), #symbol, err)

static int failed(const struct cuda *cuda, struct err *err) {
  return err_prefix(err, "device cuda %d (%s)", cuda->shared.index, cuda->shared.name);
}

/* Before anything is held: the right kind of GPU. */
static int inspect(struct cuda *cuda, struct err *err) {
  int count = 0, major = 0, minor = 0;
  if (CALL(cuda, cuDeviceGetCount, &count))
    return -1;
  if (cuda->shared.index < 0 || cuda->shared.index >= count)
    return err_usage(err, "there %s %d GPU%s, numbered from 0", count == 1 ? "is" : "are", count,
                     count == 1 ? "" : "s");
  if (CALL(cuda, cuDeviceGet, &cuda->ordinal, cuda->shared.index) ||
      CALL(cuda, cuDeviceGetName, cuda->shared.name, sizeof cuda->shared.name, cuda->ordinal) ||
      CALL(cuda, cuDeviceGetAttribute, &major, CUDA_CAPABILITY_MAJOR, cuda->ordinal) ||
      CALL(cuda, cuDeviceGetAttribute, &minor, CUDA_CAPABILITY_MINOR, cuda->ordinal))
    return -1;
  if (major != 9 || minor != 0)
    return err_set(err, "the kernels are for sm_90 (H100, H200), this GPU is sm_%d%d", major, minor);
  return 0;
}

int cuda_allocate(struct cuda *cuda, void **memory, size_t bytes, struct err *err) {
  size_t free_bytes = 0, total_bytes = 0;
  const int rc = cuda->driver->cuMemAlloc_v2(memory, bytes);
  if (rc == 0)
    return 0;
  *memory = NULL;
  if (rc != CUDA_OUT_OF_MEMORY || cuda->driver->cuMemGetInfo_v2(&free_bytes, &total_bytes) != 0)
    return cuda_driver_check(cuda->driver, rc, "cuMemAlloc_v2", err);
  return err_set(err, "%zu bytes do not fit: %zu of %zu bytes are free", bytes, free_bytes, total_bytes);
}

/* What the user chose in the environment. */
static int choose(struct cuda *cuda, struct err *err) {
  const char *attention = getenv("DCPSIM_ATTENTION");
  cuda->attention_wgmma = attention && strcmp(attention, "wgmma") == 0;
  if (attention && !cuda->attention_wgmma && strcmp(attention, "mma") != 0)
    return err_usage(err, "DCPSIM_ATTENTION is '%s'; there are: mma (the default), wgmma", attention);
  if (cuda->attention_wgmma)
    cuda->shared.choice = "attention_forward by wgmma";
  return 0;
}

static int acquire(struct cuda *cuda, struct err *err) {
  if (CALL(cuda, cuDevicePrimaryCtxRetain, &cuda->context, cuda->ordinal) ||
      CALL(cuda, cuCtxSetCurrent, cuda->context) ||
      CALL(cuda, cuStreamCreate, &cuda->shared.stream, CUDA_STREAM_NON_BLOCKING))
    return -1;
  if (CALL(cuda, cuModuleLoadData, &cuda->module, dcpsim_fatbin))
    return err_prefix(err, "the kernels do not load; is the driver older than the CUDA toolkit that built dcpsim?");
  if (CALL(cuda, cuEventCreate, &cuda->started, 0) || CALL(cuda, cuEventCreate, &cuda->stopped, 0) ||
      cuda_allocate(cuda, &cuda->gemm_workspace, CUBLASLT_WORKSPACE_BYTES, err))
    return -1;
  return CALL(cuda, cuEventRecord, cuda->started, cuda->shared.stream);
}

static int cuda_open(struct device **out, int index, struct err *err) {
  if (!have_kernels())
    return err_set(err, "device cuda: dcpsim was built without CUDA kernels; install a CUDA toolkit and build again");
  const struct cuda_driver *driver = cuda_driver_load(err);
  if (!driver)
    return err_prefix(err, "device cuda");
  struct cuda *cuda = xcalloc(1, sizeof *cuda);
  cuda->shared.kind = &device_cuda;
  cuda->shared.index = index;
  cuda->driver = driver;
  snprintf(cuda->shared.name, sizeof cuda->shared.name, "GPU");
  if (choose(cuda, err) || inspect(cuda, err) || acquire(cuda, err)) {
    failed(cuda, err);
    device_cuda.close(&cuda->shared);
    return -1;
  }
  *out = &cuda->shared;
  return 0;
}

/* Gives back what is held, the last first. */
static void cuda_close(struct device *device) {
  struct cuda *cuda = (struct cuda *)device;
  const struct cuda_driver *d = cuda->driver;
  if (cuda->shared.stream)
    d->cuStreamSynchronize(cuda->shared.stream);
  cublaslt_close(cuda->cublaslt);
  void *const memory[] = {cuda->rope.table, cuda->constants, cuda->scratch, cuda->gemm_workspace};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
    if (memory[i])
      d->cuMemFree_v2(memory[i]);
  if (cuda->stopped)
    d->cuEventDestroy_v2(cuda->stopped);
  if (cuda->started)
    d->cuEventDestroy_v2(cuda->started);
  if (cuda->module)
    d->cuModuleUnload(cuda->module);
  if (cuda->shared.stream)
    d->cuStreamDestroy_v2(cuda->shared.stream);
  if (cuda->context)
    d->cuDevicePrimaryCtxRelease_v2(cuda->ordinal);
  free(cuda);
}

int cuda_scratch(struct cuda *cuda, size_t bytes, struct err *err) {
  if (bytes <= cuda->scratch_bytes)
    return 0;
  void *old = cuda->scratch;
  cuda->scratch = NULL;
  cuda->scratch_bytes = 0;
  if ((old && CALL(cuda, cuMemFree_v2, old)) || cuda_allocate(cuda, &cuda->scratch, bytes, err))
    return err_prefix(err, "scratch memory");
  cuda->scratch_bytes = bytes;
  return 0;
}

static int cuda_resize(struct device *device, void **memory, size_t bytes, struct err *err) {
  struct cuda *cuda = (struct cuda *)device;
  void *old = *memory;
  *memory = NULL;
  if (old && CALL(cuda, cuMemFree_v2, old))
    return failed(cuda, err);
  return bytes > 0 && cuda_allocate(cuda, memory, bytes, err) ? failed(cuda, err) : 0;
}

int cuda_transfer(struct cuda *cuda, void *to, const void *from, size_t bytes, struct err *err) {
  if (CALL(cuda, cuMemcpyAsync, to, from, bytes, cuda->shared.stream) ||
      CALL(cuda, cuStreamSynchronize, cuda->shared.stream))
    return err_prefix(err, "copy of %zu bytes", bytes);
  return 0;
}

static int cuda_copy(struct device *device, void *to, const void *from, size_t bytes, struct err *err) {
  struct cuda *cuda = (struct cuda *)device;
  return cuda_transfer(cuda, to, from, bytes, err) ? failed(cuda, err) : 0;
}

/* The function's place in cuda->functions; -1 on failure. */
static int function_of(struct cuda *cuda, const char *kernel, struct err *err) {
  int i = 0;
  while (i < cuda->n_functions && strcmp(cuda->functions[i].name, kernel) != 0)
    i++;
  if (i < cuda->n_functions)
    return i;
  ASSERT(cuda->n_functions < CUDA_MAX_FUNCTIONS);
  if (CALL(cuda, cuModuleGetFunction, &cuda->functions[i].handle, cuda->module, kernel))
    return err_prefix(err, "kernel %s", kernel);
  cuda->functions[i].name = kernel;
  cuda->functions[i].shared_bytes = 48 << 10; /* what a launch may ask for without being allowed */
  cuda->n_functions++;
  return i;
}

int cuda_launch(struct cuda *cuda, struct kernel_launch l, const void *args, struct err *err) {
  if (!l.kernel)
    return err_set(err, "no CUDA kernel takes this shape");
  if (l.grid[0] == 0 || l.grid[1] == 0 || l.grid[2] == 0)
    return 0;
  const int i = function_of(cuda, l.kernel, err);
  if (i < 0)
    return -1;
  void *function = cuda->functions[i].handle, *parameters[] = {(void *)args};
  if (l.shared_bytes > cuda->functions[i].shared_bytes) {
    if (CALL(cuda, cuFuncSetAttribute, function, CUDA_FUNCTION_MAX_SHARED_BYTES, (int)l.shared_bytes))
      return err_prefix(err, "kernel %s, %u bytes of shared memory", l.kernel, l.shared_bytes);
    cuda->functions[i].shared_bytes = l.shared_bytes;
  }
  if (CALL(cuda, cuLaunchKernel, function, l.grid[0], l.grid[1], l.grid[2], l.block, 1, 1, l.shared_bytes,
           cuda->shared.stream, parameters, NULL))
    return err_prefix(err, "kernel %s, grid %u x %u x %u of %u", l.kernel, l.grid[0], l.grid[1], l.grid[2], l.block);
  return 0;
}

static int cuda_run(struct device *device, const struct operator_call *call, struct err *err) {
  struct cuda *cuda = (struct cuda *)device;
  char what[256];
  if (cuda_operator_run(cuda, call, err) == 0)
    return 0;
  err_prefix(err, "%s", operator_describe(call, what, sizeof what));
  return failed(cuda, err);
}

static int cuda_mark(struct device *device, struct err *err) {
  struct cuda *cuda = (struct cuda *)device;
  return CALL(cuda, cuEventRecord, cuda->started, cuda->shared.stream) ? failed(cuda, err) : 0;
}

static int cuda_wait(struct device *device, double *time_s, struct err *err) {
  struct cuda *cuda = (struct cuda *)device;
  float time_ms = 0;
  void *stream = cuda->shared.stream;
  if (CALL(cuda, cuEventRecord, cuda->stopped, stream) || CALL(cuda, cuStreamSynchronize, stream) ||
      CALL(cuda, cuEventElapsedTime, &time_ms, cuda->started, cuda->stopped) ||
      CALL(cuda, cuEventRecord, cuda->started, stream))
    return failed(cuda, err);
  if (time_s)
    *time_s = 1e-3 * (double)time_ms;
  return 0;
}

static int cuda_memory(struct device *device, size_t *bytes, struct err *err) {
  struct cuda *cuda = (struct cuda *)device;
  size_t total_bytes;
  return CALL(cuda, cuMemGetInfo_v2, bytes, &total_bytes) ? failed(cuda, err) : 0;
}

const struct device_kind device_cuda = {
    .name = "cuda",
    .element = ELEMENT_BF16,
    .open = cuda_open,
    .close = cuda_close,
    .resize = cuda_resize,
    .copy = cuda_copy,
    .run = cuda_run,
    .mark = cuda_mark,
    .wait = cuda_wait,
    .memory = cuda_memory,
};
