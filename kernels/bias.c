#include "kernels/bias.h"

void bias_forward_reference(const struct bias_call *call) {
  const double *x = call->x, *bias = call->bias;
  double *y = call->y;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t j = 0; j < call->width; j++)
      y[i * call->width + j] = x[i * call->width + j] + bias[j];
}

void bias_backward_reference(const struct bias_call *call) {
  const double *dy = call->dy;
  double *dbias = call->dbias;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t j = 0; j < call->width; j++)
      dbias[j] += dy[i * call->width + j];
}

void bias_forward_cpu(const struct bias_call *call) {
  const float *x = call->x, *bias = call->bias;
  float *y = call->y;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t j = 0; j < call->width; j++)
      y[i * call->width + j] = x[i * call->width + j] + bias[j];
}

void bias_backward_cpu(const struct bias_call *call) {
  const float *dy = call->dy;
  float *dbias = call->dbias;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t j = 0; j < call->width; j++)
      dbias[j] += dy[i * call->width + j];
}
