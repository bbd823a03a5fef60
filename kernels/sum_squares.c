#include "kernels/sum_squares.h"

void sum_squares_reference(const struct sum_squares_call *call) {
  const double *x = call->x;
  double sum = 0;
  for (int64_t i = 0; i < call->n; i++)
    sum += x[i] * x[i];
  *(double *)call->sum += sum;
}

void sum_squares_cpu(const struct sum_squares_call *call) {
  const float *x = call->x;
  double sum = 0;
  for (int64_t i = 0; i < call->n; i++)
    sum += (double)x[i] * (double)x[i];
  *(float *)call->sum += (float)sum;
}
