/* The device table, the CPU device, and the real host code of the CUDA device on a driver and a cuBLASLt that have no
 * GPU (tests/fake). Each test is a process of its own: what is loaded and counted starts anew. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include "kernels/device.h"
#include "kernels/device_cuda.h"
#include "tests/unit/test_kernels_arrays.h"

#define EXPECT_MESSAGE(err, text) cr_expect_str_eq((err).msg, text)

Test(kernels_device, table) {
  struct err err = {0};
  struct device *d;
  cr_expect_eq(device_open(&d, "tpu", 0, &err), -1);
  cr_expect(err.usage && d == NULL);
  EXPECT_MESSAGE(err, "no device 'tpu'; there are: cpu, cuda");
  cr_expect_eq(device_open(&d, "cpu", 1, &err), -1);
  EXPECT_MESSAGE(err, "device cpu: there is only number 0, not 1");
}

Test(kernels_device, cpu) {
  struct err err = {0};
  struct device *d;
  void *x = NULL, *y = NULL;
  float host[3] = {1, 2, -3}, back[3];
  double time_s = -1;
  cr_assert_eq(device_open(&d, "cpu", 0, &err), 0);
  cr_assert_eq(device_resize(d, &x, sizeof host, &err), 0);
  cr_assert_eq(device_resize(d, &y, sizeof host, &err), 0);
  cr_expect_eq((uintptr_t)x % 256, 0);
  cr_assert_eq(device_upload(d, x, host, 3, &err), 0);
  const struct operator_call call = {.kind = OPERATOR_RESIDUAL, .residual = {3, x, x, y}};
  usleep(500000); /* which is not in the time */
  cr_assert_eq(device_mark(d, &err), 0);
  cr_assert_eq(device_run(d, &call, &err), 0);
  cr_assert_eq(device_wait(d, &time_s, &err), 0);
  cr_assert_eq(device_download(d, back, y, 3, &err), 0);
  cr_expect(back[0] == 2 && back[1] == 4 && back[2] == -6 && time_s >= 0 && time_s < 0.5);
  cr_expect_eq(device_resize(d, &x, SIZE_MAX, &err), -1);
  cr_expect(x == NULL && strstr(err.msg, "no memory for 18446744073709551615 bytes"), "%s", err.msg);
  cr_assert_eq(device_resize(d, &y, 0, &err), 0);
  cr_expect_null(y);
  device_close(d);
}

/* ---- The CUDA device on the fakes
 * -------------------------------------------------------------------------------------- */

/* Stands for the kernels, which need a toolkit to be built. */
const unsigned char dcpsim_fatbin[] = {0};
const uint64_t dcpsim_fatbin_size = sizeof dcpsim_fatbin;

static const char *(*fake_log)(void);
static int (*fake_held)(void);
static void (*fake_reset)(void);

/* A library loaded under the name that the program asks for is what it gets. */
static void *load(const char *file) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", DCPSIM_FAKE_DIR, file);
  void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  cr_assert(library, "%s", dlerror());
  return library;
}

static void load_fakes(void) {
  void *driver = load("libcuda.so.1");
  load("libcublasLt.so.13");
  *(void **)&fake_log = dlsym(driver, "fake_cuda_log");
  *(void **)&fake_held = dlsym(driver, "fake_cuda_held");
  *(void **)&fake_reset = dlsym(driver, "fake_cuda_reset");
  cr_assert(fake_log && fake_held && fake_reset);
}

static struct device *open_cuda(void) {
  struct err err = {0};
  struct device *d;
  cr_assert_eq(device_open(&d, "cuda", 0, &err), 0, "%s", err.msg);
  return d;
}

static void expect_refusal(const char *text) {
  struct err err = {0};
  struct device *d;
  cr_expect_eq(device_open(&d, "cuda", 0, &err), -1);
  cr_expect_null(d);
  EXPECT_MESSAGE(err, text);
  if (fake_held)
    cr_expect_eq(fake_held(), 0);
}

