#include "kernels/gelu.h"

#include <math.h>

#include "kernels/vector_exp.h"

static const double ROOT = 0.79788456080286535588; /* sqrt(2 / pi) */
static const double CUBIC = 0.044715;

void gelu_forward_reference(const struct gelu_call *call) {
  const double *x = call->x;
  double *y = call->y;
  for (int64_t i = 0; i < call->n; i++)
    y[i] = x[i] / 2 * (1 + tanh(ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i])));
}

void gelu_backward_reference(const struct gelu_call *call) {
  const double *x = call->x, *dy = call->dy;
  double *dx = call->dx;
  for (int64_t i = 0; i < call->n; i++) {
    const double t = tanh(ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i]));
    const double slope = ROOT * (1 + 3 * CUBIC * x[i] * x[i]);
    dx[i] = dy[i] * ((1 + t) / 2 + x[i] / 2 * (1 - t * t) * slope);
  }
}

/* (1 + tanh u) / 2 = 1 / (1 + e^(-2 u)) */
static inline float half_plus(float x) {
  const float u = (float)ROOT * (x + (float)CUBIC * x * x * x);
  return 1 / (1 + vector_exp(-2 * u));
}

void gelu_forward_cpu(const struct gelu_call *call) {
  const float *x = call->x;
  float *y = call->y;
#pragma omp simd
  for (int64_t i = 0; i < call->n; i++)
    y[i] = x[i] * half_plus(x[i]);
}

void gelu_backward_cpu(const struct gelu_call *call) {
  const float *x = call->x, *dy = call->dy;
  float *dx = call->dx;
#pragma omp simd
  for (int64_t i = 0; i < call->n; i++) {
    const float s = half_plus(x[i]), slope = (float)ROOT * (1 + 3 * (float)CUBIC * x[i] * x[i]);
    dx[i] = dy[i] * (s + 2 * x[i] * s * (1 - s) * slope);
  }
}
