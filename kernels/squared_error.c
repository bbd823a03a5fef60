#include "kernels/squared_error.h"

void squared_error_reference(const struct squared_error_call *call) {
  double *loss = call->loss;
  for (int64_t i = 0; i < call->rows; i++) {
    const double *x = (const double *)call->x + i * call->width,
                 *target = (const double *)call->target + i * call->width;
    double *dx = (double *)call->dx + i * call->width;
    loss[i] = 0;
    for (int64_t j = 0; j < call->width; j++) {
      const double difference = x[j] - target[j];
      loss[i] += difference * difference;
      dx[j] = 2 * call->scale * difference;
    }
  }
}

void squared_error_cpu(const struct squared_error_call *call) {
  float *loss = call->loss;
  for (int64_t i = 0; i < call->rows; i++) {
    const float *x = (const float *)call->x + i * call->width, *target = (const float *)call->target + i * call->width;
    float *dx = (float *)call->dx + i * call->width;
    loss[i] = 0;
    for (int64_t j = 0; j < call->width; j++) {
      const float difference = x[j] - target[j];
      loss[i] += difference * difference;
      dx[j] = 2 * call->scale * difference;
    }
  }
}