Test(kernels_device, cuda_without_driver) {
  if (dlopen("libcuda.so.1", RTLD_NOW))
    return; /* this machine has one */
  expect_refusal("device cuda: no NVIDIA driver: libcuda.so.1 cannot be loaded");
}

Test(kernels_device, cuda_refusals) {
  struct err err = {0};
  struct device *d;
  load_fakes();
  setenv("FAKE_CUDA_GPUS", "0", 1);
  expect_refusal("device cuda: the NVIDIA driver finds no GPU");
  setenv("FAKE_CUDA_GPUS", "2", 1);
  cr_expect_eq(device_open(&d, "cuda", 2, &err), -1);
  EXPECT_MESSAGE(err, "device cuda 2 (GPU): there are 2 GPUs, numbered from 0");
  cr_expect(err.usage);
  setenv("FAKE_CUDA_SM", "80", 1);
  expect_refusal("device cuda 0 (fake GPU 0): the kernels are for sm_90 (H100, H200), this GPU is sm_80");
  setenv("FAKE_CUDA_SM", "90", 1);
  setenv("FAKE_CUDA_BYTES", "1000", 1);
  expect_refusal("device cuda 0 (fake GPU 0): 33554432 bytes do not fit: 1000 of 1000 bytes are free");
  setenv("FAKE_CUDA_BYTES", "40000000", 1);
  d = open_cuda();
  void *x = NULL;
  cr_expect_eq(device_resize(d, &x, 1 << 23, &err), -1);
  EXPECT_MESSAGE(err, "device cuda 0 (fake GPU 0): 8388608 bytes do not fit: 6445568 of 40000000 bytes are free");
  cr_expect_null(x);
  device_close(d);
  cr_expect_eq(fake_held(), 0);
}

Test(kernels_device, cuda_calls_in_order) {
  struct err err = {0};
  struct {
    int64_t n;
  } args = {5};
  const struct kernel_launch small = {"small", {3, 1, 1}, 128, 1024}, large = {"large", {1, 2, 3}, 256, 100 << 10};
  const struct kernel_launch empty = {"empty", {3, 0, 1}, 128, 0}, none = {.kernel = NULL};
  void *x = NULL;
  float host[4] = {1, 1.00390625f, -0.0f, 3e38f}, back[4];
  load_fakes();
  struct device *d = open_cuda();
  cr_expect_str_eq(fake_log(), "cuInit cuDeviceGetCount cuDeviceGetCount cuDeviceGet cuDeviceGetName "
                               "cuDeviceGetAttribute cuDeviceGetAttribute cuDevicePrimaryCtxRetain cuCtxSetCurrent "
                               "cuStreamCreate cuModuleLoadData cuEventCreate cuEventCreate cuMemAlloc_v2 "
                               "cuEventRecord");
  fake_reset();
  cr_assert_eq(device_resize(d, &x, 64, &err), 0);
  cr_assert_eq(device_upload(d, x, host, 4, &err), 0);
  cr_assert_eq(device_download(d, back, x, 4, &err), 0);
  cr_expect_str_eq(fake_log(), "cuMemAlloc_v2 cuMemcpyAsync cuStreamSynchronize cuMemcpyAsync cuStreamSynchronize");
  /* 1 + 2^-8 lies halfway between two bf16 numbers: to the even one. */
  cr_expect(back[0] == 1 && back[1] == 1 && back[2] == 0 && signbit(back[2]) && fabsf(back[3] / 3e38f - 1) < 0x1p-8f);
  fake_reset();
  struct cuda *cuda = (struct cuda *)d;
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(cuda_launch(cuda, small, &args, &err), 0);
    cr_assert_eq(cuda_launch(cuda, large, &args, &err), 0);
    cr_assert_eq(cuda_launch(cuda, empty, &args, &err), 0);
  }
  /* Functions are looked up once, shared memory is allowed once, an empty grid is not launched. */
  cr_expect_str_eq(fake_log(), "cuModuleGetFunction cuLaunchKernel(small) cuModuleGetFunction cuFuncSetAttribute "
                               "cuLaunchKernel(large) cuLaunchKernel(small) cuLaunchKernel(large)");
  cr_expect_eq(cuda_launch(cuda, none, &args, &err), -1);
  EXPECT_MESSAGE(err, "no CUDA kernel takes this shape");
  cr_assert_eq(device_resize(d, &x, 0, &err), 0);
  fake_reset();
  device_close(d);
  cr_expect_str_eq(fake_log(), "cuStreamSynchronize cuMemFree_v2 cuEventDestroy_v2 cuEventDestroy_v2 cuModuleUnload "
                               "cuStreamDestroy_v2 cuDevicePrimaryCtxRelease_v2");
  cr_expect_eq(fake_held(), 0);
}

