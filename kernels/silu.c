#include "kernels/silu.h"

#include <math.h>

#include "kernels/vector_exp.h"

void silu_forward_reference(const struct silu_call *call) {
  const double *x = call->x;
  double *y = call->y;
  for (int64_t i = 0; i < call->n; i++)
    y[i] = x[i] / (1 + exp(-x[i]));
}

void silu_backward_reference(const struct silu_call *call) {
  const double *x = call->x, *dy = call->dy;
  double *dx = call->dx;
  for (int64_t i = 0; i < call->n; i++) {
    const double sigmoid = 1 / (1 + exp(-x[i]));
    dx[i] = dy[i] * sigmoid * (1 + x[i] * (1 - sigmoid));
  }
}

void silu_forward_cpu(const struct silu_call *call) {
  const float *x = call->x;
  float *y = call->y;
#pragma omp simd
  for (int64_t i = 0; i < call->n; i++)
    y[i] = x[i] / (1 + vector_exp(-x[i]));
}

void silu_backward_cpu(const struct silu_call *call) {
  const float *x = call->x, *dy = call->dy;
  float *dx = call->dx;
#pragma omp simd
  for (int64_t i = 0; i < call->n; i++) {
    const float sigmoid = 1 / (1 + vector_exp(-x[i]));
    dx[i] = dy[i] * sigmoid * (1 + x[i] * (1 - sigmoid));
  }
}
