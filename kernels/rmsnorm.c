#include "kernels/rmsnorm.h"

#include <math.h>

void rmsnorm_forward_reference(const struct rmsnorm_call *call) {
  const double *weight = call->weight;
  for (int64_t i = 0; i < call->rows; i++) {
    const double *x = (const double *)call->x + i * call->width;
    double *y = (double *)call->y + i * call->width, squares = 0;
    for (int64_t j = 0; j < call->width; j++)
      squares += x[j] * x[j];
    const double rstd = 1 / sqrt(squares / (double)call->width + call->eps);
    for (int64_t j = 0; j < call->width; j++)
      y[j] = x[j] * rstd * (weight ? weight[j] : 1);
    ((double *)call->rstd)[i] = rstd;
  }
}

void rmsnorm_backward_reference(const struct rmsnorm_call *call) {
  const double *weight = call->weight;
  double *dweight = call->dweight;
  for (int64_t i = 0; i < call->rows; i++) {
    const double *x = (const double *)call->x + i * call->width, *dy = (const double *)call->dy + i * call->width;
    double *dx = (double *)call->dx + i * call->width, rstd = ((const double *)call->rstd)[i], gx = 0;
    for (int64_t j = 0; j < call->width; j++)
      gx += dy[j] * (weight ? weight[j] : 1) * x[j] / (double)call->width;
    for (int64_t j = 0; j < call->width; j++) {
      if (dweight)
        dweight[j] += dy[j] * x[j] * rstd;
      dx[j] = rstd * (dy[j] * (weight ? weight[j] : 1) - x[j] * rstd * rstd * gx);
    }
  }
}

void rmsnorm_forward_cpu(const struct rmsnorm_call *call) {
  const float *weight = call->weight;
  for (int64_t i = 0; i < call->rows; i++) {
    const float *x = (const float *)call->x + i * call->width;
    float *y = (float *)call->y + i * call->width, squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < call->width; j++)
      squares += x[j] * x[j];
    const float rstd = 1 / sqrtf(squares / (float)call->width + call->eps);
    for (int64_t j = 0; j < call->width; j++)
      y[j] = x[j] * rstd * (weight ? weight[j] : 1);
    ((float *)call->rstd)[i] = rstd;
  }
}

void rmsnorm_backward_cpu(const struct rmsnorm_call *call) {
  const float *weight = call->weight;
  float *dweight = call->dweight;
  for (int64_t i = 0; i < call->rows; i++) {
    const float *x = (const float *)call->x + i * call->width, *dy = (const float *)call->dy + i * call->width;
    float *dx = (float *)call->dx + i * call->width, rstd = ((const float *)call->rstd)[i], gx = 0;
#pragma omp simd reduction(+ : gx)
    for (int64_t j = 0; j < call->width; j++)
      gx += dy[j] * (weight ? weight[j] : 1) * x[j];
    const float factor = rstd * rstd * gx / (float)call->width;
    for (int64_t j = 0; j < call->width; j++) {
      const float g = dy[j]; /* dx may be dy */
      if (dweight)
        dweight[j] += g * x[j] * rstd;
      dx[j] = rstd * (g * (weight ? weight[j] : 1) - x[j] * factor);
    }
  }
}
