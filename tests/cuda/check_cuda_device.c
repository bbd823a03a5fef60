/* Every operator that the CUDA device has, against its double reference: the real host code, on whatever driver the
 * loader finds: by tests/cuda/device.sh, the one of tests/fake with the kernels on the CPU; by calib/on_device.sh, that
 * of a GPU. Argument: the device (default cuda). Exit 1 and a line per wrong array. */
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

/* The integers of a call (tokens, offsets), copied to the device; they stay there until the end. */
static const int32_t *send_integers(const int32_t *from, int64_t n) {
  struct err err = {0};
  void *to = NULL;
  must(device_resize(device, &to, (size_t)(n + 1) * sizeof *from, &err), &err);
  must(device_copy(device, to, from, (size_t)n * sizeof *from, &err), &err);
  return to;
}

static void place_integers(struct operator_call *c) {
  switch (c->kind) {
  case OPERATOR_ROPE:
    c->rope.positions = send_integers(positions, c->rope.rows);
    return;
  case OPERATOR_MODULATE_FORWARD:
  case OPERATOR_MODULATE_BACKWARD:
    c->modulate.cu_rows = send_integers(cu_rows, BATCH + 1);
    return;
  case OPERATOR_GATE_FORWARD:
  case OPERATOR_GATE_BACKWARD:
    c->gate.cu_rows = send_integers(cu_rows, BATCH + 1);
    return;
  case OPERATOR_CROSS_ENTROPY_FORWARD:
  case OPERATOR_CROSS_ENTROPY_BACKWARD:
    c->cross_entropy.targets = send_integers(targets, c->cross_entropy.rows);
    return;
  case OPERATOR_EMBEDDING_FORWARD:
  case OPERATOR_EMBEDDING_BACKWARD:
    c->embedding.tokens = send_integers(tokens, c->embedding.rows);
    if (c->embedding.positions)
      c->embedding.positions = send_integers(positions, c->embedding.rows);
    return;
  default:
    return;
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
    place_integers(&call);
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
        call.attention.cu_seqlens_q = send_integers(cu_q, 5);
        call.attention.cu_seqlens_k = send_integers(cu_k, 5);
        must(device_run(device, &call, &err), &err);
        from_device(&a, "eeeefeeeef", p);
      }
    }
  arrays_release(&a);
}

int main(int argc, char **argv) {
  static const int64_t rows[] = {1, 17, 130}, widths[] = {64, 72, 128};
  struct err err = {0};
  must(device_open(&device, argc > 1 ? argv[1] : "cuda", 0, &err), &err);
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