/* A life of a device in which every driver call occurs; 0 if nothing failed. */
static int live(struct err *err) {
  const struct kernel_launch launch = {"kernel", {3, 1, 1}, 128, 100 << 10};
  const struct operator_call clear = {.kind = OPERATOR_CLEAR};
  struct device *d;
  void *x = NULL;
  float host[4] = {0};
  double time_s;
  if (device_open(&d, "cuda", 0, err))
    return -1;
  struct operator_call call = clear;
  int rc = device_resize(d, &x, sizeof host, err);
  call.clear = (struct clear_call){4, x};
  rc = rc || device_upload(d, x, host, 4, err) || device_run(d, &call, err) ||
       cuda_launch((struct cuda *)d, launch, &x, err) || device_wait(d, &time_s, err) || device_resize(d, &x, 0, err);
  if (x)
    device_resize(d, &x, 0, NULL);
  device_close(d);
  return rc ? -1 : 0;
}

Test(kernels_device, cuda_every_failure_is_told_and_leaks_nothing) {
  static const char *const symbols[] = {
      "cuInit",          "cuDeviceGetCount",   "cuDeviceGet",         "cuDeviceGetName",         "cuDeviceGetAttribute",
      "cuCtxSetCurrent", "cuStreamCreate",     "cuModuleLoadData",    "cuEventCreate",           "cuEventRecord",
      "cuMemAlloc_v2",   "cuMemcpyAsync",      "cuStreamSynchronize", "cuMemsetD8Async",         "cuModuleGetFunction",
      "cuLaunchKernel",  "cuFuncSetAttribute", "cuEventElapsedTime",  "cuDevicePrimaryCtxRetain"};
  int failures = 0;
  load_fakes();
  for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
    for (int n = 1; n < 5; n++) {
      char fail[64];
      struct err err = {0};
      snprintf(fail, sizeof fail, "%s:%d", symbols[i], n);
      setenv("FAKE_CUDA_FAIL", fail, 1);
      fake_reset();
      const int rc = live(&err);
      unsetenv("FAKE_CUDA_FAIL");
      cr_expect_eq(fake_held(), 0, "%s: %d held", fail, fake_held());
      if (rc == 0)
        continue; /* fewer than n calls, or one whose failure is past caring: on the way out */
      failures++;
      cr_expect(strstr(err.msg, symbols[i]) && strstr(err.msg, "unknown error (CUDA_ERROR_UNKNOWN)"), "%s: %s", fail,
                err.msg);
      cr_expect(!strchr(err.msg, '\n'));
    }
  cr_expect_eq(failures, 25, "%d", failures); /* calls of one life, less what loading the driver did once */
}

Test(kernels_device, cuda_message_names_operation_shape_and_device) {
  struct err err = {0};
  load_fakes();
  setenv("FAKE_CUDA_FAIL", "cuMemsetD8Async:1", 1);
  struct device *d = open_cuda();
  const struct operator_call clear = {.kind = OPERATOR_CLEAR, .clear = {7, NULL}};
  cr_expect_eq(device_run(d, &clear, &err), -1);
  EXPECT_MESSAGE(err, "device cuda 0 (fake GPU 0): clear n 7: cuMemsetD8Async: unknown error (CUDA_ERROR_UNKNOWN)");
  setenv("FAKE_CUBLASLT_NONE", "1", 1);
  const struct operator_call gemm = {.kind = OPERATOR_GEMM, .gemm = {.m = 2, .n = 3, .k = 4}};
  cr_expect_eq(device_run(d, &gemm, &err), -1);
  EXPECT_MESSAGE(err, "device cuda 0 (fake GPU 0): gemm m 2, n 3, k 4: cuBLASLt has no algorithm for this shape");
  device_close(d);
}

