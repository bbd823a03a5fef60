#include "kernels/cross_entropy.h"

#include <math.h>

#include "kernels/vector_exp.h"
#include "sim/base/err.h"

void cross_entropy_forward_reference(const struct cross_entropy_call *call) {
  double *loss = call->loss, *lse = call->lse;
  for (int64_t i = 0; i < call->rows; i++) {
    const double *x = (const double *)call->x + i * call->vocab;
    double max = -INFINITY, sum = 0;
    ASSERT(call->targets[i] >= -1 && call->targets[i] < call->vocab);
    for (int64_t j = 0; j < call->vocab; j++)
      max = x[j] > max ? x[j] : max;
    for (int64_t j = 0; j < call->vocab; j++)
      sum += exp(x[j] - max);
    lse[i] = max + log(sum);
    loss[i] = call->targets[i] < 0 ? 0 : lse[i] - x[call->targets[i]];
  }
}

void cross_entropy_backward_reference(const struct cross_entropy_call *call) {
  const double *lse = call->lse;
  for (int64_t i = 0; i < call->rows; i++) {
    const double *x = (const double *)call->x + i * call->vocab;
    double *dx = (double *)call->dx + i * call->vocab;
    const double scale = call->targets[i] < 0 ? 0 : call->scale;
    for (int64_t j = 0; j < call->vocab; j++)
      dx[j] = scale * exp(x[j] - lse[i]);
    if (call->targets[i] >= 0)
      dx[call->targets[i]] -= scale;
  }
}

void cross_entropy_forward_cpu(const struct cross_entropy_call *call) {
  float *loss = call->loss, *lse = call->lse;
  for (int64_t i = 0; i < call->rows; i++) {
    const float *x = (const float *)call->x + i * call->vocab;
    float max = -INFINITY, sum = 0;
    ASSERT(call->targets[i] >= -1 && call->targets[i] < call->vocab);
#pragma omp simd reduction(max : max)
    for (int64_t j = 0; j < call->vocab; j++)
      max = x[j] > max ? x[j] : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < call->vocab; j++)
      sum += vector_exp(x[j] - max);
    lse[i] = max + logf(sum);
    loss[i] = call->targets[i] < 0 ? 0 : lse[i] - x[call->targets[i]];
  }
}

void cross_entropy_backward_cpu(const struct cross_entropy_call *call) {
  const float *lse = call->lse;
  for (int64_t i = 0; i < call->rows; i++) {
    const float *x = (const float *)call->x + i * call->vocab;
    float *dx = (float *)call->dx + i * call->vocab;
    const float scale = call->targets[i] < 0 ? 0 : call->scale;
#pragma omp simd
    for (int64_t j = 0; j < call->vocab; j++)
      dx[j] = scale * vector_exp(x[j] - lse[i]);
    if (call->targets[i] >= 0)
      dx[call->targets[i]] -= scale;
  }
}
