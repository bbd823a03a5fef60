/* Every operator that the CUDA device has, against its double reference: the real host code, on whatever driver the
 * loader finds: by tests/cuda/device.sh, the one of tests/fake with the kernels on the CPU. Exit 1 and a line per wrong
 * array. Integers (tokens, offsets) are given where they are: memory of that driver is the host's. */
#include <stdio.h>

#include "kernels/device.h"
#include "tests/unit/test_kernels_cases.h"

/* Stands for the kernels' machine code, so that no toolkit is needed. */
const unsigned char dcpsim_fatbin[] = {0};
const uint64_t dcpsim_fatbin_size = sizeof dcpsim_fatbin;

static int wrong, checked, missing;
static struct device *device;

static void must(int rc, const struct err *err) {
  if (rc == 0)
    return;
  fprintf(stderr, "%s\n", err->msg);
  exit(1);
}

/* Both sides start from numbers that bf16 holds. */
static void round_arrays(struct arrays *a, const char *formats) {
  for (int i = 0; i < a->n; i++)
    for (size_t j = 0; formats[i] == 'e' && j < a->size[i]; j++) {
      uint32_t bits;
      memcpy(&bits, &a->f[i][j], sizeof bits);
      bits &= 0xffff0000;
      memcpy(&a->f[i][j], &bits, sizeof bits);
      a->d[i][j] = a->f[i][j];
    }
}

static void to_device(const struct arrays *a, const char *formats, void *p[]) {
  struct err err = {0};
  for (int i = 0; i < a->n; i++) {
    p[i] = NULL;
    must(device_resize(device, &p[i], (a->size[i] + 4) * sizeof(float), &err), &err);
    must(formats[i] == 'e' ? device_upload(device, p[i], a->f[i], a->size[i], &err)
                           : device_copy(device, p[i], a->f[i], a->size[i] * sizeof(float), &err),
         &err);
  }
}

static void from_device(struct arrays *a, const char *formats, void *p[]) {
  struct err err = {0};
  for (int i = 0; i < a->n; i++) {
    must(formats[i] == 'e' ? device_download(device, a->f[i], p[i], a->size[i], &err)
                           : device_copy(device, a->f[i], p[i], a->size[i] * sizeof(float), &err),
         &err);
    must(device_resize(device, &p[i], 0, &err), &err);
  }
}

static void expect_same(const struct arrays *a, const char *what, int64_t rows, int64_t width) {
  for (int i = 0; i < a->n; i++) {
    const double error = array_error(a->d[i], a->f[i], a->size[i]);
    checked++;
    if (error < 1e-2)
      continue;
    wrong++;
    printf("%s, rows %d, width %d, array %d: %g\n", what, (int)rows, (int)width, i, error);
  }
}

static bool no_kernel_yet(const struct err *err) { return strstr(err->msg, "there is no CUDA kernel yet") != NULL; }

static void check(const struct operator_case *k, int64_t rows, int64_t width) {
  struct arrays a;
  size_t size[MAX_ARRAYS];
  arrays_of(&a, k, rows, width, 1);
  round_arrays(&a, k->formats);
  for (int backward = 0; backward < 2; backward++) {
    struct operator_call call;
    struct err err = {0};
    void *p[MAX_ARRAYS];
    to_device(&a, k->formats, p);
    k->make(&call, backward, rows, width, size, p);
    const int rc = device_run(device, &call, &err);
    if (rc && !no_kernel_yet(&err))
      must(rc, &err);
    missing += rc != 0;
    from_device(&a, k->formats, p);
    if (rc)
      continue;
    arrays_pointers(&a, true, p);
    k->make(&call, backward, rows, width, size, p);
    operator_run_reference(&call);
    expect_same(&a, k->name, rows, width);
  }
  arrays_release(&a);
}

enum { Q, K, V, OUT, LSE, DOUT, DQ, DK, DV, DELTA, ARRAYS };

static void check_attention(int heads, int kv_heads, int head_dim, bool causal) {
  static const int32_t cu_q[] = {0, 17, 17, 100, 101}, cu_k[] = {0, 17, 20, 90, 90};
  const size_t q = (size_t)(101 * heads * head_dim), kv = (size_t)(90 * kv_heads * head_dim),
               rows = (size_t)(101 * heads);
  const size_t size[ARRAYS] = {q, kv, kv, q, rows, q, q, kv, kv, rows};
  struct arrays a;
  arrays_init(&a, ARRAYS, size, 2);
  round_arrays(&a, "eeeefeeeef");
  for (int backward = 0; backward < 2; backward++)
    for (int reference = 0; reference < 2; reference++) {
      struct err err = {0};
      void *p[MAX_ARRAYS];
      if (reference)
        arrays_pointers(&a, true, p);
      else
        to_device(&a, "eeeefeeeef", p);
      struct operator_call call = {.kind = backward ? OPERATOR_ATTENTION_BACKWARD : OPERATOR_ATTENTION_FORWARD};
      call.attention = (struct attention_call){
          4,     heads,   kv_heads, head_dim, 101,  90,     83,     70,      causal, 1 / sqrtf((float)head_dim),
          cu_q,  cu_k,    p[Q],     p[K],     p[V], p[OUT], p[LSE], p[DOUT], p[DQ],  p[DK],
          p[DV], p[DELTA]};
      if (reference) {
        operator_run_reference(&call);
        for (size_t i = 0; backward && i < a.size[DELTA]; i++)
          a.d[DELTA][i] = a.f[DELTA][i]; /* scratch: the reference has none */
        expect_same(&a, operator_name(call.kind), 101, head_dim);
      } else {
        must(device_run(device, &call, &err), &err);
        from_device(&a, "eeeefeeeef", p);
      }
    }
  arrays_release(&a);
}

int main(void) {
  static const int64_t rows[] = {1, 17, 130}, widths[] = {64, 72, 128};
  struct err err = {0};
  must(device_open(&device, "cuda", 0, &err), &err);
  for (int k = 0; k < CASES; k++)
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++)
        check(&cases[k], rows[i], widths[j]);
  for (int causal = 0; causal < 2; causal++) {
    check_attention(2, 2, 64, causal);
    check_attention(4, 1, 72, causal);
    check_attention(2, 1, 80, causal);
    check_attention(4, 2, 128, causal);
  }
  printf("%s: %d arrays checked, %d wrong, %d calls without a kernel\n", device->name, checked, wrong, missing);
  device_close(device);
  return wrong > 0;
}
