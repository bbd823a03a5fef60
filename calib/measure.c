#include "calib/measure.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"

enum { COPIES_MAX = 16, ALIGNMENT = 256, RANDOM_VALUES = 1 << 14 };
#define REPETITION_S 1e-3 /* calls are repeated up to this between two looks at the clock, as far as copies go */

int measure_init(struct measure *m, struct device *device, const struct measure_options *options, struct err *err) {
  *m = (struct measure){.device = device, .options = *options};
  if (!m->options.run)
    m->options.run = device_run;
  if (device_resize(device, &m->flush, options->cache_bytes, err))
    return err_prefix(err, "the array that overwrites the cache");
  rng_init(&m->rng, options->seed, "calibrate run");
  return 0;
}

void measure_release(struct measure *m) {
  if (!m->device)
    return;
  device_resize(m->device, &m->arena, 0, NULL);
  device_resize(m->device, &m->flush, 0, NULL);
  if (m->rng.gsl)
    rng_release(&m->rng);
}

static bool is_element(enum array_kind kind) { return kind == ARRAY_IN || kind == ARRAY_OUT || kind == ARRAY_ADD; }
static bool is_read(enum array_kind kind) {
  return kind == ARRAY_IN || kind == ARRAY_ADD || kind == ARRAY_IN_FP32 || kind == ARRAY_ADD_FP32;
}
static bool is_result(enum array_kind kind) {
  return kind == ARRAY_OUT || kind == ARRAY_ADD || kind == ARRAY_OUT_FP32 || kind == ARRAY_ADD_FP32;
}

/* Elements in [-1, 1); fp32 statistics and states above 0. */
static float draw(struct measure *m, enum array_kind kind) {
  const float u = (float)rng_uniform(&m->rng);
  return is_element(kind) ? 2 * u - 1 : 0.5f + u;
}

static int64_t element_size(const struct measure *m) { return (int64_t)element_bytes(m->device->kind->element); }

/* Room for all arrays of a shape, several times over. */
static int reserve(struct measure *m, const struct measured_op *op, const int64_t *shape, int64_t bytes,
                   struct err *err) {
  char what[160];
  if (device_resize(m->device, &m->arena, (size_t)bytes, err) == 0)
    return 0;
  return err_prefix(err, "%s", row_describe(op->op, shape, what, sizeof what));
}

/* Pointers of the arrays of copy `copy` in the arena. */
static void place(const struct measure *m, const struct array *arrays, int n, int64_t copy_bytes, int copy, void *p[]) {
  char *at = (char *)m->arena + copy * copy_bytes;
  for (int i = 0; i < n; i++) {
    p[i] = at;
    at += ceil_div(arrays[i].n * array_value_bytes(arrays[i].kind, element_size(m)), ALIGNMENT) * ALIGNMENT;
  }
}

static int upload(struct measure *m, enum array_kind kind, void *to, const float *from, int64_t n, struct err *err) {
  return is_element(kind) ? device_upload(m->device, to, from, (size_t)n, err)
                          : device_copy(m->device, to, from, (size_t)n * sizeof *from, err);
}

static int download(struct measure *m, enum array_kind kind, float *to, const void *from, int64_t n, struct err *err) {
  return is_element(kind) ? device_download(m->device, to, from, (size_t)n, err)
                          : device_copy(m->device, to, from, (size_t)n * sizeof *to, err);
}

static int upload_integers(struct measure *m, const struct measured_op *op, const int64_t *shape, void *to, int64_t n,
                           struct err *err) {
  int32_t *v = xcalloc((size_t)n, sizeof *v);
  op->integers(shape, v);
  int rc = device_copy(m->device, to, v, (size_t)n * sizeof *v, err);
  free(v);
  return rc;
}

/* ---- Check ---- */

/* The same arrays three times: on the device, as floats on the way, as doubles of the reference. */
struct trial {
  const struct measured_op *op;
  int64_t shape[ROW_SHAPE_MAX];
  struct array arrays[MEASURED_ARRAYS_MAX];
  int n;
  void *on_device[MEASURED_ARRAYS_MAX], *exact[MEASURED_ARRAYS_MAX];
  float *host[MEASURED_ARRAYS_MAX];
};

