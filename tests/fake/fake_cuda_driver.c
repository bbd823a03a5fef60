/* A CUDA driver that has no GPU: memory is the host's, kernels are only written down. It stands in for libcuda.so.1, so
 * that tests run the program's own host code. Environment, read at each call:
 *   FAKE_CUDA_GPUS=N     how many there are (1)
 *   FAKE_CUDA_SM=90      their compute capability
 *   FAKE_CUDA_BYTES=N    their memory (1 GiB)
 *   FAKE_CUDA_FAIL=SYMBOL:N[:RESULT]   the N-th call of SYMBOL fails with RESULT (999) and does nothing
 * fake_cuda_log() returns what was called so far, in order, one word each ("name" or, for a launch, "name(kernel)");
 * fake_cuda_held() the number of contexts, streams, events, modules and allocations that have not been given back. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OK = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, NOT_FOUND = 500 };

static char log_text[1 << 16];
static int held;
static size_t used_bytes;

const char *fake_cuda_log(void);
int fake_cuda_held(void);
void fake_cuda_reset(void);

const char *fake_cuda_log(void) { return log_text; }
int fake_cuda_held(void) { return held; }

static struct {
  char name[64];
  int calls;
} counts[64];

void fake_cuda_reset(void) {
  log_text[0] = '\0';
  memset(counts, 0, sizeof counts);
}

static long number(const char *variable, long otherwise) {
  const char *text = getenv(variable);
  return text ? atol(text) : otherwise;
}

static int count_of(const char *name) {
  int i = 0;
  while (counts[i].name[0] && strcmp(counts[i].name, name) != 0)
    i++;
  snprintf(counts[i].name, sizeof counts[i].name, "%s", name);
  return ++counts[i].calls;
}

/* Notes the call; nonzero: it is to fail. */
static int enter(const char *name) {
  char wanted[64] = "";
  int nth = 0, result = 999;
  const char *fail = getenv("FAKE_CUDA_FAIL");
  size_t n = strlen(log_text);
  snprintf(log_text + n, sizeof log_text - n, "%s%s", n ? " " : "", name);
  if (fail)
    sscanf(fail, "%63[^:]:%d:%d", wanted, &nth, &result);
  return count_of(name) == nth && strcmp(wanted, name) == 0 ? result : OK;
}

#define ENTER(name)                                                                                                    \
  int failure = enter(name);                                                                                           \
  if (failure)                                                                                                         \
  return failure

/* name: no prototype elsewhere: the program declares its own. */
#define DRIVER(name, ...)                                                                                              \
  int name(__VA_ARGS__);                                                                                               \
  int name(__VA_ARGS__)

DRIVER(cuInit, unsigned flags) {
  (void)flags;
  ENTER("cuInit");
  return number("FAKE_CUDA_GPUS", 1) > 0 ? OK : NO_DEVICE;
}

DRIVER(cuGetErrorName, int result, const char **name) {
  *name = result == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
  return OK;
}

DRIVER(cuGetErrorString, int result, const char **text) {
  *text = result == OUT_OF_MEMORY ? "out of memory" : "unknown error";
  return OK;
}

DRIVER(cuDeviceGetCount, int *count) {
  ENTER("cuDeviceGetCount");
  *count = (int)number("FAKE_CUDA_GPUS", 1);
  return OK;
}

DRIVER(cuDeviceGet, int *device, int index) {
  ENTER("cuDeviceGet");
  *device = index;
  return OK;
}

DRIVER(cuDeviceGetName, char *name, int size, int device) {
  ENTER("cuDeviceGetName");
  snprintf(name, (size_t)size, "fake GPU %d", device);
  return OK;
}

DRIVER(cuDeviceGetAttribute, int *value, int attribute, int device) {
  (void)device;
  ENTER("cuDeviceGetAttribute");
  const int sm = (int)number("FAKE_CUDA_SM", 90);
  *value = attribute == 75 ? sm / 10 : attribute == 76 ? sm % 10 : 0;
  return OK;
}

/* Handles: small allocations, so that a double release is found by a sanitizer. */
static int hold(void **handle) {
  *handle = malloc(1);
  held++;
  return OK;
}

static int let_go(void *handle) {
  free(handle);
  held--;
  return OK;
}

static void *context;

DRIVER(cuDevicePrimaryCtxRetain, void **out, int device) {
  (void)device;
  ENTER("cuDevicePrimaryCtxRetain");
  hold(&context);
  *out = context;
  return OK;
}

