#include "kernels/rope.h"

#include <math.h>

#include "sim/base/err.h"

void rope_reference(const struct rope_call *call) {
  const int64_t half = call->head_dim / 2;
  const double sign = call->inverse ? -1 : 1;
  ASSERT(call->head_dim % 2 == 0);
  for (int64_t p = 0; p < half; p++) {
    const double frequency = pow(call->base, -2.0 * (double)p / (double)call->head_dim);
    for (int64_t i = 0; i < call->rows; i++) { /* angles in double: positions may be large */
      const double angle = sign * (double)call->positions[i] * frequency;
      const double cosine = cos(angle), sine = sin(angle);
      for (int64_t h = 0; h < call->heads; h++) {
        double *at = (double *)call->x + (i * call->heads + h) * call->head_dim + p, x = at[0], y = at[half];
        at[0] = x * cosine - y * sine;
        at[half] = x * sine + y * cosine;
      }
    }
  }
}

/* Rows outside, so that memory is walked once. Angles in double: positions may be large. */
void rope_cpu(const struct rope_call *call) {
  const int64_t half = call->head_dim / 2;
  double frequency[ROPE_MAX_DIM / 2];
  ASSERT(call->head_dim % 2 == 0 && call->head_dim <= ROPE_MAX_DIM);
  for (int64_t p = 0; p < half; p++)
    frequency[p] = pow(call->base, -2.0 * (double)p / (double)call->head_dim);
  for (int64_t i = 0; i < call->rows; i++) {
    float cosine[ROPE_MAX_DIM / 2], sine[ROPE_MAX_DIM / 2];
    for (int64_t p = 0; p < half; p++) {
      const double angle = call->positions[i] * frequency[p];
      cosine[p] = (float)cos(angle);
      sine[p] = (float)(call->inverse ? -sin(angle) : sin(angle));
    }
    for (int64_t h = 0; h < call->heads; h++) {
      float *x = (float *)call->x + (i * call->heads + h) * call->head_dim, *y = x + half;
      for (int64_t p = 0; p < half; p++) {
        const float old = x[p];
        x[p] = old * cosine[p] - y[p] * sine[p];
        y[p] = old * sine[p] + y[p] * cosine[p];
      }
    }
  }
}
