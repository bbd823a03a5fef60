#include "kernels/modulate.h"

void modulate_forward_reference(const struct modulate_call *call) {
  const double *x = call->x;
  double *y = call->y;
  for (int64_t b = 0; b < call->batch; b++) {
    const double *scale = (const double *)call->scale + b * call->sample_stride;
    const double *shift = (const double *)call->shift + b * call->sample_stride;
    for (int64_t i = call->cu_rows[b]; i < call->cu_rows[b + 1]; i++)
      for (int64_t j = 0; j < call->width; j++)
        y[i * call->width + j] = x[i * call->width + j] * (1 + scale[j]) + shift[j];
  }
}

void modulate_backward_reference(const struct modulate_call *call) {
  const double *x = call->x, *dy = call->dy;
  double *dx = call->dx;
  for (int64_t b = 0; b < call->batch; b++) {
    const double *scale = (const double *)call->scale + b * call->sample_stride;
    double *dscale = (double *)call->dscale + b * call->sample_stride;
    double *dshift = (double *)call->dshift + b * call->sample_stride;
    for (int64_t i = call->cu_rows[b]; i < call->cu_rows[b + 1]; i++)
      for (int64_t j = 0; j < call->width; j++) {
        const double g = dy[i * call->width + j]; /* dx may be dy */
        dscale[j] += g * x[i * call->width + j];
        dshift[j] += g;
        dx[i * call->width + j] = g * (1 + scale[j]);
      }
  }
}

void modulate_forward_cpu(const struct modulate_call *call) {
  const float *x = call->x;
  float *y = call->y;
  for (int64_t b = 0; b < call->batch; b++) {
    const float *scale = (const float *)call->scale + b * call->sample_stride;
    const float *shift = (const float *)call->shift + b * call->sample_stride;
    for (int64_t i = call->cu_rows[b]; i < call->cu_rows[b + 1]; i++)
      for (int64_t j = 0; j < call->width; j++)
        y[i * call->width + j] = x[i * call->width + j] * (1 + scale[j]) + shift[j];
  }
}

void modulate_backward_cpu(const struct modulate_call *call) {
  const float *x = call->x, *dy = call->dy;
  float *dx = call->dx;
  for (int64_t b = 0; b < call->batch; b++) {
    const float *scale = (const float *)call->scale + b * call->sample_stride;
    float *dscale = (float *)call->dscale + b * call->sample_stride;
    float *dshift = (float *)call->dshift + b * call->sample_stride;
    for (int64_t i = call->cu_rows[b]; i < call->cu_rows[b + 1]; i++)
      for (int64_t j = 0; j < call->width; j++) {
        const float g = dy[i * call->width + j]; /* dx may be dy */
        dscale[j] += g * x[i * call->width + j];
        dshift[j] += g;
        dx[i * call->width + j] = g * (1 + scale[j]);
      }
  }
}
