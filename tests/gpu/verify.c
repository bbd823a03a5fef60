/* verify [large]: every operator on the CUDA device against its double reference, one line an operator, before a GPU's
 * numbers are believed. Exit 0: all are right; 1: some are not; 77: skipped, there is no GPU or no kernels.
 *
 * Each call starts from fresh random numbers that bf16 holds; arrays that the operator only writes start as NaN, what
 * it has no business with must be as before. Limits, for each number relative to itself or to the array's root mean
 * square, whichever is larger: elements 1e-2: rounding to bf16 is 2^-8 = 3.9e-3 at most; elements of attention 5e-2:
 * probabilities are rounded to bf16 too, and its gradients are sums of many; fp32 1e-3: sums in fp32 of numbers that
 * were not rounded; attention's lse likewise.
 *
 * "large" adds shapes that fill a GPU. tests/cuda/device.sh runs this on the driver of tests/fake, which runs the
 * kernels on the CPU. */
#include <stdio.h>

#include "kernels/cuda_driver.h"
#include "kernels/device.h"
#include "kernels/fatbin.h"
#include "tests/unit/test_kernels_attention.h"
#include "tests/unit/test_kernels_cases.h"

enum { SKIPPED = 77 };

#ifndef DCPSIM_HAVE_FATBIN
/* Stands for the kernels where no nvcc compiled them: enough for the driver of tests/fake, which has its own. */
extern const unsigned char dcpsim_fatbin[];
extern const uint64_t dcpsim_fatbin_size;
const unsigned char dcpsim_fatbin[] = {0};
const uint64_t dcpsim_fatbin_size = sizeof dcpsim_fatbin;
static const bool have_kernels = false;
#else
static const bool have_kernels = true;
#endif

static const double LIMIT_ELEMENTS = 1e-2, LIMIT_ATTENTION = 5e-2, LIMIT_FP32 = 1e-3;

/* What was found, by operator. */
static struct {
  int calls, wrong;
  double elements, fp32; /* largest errors */
} found[OPERATOR_KINDS];

static struct device *device;

static void must(int rc, const struct err *err) {
  if (rc == 0)
    return;
  fprintf(stderr, "%s\n", err->msg);
  exit(1);
}

static void open_device(void) {
  struct err err = {0};
  must(device_open(&device, "cuda", 0, &err), &err);
}

static float round_to_bf16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  memcpy(&x, &bits, sizeof bits);
  return x;
}

/* Both sides start from the same numbers, those of the reference. */
static void same_start(struct arrays *a, const char *formats) {
  for (int i = 0; i < a->n; i++)
    for (size_t j = 0; j < a->size[i]; j++)
      a->d[i][j] = a->f[i][j] = formats[i] == 'e' ? round_to_bf16((float)a->d[i][j]) : (float)a->d[i][j];
}

static void upload(const struct arrays *a, const char *formats, void *p[]) {
  struct err err = {0};
  for (int i = 0; i < a->n; i++) {
    p[i] = NULL;
    must(device_resize(device, &p[i], (a->size[i] + 4) * sizeof(float), &err), &err);
    must(formats[i] == 'e' ? device_upload(device, p[i], a->f[i], a->size[i], &err)
                           : device_copy(device, p[i], a->f[i], a->size[i] * sizeof(float), &err),
         &err);
  }
}

static void *upload_integers(const int32_t *host, size_t n) {
  struct err err = {0};
  void *p = NULL;
  must(device_resize(device, &p, n * sizeof *host, &err), &err);
  must(device_copy(device, p, host, n * sizeof *host, &err), &err);
  return p;
}

static void release(void *p[], int n) {
  struct err err = {0};
  for (int i = 0; i < n; i++)
    must(device_resize(device, &p[i], 0, &err), &err);
}

static void download(struct arrays *a, const char *formats, void *p[]) {
  struct err err = {0};
  for (int i = 0; i < a->n; i++)
    must(formats[i] == 'e' ? device_download(device, a->f[i], p[i], a->size[i], &err)
                           : device_copy(device, a->f[i], p[i], a->size[i] * sizeof(float), &err),
         &err);
}

static int report(const char *where);

/* Runs the call on the device. A failure is that operator's; the device is opened anew for the next. A device that does
 * not open again, as a kernel's fault may leave it, ends it all: with what was found so far. */
static bool run(const struct operator_call *call) {
  struct err err = {0}, open_err = {0};
  found[call->kind].calls++;
  if (device_run(device, call, &err) == 0 && device_wait(device, NULL, &err) == 0)
    return true;
  printf("%s\n", err.msg);
  found[call->kind].wrong++;
  device_close(device);
  if (device_open(&device, "cuda", 0, &open_err) == 0)
    return false;
  printf("%s\n", open_err.msg);
  exit(report("device cuda 0, which is lost"));
}