/* Makes the device's array that of the host, and the reference's what the device then holds, rounded as it is. */
static int give(struct measure *m, struct trial *t, int i, struct err *err) {
  const struct array *a = &t->arrays[i];
  if (upload(m, a->kind, t->on_device[i], t->host[i], a->n, err) ||
      download(m, a->kind, t->host[i], t->on_device[i], a->n, err))
    return -1;
  for (int64_t j = 0; j < a->n; j++)
    ((double *)t->exact[i])[j] = (double)t->host[i][j];
  return 0;
}

static int fill_trial(struct measure *m, struct trial *t, struct err *err) {
  for (int i = 0; i < t->n; i++) {
    const struct array *a = &t->arrays[i];
    if (a->kind == ARRAY_INT32) {
      t->op->integers(t->shape, t->exact[i]);
      if (upload_integers(m, t->op, t->shape, t->on_device[i], a->n, err))
        return -1;
      continue;
    }
    for (int64_t j = 0; j < a->n; j++)
      t->host[i][j] = is_read(a->kind) ? draw(m, a->kind) : NAN;
    if (give(m, t, i, err))
      return -1;
  }
  return 0;
}

/* What the forward makes for the backward: of the reference, so that only one operator is on trial. */
static int make_before(struct measure *m, struct trial *t, struct err *err) {
  struct operator_call call = {0};
  t->op->bind(t->shape, t->exact, &call);
  call.kind = t->op->before;
  operator_run_reference(&call);
  for (int i = 0; i < t->n; i++) {
    if (!(t->op->made >> i & 1))
      continue;
    for (int64_t j = 0; j < t->arrays[i].n; j++)
      t->host[i][j] = (float)((double *)t->exact[i])[j];
    if (give(m, t, i, err))
      return -1;
  }
  return 0;
}

static double array_error(const struct trial *t, int i) {
  const double *exact = t->exact[i];
  double largest = 1e-30, worst = 0;
  for (int64_t j = 0; j < t->arrays[i].n; j++) {
    const double error = fabs((double)t->host[i][j] - exact[j]);
    if (!(error <= 1e30)) /* NaN: never written */
      return INFINITY;
    worst = fmax(worst, error);
    largest = fmax(largest, fabs(exact[j]));
  }
  return worst / largest;
}

static int run_trial(struct measure *m, struct trial *t, double *error_frac, struct err *err) {
  struct operator_call call = {0};
  if (fill_trial(m, t, err) || (t->op->made && make_before(m, t, err)))
    return -1;
  t->op->bind(t->shape, t->on_device, &call);
  if (m->options.run(m->device, &call, err) || device_wait(m->device, NULL, err))
    return -1;
  memset(&call, 0, sizeof call);
  t->op->bind(t->shape, t->exact, &call);
  operator_run_reference(&call);
  *error_frac = 0;
  for (int i = 0; i < t->n; i++) {
    if (!is_result(t->arrays[i].kind) || t->op->made >> i & 1)
      continue;
    if (download(m, t->arrays[i].kind, t->host[i], t->on_device[i], t->arrays[i].n, err))
      return -1;
    *error_frac = fmax(*error_frac, array_error(t, i));
  }
  return 0;
}

int measure_check(struct measure *m, const struct measured_op *op, const int64_t *shape, double *error_frac,
                  struct err *err) {
  struct trial t = {.op = op};
  op->small(shape, t.shape);
  t.n = op->arrays(t.shape, t.arrays);
  const int64_t bytes = measured_op_bytes(op, t.shape, element_size(m));
  if (reserve(m, op, t.shape, bytes, err))
    return -1;
  place(m, t.arrays, t.n, bytes, 0, t.on_device);
  for (int i = 0; i < t.n; i++) {
    t.host[i] = xcalloc((size_t)t.arrays[i].n, sizeof(float));
    t.exact[i] = xcalloc((size_t)t.arrays[i].n, sizeof(double));
  }
  int rc = run_trial(m, &t, error_frac, err);
  for (int i = 0; i < t.n; i++) {
    free(t.host[i]);
    free(t.exact[i]);
  }
  return rc;
}

/* bf16 keeps 8 bits, and products are rounded to it on the way (probabilities of attention). */
double measure_tolerance(const struct device *device) { return device->kind->element == ELEMENT_BF16 ? 2e-2 : 1e-4; }

/* ---- Time ---- */