enum { A, B, BIAS, C, ARRAYS };

/* One product on the CUDA device, result in f[C]. Numbers are sixteenths so that bf16 holds them. */
static void gemm_on(struct device *d, const struct gemm_call *shape, struct arrays *a) {
  struct err err = {0};
  void *p[ARRAYS] = {0};
  for (int i = 0; i < ARRAYS; i++) {
    cr_assert_eq(device_resize(d, &p[i], a->size[i] * 4, &err), 0, "%s", err.msg);
    if (i == C && shape->c_fp32)
      cr_assert_eq(device_copy(d, p[i], a->f[i], a->size[i] * 4, &err), 0);
    else
      cr_assert_eq(device_upload(d, p[i], a->f[i], a->size[i], &err), 0);
  }
  struct operator_call call = {.kind = OPERATOR_GEMM, .gemm = *shape};
  call.gemm.a = p[A];
  call.gemm.b = p[B];
  call.gemm.bias = shape->bias ? p[BIAS] : NULL;
  call.gemm.c = p[C];
  for (int i = 0; i < (shape->accumulate ? 1 : 2); i++) /* the second from the memory of shapes */
    cr_assert_eq(device_run(d, &call, &err), 0, "%s", err.msg);
  if (shape->c_fp32)
    cr_assert_eq(device_copy(d, a->f[C], p[C], a->size[C] * 4, &err), 0);
  else
    cr_assert_eq(device_download(d, a->f[C], p[C], a->size[C], &err), 0);
  for (int i = 0; i < ARRAYS; i++)
    cr_assert_eq(device_resize(d, &p[i], 0, &err), 0);
}

Test(kernels_device, cuda_gemm_by_cublaslt) {
  const size_t size[ARRAYS] = {5 * 7, 7 * 6, 6, 5 * 6};
  load_fakes();
  struct device *d = open_cuda();
  for (int flags = 0; flags < 32; flags++) {
    struct gemm_call g = {.m = 5, .n = 6, .k = 7, .a_transposed = flags & 1, .b_transposed = flags & 2};
    struct arrays a;
    g.accumulate = flags & 4;
    g.c_fp32 = flags & 8;
    if (flags & 16 && g.c_fp32)
      continue;
    arrays_init(&a, ARRAYS, size, 3);
    for (int i = 0; i < ARRAYS; i++)
      for (size_t j = 0; j < size[i]; j++)
        a.d[i][j] = a.f[i][j] = rintf(a.f[i][j] * 8) / 16;
    g.a = a.d[A];
    g.b = a.d[B];
    g.bias = flags & 16 ? a.d[BIAS] : NULL;
    g.c = a.d[C];
    gemm_on(d, &g, &a);
    gemm_reference(&g);
    const double error = array_error(a.d[C], a.f[C], a.size[C]);
    cr_expect(error < (g.c_fp32 ? 1e-6 : 3e-3), "flags %d: %g", flags, error);
    arrays_release(&a);
  }
  device_close(d);
  cr_expect_eq(fake_held(), 0);
}

/* What the device was asked since the last look. */
static void expect_calls(const char *wanted) {
  cr_expect_str_eq(fake_log(), wanted, "%s", fake_log());
  fake_reset();
}

static void run_on(struct device *d, const struct operator_call *call) {
  struct err err = {0};
  cr_expect_eq(device_run(d, call, &err), 0, "%s", err.msg);
}

#define LAUNCH(name) "cuModuleGetFunction cuLaunchKernel(" name ")"