DRIVER(cuDevicePrimaryCtxRelease_v2, int device) {
  (void)device;
  ENTER("cuDevicePrimaryCtxRelease_v2");
  return let_go(context);
}

DRIVER(cuCtxSetCurrent, void *current) {
  (void)current;
  ENTER("cuCtxSetCurrent");
  return OK;
}

static size_t total_bytes(void) { return (size_t)number("FAKE_CUDA_BYTES", 1L << 30); }

DRIVER(cuMemGetInfo_v2, size_t *free_now, size_t *total) {
  ENTER("cuMemGetInfo_v2");
  *total = total_bytes();
  *free_now = *total - used_bytes;
  return OK;
}

/* The size stands in the 256 bytes before the memory. */
DRIVER(cuMemAlloc_v2, void **memory, size_t bytes) {
  ENTER("cuMemAlloc_v2");
  if (bytes > total_bytes() - used_bytes)
    return OUT_OF_MEMORY;
  char *block = aligned_alloc(256, 256 + (bytes + 255) / 256 * 256);
  memcpy(block, &bytes, sizeof bytes);
  memset(block + 256, 0xff, bytes); /* NaN: nothing may be read before it is written */
  used_bytes += bytes;
  held++;
  *memory = block + 256;
  return OK;
}

DRIVER(cuMemFree_v2, void *memory) {
  ENTER("cuMemFree_v2");
  size_t bytes;
  memcpy(&bytes, (char *)memory - 256, sizeof bytes);
  used_bytes -= bytes;
  return let_go((char *)memory - 256);
}

DRIVER(cuMemcpyAsync, void *to, const void *from, size_t bytes, void *stream) {
  (void)stream;
  ENTER("cuMemcpyAsync");
  memcpy(to, from, bytes);
  return OK;
}

DRIVER(cuMemsetD8Async, void *memory, unsigned char value, size_t bytes, void *stream) {
  (void)stream;
  ENTER("cuMemsetD8Async");
  memset(memory, value, bytes);
  return OK;
}

DRIVER(cuModuleLoadData, void **module, const void *image) {
  (void)image;
  ENTER("cuModuleLoadData");
  return hold(module);
}

DRIVER(cuModuleUnload, void *module) {
  ENTER("cuModuleUnload");
  return let_go(module);
}

/* A function is the name it was asked for by. */
DRIVER(cuModuleGetFunction, void **function, void *module, const char *name) {
  (void)module;
  ENTER("cuModuleGetFunction");
  if (strcmp(name, "missing") == 0)
    return NOT_FOUND;
  *function = (void *)(uintptr_t)name;
  return OK;
}

DRIVER(cuFuncSetAttribute, void *function, int attribute, int value) {
  (void)function, (void)attribute, (void)value;
  ENTER("cuFuncSetAttribute");
  return OK;
}

DRIVER(cuLaunchKernel, void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
       unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters, void **extra) {
  (void)grid_x, (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z, (void)shared_bytes;
  (void)stream, (void)parameters, (void)extra;
  ENTER("cuLaunchKernel");
  size_t n = strlen(log_text);
  snprintf(log_text + n, sizeof log_text - n, "(%s)", (const char *)function);
  return OK;
}

DRIVER(cuStreamCreate, void **stream, unsigned flags) {
  (void)flags;
  ENTER("cuStreamCreate");
  return hold(stream);
}

DRIVER(cuStreamDestroy_v2, void *stream) {
  ENTER("cuStreamDestroy_v2");
  return let_go(stream);
}

DRIVER(cuStreamSynchronize, void *stream) {
  (void)stream;
  ENTER("cuStreamSynchronize");
  return OK;
}

struct event {
  struct timespec time;
};

DRIVER(cuEventCreate, void **event, unsigned flags) {
  (void)flags;
  ENTER("cuEventCreate");
  *event = calloc(1, sizeof(struct event));
  held++;
  return OK;
}

DRIVER(cuEventDestroy_v2, void *event) {
  ENTER("cuEventDestroy_v2");
  return let_go(event);
}

DRIVER(cuEventRecord, void *event, void *stream) {
  (void)stream;
  ENTER("cuEventRecord");
  clock_gettime(CLOCK_MONOTONIC, &((struct event *)event)->time);
  return OK;
}

DRIVER(cuEventElapsedTime, float *time_ms, void *from, void *to) {
  ENTER("cuEventElapsedTime");
  const struct timespec a = ((struct event *)from)->time, b = ((struct event *)to)->time;
  *time_ms = (float)((double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6);
  return OK;
}
