#include "kernels/gate.h"

void gate_forward_reference(const struct gate_call *call) {
  const double *x = call->x, *residual = call->residual;
  double *y = call->y;
  for (int64_t b = 0; b < call->batch; b++) {
    const double *gate = (const double *)call->gate + b * call->sample_stride;
    for (int64_t i = call->cu_rows[b]; i < call->cu_rows[b + 1]; i++)
      for (int64_t j = 0; j < call->width; j++)
        y[i * call->width + j] = residual[i * call->width + j] + gate[j] * x[i * call->width + j];
  }
}

void gate_backward_reference(const struct gate_call *call) {
  const double *x = call->x, *dy = call->dy;
  double *dx = call->dx;
  for (int64_t b = 0; b < call->batch; b++) {
    const double *gate = (const double *)call->gate + b * call->sample_stride;
    double *dgate = (double *)call->dgate + b * call->sample_stride;
    for (int64_t i = call->cu_rows[b]; i < call->cu_rows[b + 1]; i++)
      for (int64_t j = 0; j < call->width; j++) {
        dgate[j] += dy[i * call->width + j] * x[i * call->width + j];
        dx[i * call->width + j] = gate[j] * dy[i * call->width + j];
      }
  }
}

void gate_forward_cpu(const struct gate_call *call) {
  const float *x = call->x, *residual = call->residual;
  float *y = call->y;
  for (int64_t b = 0; b < call->batch; b++) {
    const float *gate = (const float *)call->gate + b * call->sample_stride;
    for (int64_t i = call->cu_rows[b]; i < call->cu_rows[b + 1]; i++)
      for (int64_t j = 0; j < call->width; j++)
        y[i * call->width + j] = residual[i * call->width + j] + gate[j] * x[i * call->width + j];
  }
}

void gate_backward_cpu(const struct gate_call *call) {
  const float *x = call->x, *dy = call->dy;
  float *dx = call->dx;
  for (int64_t b = 0; b < call->batch; b++) {
    const float *gate = (const float *)call->gate + b * call->sample_stride;
    float *dgate = (float *)call->dgate + b * call->sample_stride;
    for (int64_t i = call->cu_rows[b]; i < call->cu_rows[b + 1]; i++)
      for (int64_t j = 0; j < call->width; j++) {
        dgate[j] += dy[i * call->width + j] * x[i * call->width + j];
        dx[i * call->width + j] = gate[j] * dy[i * call->width + j];
      }
  }
}
