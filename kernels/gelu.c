#include "kernels/gelu.h"

#include <math.h>

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

void gelu_forward_cpu(const struct gelu_call *call) {
  const float *x = call->x;
  float *y = call->y;
  for (int64_t i = 0; i < call->n; i++)
    y[i] = x[i] / 2 * (1 + tanhf((float)ROOT * (x[i] + (float)CUBIC * x[i] * x[i] * x[i])));
}

void gelu_backward_cpu(const struct gelu_call *call) {
  const float *x = call->x, *dy = call->dy;
  float *dx = call->dx;
  for (int64_t i = 0; i < call->n; i++) {
    const float t = tanhf((float)ROOT * (x[i] + (float)CUBIC * x[i] * x[i] * x[i]));
    const float slope = (float)ROOT * (1 + 3 * (float)CUBIC * x[i] * x[i]);
    dx[i] = dy[i] * ((1 + t) / 2 + x[i] / 2 * (1 - t * t) * slope);
  }
}
