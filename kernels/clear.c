#include "kernels/clear.h"

void clear_reference(const struct clear_call *call) {
  double *x = call->x;
  for (int64_t i = 0; i < call->n; i++)
    x[i] = 0;
}

void clear_cpu(const struct clear_call *call) {
  float *x = call->x;
  for (int64_t i = 0; i < call->n; i++)
    x[i] = 0;
}