Test(kernels_device, cuda_attention_by_choice) {
  static const int32_t cu_seqlens[2] = {0, 9};
  struct err err = {0};
  struct device *d;
  struct operator_call c = {.kind = OPERATOR_ATTENTION_FORWARD};
  c.attention = (struct attention_call){
      .batch = 1, .heads = 4, .kv_heads = 2, .head_dim = 128, .q_rows = 9, .kv_rows = 7, .max_q = 9, .max_kv = 7};
  c.attention.cu_seqlens_q = c.attention.cu_seqlens_k = cu_seqlens;
  load_fakes();
  setenv("DCPSIM_ATTENTION", "wgmma", 1);
  d = open_cuda();
  fake_reset();
  run_on(d, &c);
  expect_calls("cuModuleGetFunction cuFuncSetAttribute cuLaunchKernel(attention_forward_wgmma_128)");
  c.attention.head_dim = 16; /* there is none by wgmma */
  run_on(d, &c);
  expect_calls(LAUNCH("attention_forward_16"));
  device_close(d);
  setenv("DCPSIM_ATTENTION", "fast", 1);
  cr_expect_eq(device_open(&d, "cuda", 0, &err), -1);
  EXPECT_MESSAGE(err, "device cuda 0 (GPU): DCPSIM_ATTENTION is 'fast'; there are: mma (the default), wgmma");
  cr_expect(err.usage);
  cr_expect_eq(fake_held(), 0);
}