/* The largest error of a number, relative to itself or to the array's root mean square; infinities must agree. */
static double worst_error(const double *d, const float *f, size_t n) {
  double squares = 0, worst = 0;
  for (size_t i = 0; i < n; i++)
    squares += isfinite(d[i]) ? d[i] * d[i] : 0;
  const double rms = n > 0 ? sqrt(squares / (double)n) : 0;
  for (size_t i = 0; i < n; i++) {
    const double difference = isinf(d[i]) && (double)f[i] == d[i] ? 0 : fabs((double)f[i] - d[i]);
    const double error = difference == 0 ? 0 : difference / fmax(fabs(d[i]), rms);
    if (!(error <= worst))
      worst = isnan(error) ? INFINITY : error;
  }
  return worst;
}

static void compare(const struct arrays *a, const char *formats, const struct operator_call *call, int skipped) {
  const bool attention = call->kind == OPERATOR_ATTENTION_FORWARD || call->kind == OPERATOR_ATTENTION_BACKWARD;
  for (int i = 0; i < a->n; i++) {
    const bool elements = formats[i] == 'e';
    const double error = i == skipped ? 0 : worst_error(a->d[i], a->f[i], a->size[i]);
    const double limit = !elements ? LIMIT_FP32 : attention ? LIMIT_ATTENTION : LIMIT_ELEMENTS;
    double *largest = elements ? &found[call->kind].elements : &found[call->kind].fp32;
    char what[256];
    *largest = fmax(*largest, error);
    if (error <= limit)
      continue;
    found[call->kind].wrong++;
    printf("%s: array %d is off by %.2g, limit %g\n", operator_describe(call, what, sizeof what), i, error, limit);
  }
}

/* ---- Operators by cases.h ------------------------------------------------------------------------------------------
 */

/* Whether the reference only writes array i: nothing that was NaN in it is left, and nothing else becomes NaN. The same
 * for all shapes, so it is tried on a small one: a reference takes long on a large one. */
static bool only_written(const struct operator_case *k, const struct arrays *a, bool backward, int64_t rows,
                         int64_t width, int i) {
  struct operator_call call;
  size_t size[MAX_ARRAYS];
  void *p[MAX_ARRAYS];
  bool nan = false;
  for (int j = 0; j < a->n; j++) {
    double *copy = xmalloc((a->size[j] + 1) * sizeof *copy);
    for (size_t l = 0; l < a->size[j]; l++)
      copy[l] = i == j ? NAN : a->d[j][l];
    p[j] = copy;
  }
  k->make(&call, backward, rows, width, size, p);
  operator_run_reference(&call);
  for (int j = 0; j < a->n; j++) {
    for (size_t l = 0; l < a->size[j]; l++)
      nan = nan || isnan(((const double *)p[j])[l]);
    free(p[j]);
  }
  return !nan;
}

/* Numbers that both sides start from: those of the case, and what the forward makes of them for a backward. */
static void start_of(struct arrays *a, const struct operator_case *k, bool backward, int64_t rows, int64_t width,
                     uint64_t seed) {
  struct operator_call call;
  size_t size[MAX_ARRAYS];
  void *p[MAX_ARRAYS];
  arrays_of(a, k, rows, width, seed);
  same_start(a, k->formats);
  if (!backward)
    return;
  arrays_pointers(a, true, p);
  k->make(&call, false, rows, width, size, p);
  operator_run_reference(&call);
  same_start(a, k->formats);
}

/* The arrays that are only written, bit by bit. */
static unsigned written_arrays(const struct operator_case *k, bool backward) {
  enum { ROWS = 17, WIDTH = 64 };
  struct arrays a;
  unsigned written = 0;
  start_of(&a, k, backward, ROWS, WIDTH, 0);
  for (int i = 0; i < a.n; i++)
    if (a.size[i] > 0 && only_written(k, &a, backward, ROWS, WIDTH, i))
      written |= 1u << i;
  arrays_release(&a);
  return written;
}

static void verify_case(const struct operator_case *k, bool backward, unsigned written, int64_t rows, int64_t width,
                        uint64_t seed) {
  struct arrays a;
  struct operator_call call;
  size_t size[MAX_ARRAYS];
  void *p[MAX_ARRAYS], *integers[4];
  start_of(&a, k, backward, rows, width, seed);
  for (int i = 0; i < a.n; i++)
    for (size_t j = 0; j < a.size[i] && (written >> i & 1); j++)
      a.f[i][j] = NAN;
  upload(&a, k->formats, p);
  cu_rows = integers[0] = upload_integers(host_cu_rows, BATCH + 1);
  tokens = integers[1] = upload_integers(host_tokens, (size_t)rows);
  positions = integers[2] = upload_integers(host_positions, (size_t)rows);
  targets = integers[3] = upload_integers(host_targets, (size_t)rows);
  k->make(&call, backward, rows, width, size, p);
  const bool ran = run(&call);
  cu_rows = host_cu_rows;
  tokens = host_tokens;
  positions = host_positions;
  targets = host_targets;
  if (ran) {
    download(&a, k->formats, p);
    release(p, a.n);
    release(integers, 4);
    arrays_pointers(&a, true, p);
    k->make(&call, backward, rows, width, size, p);
    operator_run_reference(&call);
    compare(&a, k->formats, &call, -1);
  }
  arrays_release(&a);
}

