#include "kernels/residual.h"

void residual_reference(const struct residual_call *call) {
  const double *a = call->a, *b = call->b;
  double *y = call->y;
  for (int64_t i = 0; i < call->n; i++)
    y[i] = a[i] + b[i];
}

void residual_cpu(const struct residual_call *call) {
  const float *a = call->a, *b = call->b;
  float *y = call->y;
  for (int64_t i = 0; i < call->n; i++)
    y[i] = a[i] + b[i];
}