/* Kernels are not run here: which are issued, in which order, with which memory besides. */
Test(kernels_device, cuda_operators_issue_their_kernels) {
  float memory[64] = {0}; /* stands for any operand */
  static const int32_t cu_seqlens[70001];
  struct operator_call c = {.kind = OPERATOR_ATTENTION_FORWARD};
  load_fakes();
  struct device *d = open_cuda();
  fake_reset();
  c.attention = (struct attention_call){
      .batch = 1, .heads = 4, .kv_heads = 2, .head_dim = 128, .q_rows = 9, .kv_rows = 7, .max_q = 9, .max_kv = 7};
  c.attention.cu_seqlens_q = c.attention.cu_seqlens_k = cu_seqlens;
  run_on(d, &c);
  expect_calls("cuModuleGetFunction cuFuncSetAttribute cuLaunchKernel(attention_forward_128)");
  c.kind = OPERATOR_ATTENTION_BACKWARD;
  run_on(d, &c);
  expect_calls(LAUNCH("attention_delta") " cuModuleGetFunction cuFuncSetAttribute cuLaunchKernel("
                                         "attention_key_value_gradient_128) cuModuleGetFunction cuFuncSetAttribute "
                                         "cuLaunchKernel(attention_query_gradient_128)");
  struct err err = {0};
  c.attention.head_dim = 256;
  cr_expect_eq(device_run(d, &c, &err), -1);
  EXPECT_MESSAGE(err, "device cuda 0 (fake GPU 0): attention_backward full, batch 1, queries 9, keys 7, heads 4, "
                      "kv_heads 2, head_dim 256: no CUDA kernel takes this shape");
  c.attention.head_dim = 16;
  c.attention.batch = 70000; /* more than a grid has: two launches, delta of all tokens once */
  fake_reset();
  run_on(d, &c);
  expect_calls("cuLaunchKernel(attention_delta) " LAUNCH("attention_key_value_gradient_16") " " LAUNCH(
      "attention_query_gradient_16") " cuLaunchKernel(attention_key_value_gradient_16) "
                                     "cuLaunchKernel(attention_query_gradient_16)");

  c = (struct operator_call){.kind = OPERATOR_RMSNORM_FORWARD, .rmsnorm = {.rows = 5, .width = 16}};
  run_on(d, &c); /* without weight: the row of ones, made once */
  expect_calls("cuMemAlloc_v2 cuMemcpyAsync cuStreamSynchronize " LAUNCH("rmsnorm_forward"));
  c.kind = OPERATOR_RMSNORM_BACKWARD;
  run_on(d, &c);
  expect_calls("cuMemAlloc_v2 " LAUNCH("rmsnorm_backward"));
  c.rmsnorm.weight = memory;
  c.rmsnorm.dweight = memory; /* summed over the blocks' parts and what was there */
  run_on(d, &c);
  expect_calls("cuLaunchKernel(rmsnorm_backward) " LAUNCH("copy") " " LAUNCH("column_sum"));
  c = (struct operator_call){.kind = OPERATOR_LAYERNORM_BACKWARD, .layernorm = {.rows = 5, .width = 16}};
  c.layernorm.weight = c.layernorm.bias = memory;
  c.layernorm.dweight = c.layernorm.dbias = memory;
  run_on(d, &c); /* needs twice the scratch */
  expect_calls("cuMemFree_v2 cuMemAlloc_v2 " LAUNCH("layernorm_backward") " cuLaunchKernel(copy) cuLaunchKernel("
                                                                          "column_sum) cuLaunchKernel(copy) "
                                                                          "cuLaunchKernel(column_sum)");

  c = (struct operator_call){.kind = OPERATOR_ROPE, .rope = {3, 2, 16, 10000, false, 99, NULL, NULL}};
  run_on(d, &c);
  expect_calls("cuMemAlloc_v2 cuMemcpyAsync cuStreamSynchronize " LAUNCH("rope_by_8"));
  c.rope.max_position = 50; /* within the table */
  run_on(d, &c);
  expect_calls("cuLaunchKernel(rope_by_8)");
  c.rope.max_position = 100;
  run_on(d, &c);
  expect_calls("cuMemFree_v2 cuMemAlloc_v2 cuMemcpyAsync cuStreamSynchronize cuLaunchKernel(rope_by_8)");
  const float *table = ((struct cuda *)d)->rope.table; /* the fake's memory is the host's */
  cr_expect_float_eq(table[100 * 8 + 1], cos(100 * pow(10000, -2.0 / 16)), 1e-6);
  cr_expect_float_eq(table[(101 + 3) * 8 + 7], sin(3 * pow(10000, -14.0 / 16)), 1e-6);

  c = (struct operator_call){.kind = OPERATOR_EMBEDDING_FORWARD, .embedding = {.rows = 3, .width = 8}};
  c.embedding.position_table = memory;
  run_on(d, &c);
  expect_calls(LAUNCH("embedding_gather") " cuLaunchKernel(embedding_gather) " LAUNCH("residual_add"));
  c = (struct operator_call){.kind = OPERATOR_COPY, .copy = {{2, 3, 1}, 8, {24, 8, 0}, {24, 8, 0}, false, NULL, NULL}};
  run_on(d, &c);
  expect_calls("cuLaunchKernel(copy)");
  c.copy.src_stride[1] = 48;
  run_on(d, &c);
  expect_calls(LAUNCH("copy_strided_by_8"));
  c.copy.src = (const uint16_t *)memory + 1; /* not aligned, like a slice of something odd */
  run_on(d, &c);
  expect_calls(LAUNCH("copy_strided_by_1"));
  c.copy.src_stride[1] = 8;
  run_on(d, &c);
  expect_calls("cuLaunchKernel(copy_strided_by_1)");
  c.copy.src = NULL;
  c.copy.accumulate = true;
  run_on(d, &c);
  expect_calls("cuLaunchKernel(copy_strided_by_8)");

  c = (struct operator_call){
      .kind = OPERATOR_MODULATE_BACKWARD,
      .modulate = {.batch = 2, .rows = 5, .width = 16, .sample_stride = 96, .x = memory, .scale = memory}};
  c.modulate.dscale = c.modulate.dshift = memory;
  run_on(d, &c);
  expect_calls(LAUNCH("modulate_backward") " " LAUNCH("sample_sum") " cuLaunchKernel(sample_sum)");
  c = (struct operator_call){.kind = OPERATOR_SUM_SQUARES, .sum_squares = {5, memory, memory}};
  run_on(d, &c);
  expect_calls(LAUNCH("sum_squares") " " LAUNCH("sum_squares_total"));
  device_close(d);
  cr_expect_eq(fake_held(), 0);
}