/* ---- Attention -----------------------------------------------------------------------------------------------------
 */

static const char attention_formats[] = "eeeefeeeef";

static void verify_attention(const struct batch *b, struct heads h, bool causal) {
  struct arrays a;
  attention_arrays(&a, b, h, 2);
  same_start(&a, attention_formats);
  for (int backward = 0; backward < 2; backward++) {
    const int first = backward ? DQ : OUT, last = backward ? DELTA : LSE;
    struct operator_call call = {.kind = backward ? OPERATOR_ATTENTION_BACKWARD : OPERATOR_ATTENTION_FORWARD};
    void *p[MAX_ARRAYS], *cu[2];
    for (int i = first; i <= last; i++)
      for (size_t j = 0; j < a.size[i]; j++)
        a.f[i][j] = NAN;
    upload(&a, attention_formats, p);
    cu[0] = upload_integers(b->q, (size_t)b->n + 1);
    cu[1] = upload_integers(b->k, (size_t)b->n + 1);
    call.attention = attention_call_of(p, b, h, causal);
    call.attention.cu_seqlens_q = cu[0];
    call.attention.cu_seqlens_k = cu[1];
    if (!run(&call))
      break;
    download(&a, attention_formats, p);
    release(p, a.n);
    release(cu, 2);
    arrays_pointers(&a, true, p);
    call.attention = attention_call_of(p, b, h, causal);
    operator_run_reference(&call);
    compare(&a, attention_formats, &call, backward ? DELTA : -1); /* scratch, which the reference has none of */
    same_start(&a, attention_formats);
  }
  arrays_release(&a);
}

static void verify_attentions(bool large) {
  static const struct heads heads[] = {{2, 1, 16}, {2, 1, 32}, {2, 2, 64}, {4, 1, 72},
                                       {2, 1, 80}, {2, 2, 96}, {4, 2, 128}};
  const struct batch ragged = batch_of(4, (int32_t[]){17, 0, 83, 1}, (int32_t[]){17, 3, 70, 0});
  const struct batch two = batch_of(2, (int32_t[]){300, 530}, NULL);
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
    for (int causal = 0; causal < 2; causal++) {
      verify_attention(&ragged, heads[i], causal);
      if (large)
        verify_attention(&two, heads[i], causal);
    }
}

static int report(const char *where) {
  int wrong = 0;
  for (int i = 0; i < OPERATOR_KINDS; i++) {
    const bool right = found[i].calls > 0 && found[i].wrong == 0;
    printf("%-24s %3d calls, largest error %7.1e of elements, %7.1e of fp32: %s\n",
           operator_name((enum operator_kind)i), found[i].calls, found[i].elements, found[i].fp32,
           right            ? "right"
           : found[i].calls ? "WRONG"
                            : "NOT RUN");
    wrong += !right;
  }
  printf("%s: %d operators, %d wrong; limits: elements %g, of attention %g, fp32 %g\n", where, OPERATOR_KINDS, wrong,
         LIMIT_ELEMENTS, LIMIT_ATTENTION, LIMIT_FP32);
  return wrong > 0;
}

int main(int argc, char **argv) {
  static const int64_t rows[] = {1, 17, 130, 1000}, widths[] = {64, 72, 128, 1152};
  const bool large = argc > 1 && strcmp(argv[1], "large") == 0;
  struct err err = {0};
  if (argc > (large ? 2 : 1)) {
    fprintf(stderr, "usage: verify [large]\n");
    return 2;
  }
  if (!have_kernels && !getenv("FAKE_CUDA_KERNELS")) {
    printf("skipped: built without CUDA kernels (no nvcc)\n");
    return SKIPPED;
  }
  if (!cuda_driver_load(&err)) {
    printf("skipped: %s\n", err.msg);
    return SKIPPED;
  }
  setvbuf(stdout, NULL, _IOLBF, 0); /* what was found so far is there if time runs out */
  open_device();
  uint64_t seed = 0;
  for (int k = 0; k < CASES; k++) {
    const unsigned written[2] = {written_arrays(&cases[k], false), written_arrays(&cases[k], true)};
    for (int i = 0; i < 3 + large; i++)
      for (int j = 0; j < 3 + large; j++)
        for (int backward = 0; backward < 2; backward++)
          verify_case(&cases[k], backward, written[backward], rows[i], widths[j], ++seed);
  }
  verify_attentions(large);
  const int rc = report(device->name);
  device_close(device);
  return rc;
}