/* `n` random values, by doubling on the device what was sent there once. */
static int fill_array(struct measure *m, const struct measured_op *op, const int64_t *shape, const struct array *a,
                      char *to, struct err *err) {
  if (a->kind == ARRAY_INT32)
    return upload_integers(m, op, shape, to, a->n, err);
  const int64_t first = int64_min(a->n, RANDOM_VALUES), value = array_value_bytes(a->kind, element_size(m));
  float *host = xcalloc((size_t)first, sizeof *host);
  for (int64_t j = 0; j < first; j++)
    host[j] = draw(m, a->kind);
  int rc = upload(m, a->kind, to, host, first, err);
  for (int64_t done = first; rc == 0 && done < a->n; done *= 2)
    rc = device_copy(m->device, to + done * value, to, (size_t)(int64_min(done, a->n - done) * value), err);
  free(host);
  return rc;
}

struct turn { /* copies of the arrays, and the calls on them */
  struct operator_call calls[COPIES_MAX];
  int n;
  bool overflows; /* the copies alone overflow the cache: no other flush is needed */
};

static int prepare(struct measure *m, const struct measured_op *op, const int64_t *shape, struct turn *turn,
                   struct err *err) {
  struct array arrays[MEASURED_ARRAYS_MAX];
  void *p[MEASURED_ARRAYS_MAX], *first[MEASURED_ARRAYS_MAX];
  const int n = op->arrays(shape, arrays);
  const int64_t bytes = measured_op_bytes(op, shape, element_size(m)), cache = (int64_t)m->options.cache_bytes;
  turn->n = cache == 0 ? 1 : (int)int64_min(COPIES_MAX, 1 + ceil_div(2 * cache, bytes));
  turn->overflows = bytes * (turn->n - 1) >= 2 * cache;
  if (reserve(m, op, shape, bytes * turn->n, err))
    return -1;
  for (int c = 0; c < turn->n; c++) {
    place(m, arrays, n, bytes, c, p);
    if (c == 0)
      memcpy(first, p, sizeof p);
    for (int i = 0; i < n && c == 0; i++)
      if (fill_array(m, op, shape, &arrays[i], p[i], err))
        return -1;
    if (c > 0 && device_copy(m->device, p[0], first[0], (size_t)bytes, err))
      return -1;
    memset(&turn->calls[c], 0, sizeof turn->calls[c]);
    op->bind(shape, p, &turn->calls[c]);
  }
  return 0;
}

static int time_calls(struct measure *m, const struct turn *turn, int from, int count, double *time_s,
                      struct err *err) {
  if (device_mark(m->device, err))
    return -1;
  for (int i = 0; i < count; i++)
    if (m->options.run(m->device, &turn->calls[(from + i) % turn->n], err))
      return -1;
  if (device_wait(m->device, time_s, err))
    return -1;
  *time_s /= count;
  return 0;
}

/* Overwrites the cache. A GPU is always given that to do: it falls behind this process, and what it costs to issue the
 * calls, which a training step hides, is not in the time. */
static int flush(struct measure *m, const struct turn *turn, struct err *err) {
  const bool needed = m->options.cache_bytes > 0 && (!turn->overflows || m->device->stream);
  const struct operator_call clear = {.kind = OPERATOR_CLEAR,
                                      .clear = {(int64_t)(m->options.cache_bytes / sizeof(float)), m->flush}};
  return needed ? device_run(m->device, &clear, err) : 0;
}

int measure_time(struct measure *m, const struct measured_op *op, const int64_t *shape, struct repeats *out,
                 struct err *err) {
  struct turn turn;
  double time_s = 0;
  out->n = 0;
  out->spent_s = 0;
  if (prepare(m, op, shape, &turn, err))
    return -1;
  for (int warm = 0; warm < 2; warm++)
    if (time_calls(m, &turn, warm, 1, &time_s, err))
      return -1;
  const int calls = (int)fmin(turn.n, fmax(1, ceil(REPETITION_S / fmax(time_s, 1e-9))));
  int next = 0;
  while (!repeats_enough(out, m->options.confidence_frac, m->options.shape_limit_s)) {
    if (m->options.stop && atomic_load(m->options.stop) && out->n > 0)
      break;
    const int64_t begin_ns = wall_clock_ns();
    if (flush(m, &turn, err))
      return -1;
    const long before = repeats_interruptions();
    if (time_calls(m, &turn, next, calls, &time_s, err))
      return -1;
    next = (next + calls) % turn.n;
    repeats_add(out, fmax(time_s, 1e-9), s_from_ns(wall_clock_ns() - begin_ns), repeats_interruptions() != before);
  }
  return 0;
}
