#include "kernels/swiglu.h"

#include <math.h>

#include "kernels/vector_exp.h"

void swiglu_forward_reference(const struct swiglu_call *call) {
  for (int64_t i = 0; i < call->rows; i++) {
    const double *g = (const double *)call->x + 2 * i * call->width, *u = g + call->width;
    double *y = (double *)call->y + i * call->width;
    for (int64_t j = 0; j < call->width; j++)
      y[j] = g[j] / (1 + exp(-g[j])) * u[j];
  }
}

void swiglu_backward_reference(const struct swiglu_call *call) {
  for (int64_t i = 0; i < call->rows; i++) {
    const double *x = (const double *)call->x + 2 * i * call->width, *dy = (const double *)call->dy + i * call->width;
    double *dx = (double *)call->dx + 2 * i * call->width;
    for (int64_t j = 0; j < call->width; j++) {
      const double g = x[j], u = x[call->width + j], sigmoid = 1 / (1 + exp(-g));
      dx[j] = dy[j] * u * sigmoid * (1 + g * (1 - sigmoid));
      dx[call->width + j] = dy[j] * g * sigmoid;
    }
  }
}

void swiglu_forward_cpu(const struct swiglu_call *call) {
  for (int64_t i = 0; i < call->rows; i++) {
    const float *g = (const float *)call->x + 2 * i * call->width, *u = g + call->width;
    float *y = (float *)call->y + i * call->width;
#pragma omp simd
    for (int64_t j = 0; j < call->width; j++)
      y[j] = g[j] / (1 + vector_exp(-g[j])) * u[j];
  }
}

void swiglu_backward_cpu(const struct swiglu_call *call) {
  for (int64_t i = 0; i < call->rows; i++) {
    const float *x = (const float *)call->x + 2 * i * call->width, *dy = (const float *)call->dy + i * call->width;
    float *dx = (float *)call->dx + 2 * i * call->width;
#pragma omp simd
    for (int64_t j = 0; j < call->width; j++) {
      const float g = x[j], u = x[call->width + j], sigmoid = 1 / (1 + vector_exp(-g));
      dx[j] = dy[j] * u * sigmoid * (1 + g * (1 - sigmoid));
      dx[call->width + j] = dy[j] * g * sigmoid;
    }
  }
}
