#include "kernels/layernorm.h"

#include <math.h>

void layernorm_forward_reference(const struct layernorm_call *call) {
  const double *weight = call->weight, *bias = call->bias;
  for (int64_t i = 0; i < call->rows; i++) {
    const double *x = (const double *)call->x + i * call->width;
    double *y = (double *)call->y + i * call->width, mean = 0, variance = 0;
    for (int64_t j = 0; j < call->width; j++)
      mean += x[j] / (double)call->width;
    for (int64_t j = 0; j < call->width; j++)
      variance += (x[j] - mean) * (x[j] - mean) / (double)call->width;
    const double rstd = 1 / sqrt(variance + call->eps);
    for (int64_t j = 0; j < call->width; j++)
      y[j] = (x[j] - mean) * rstd * (weight ? weight[j] : 1) + (bias ? bias[j] : 0);
    ((double *)call->mean)[i] = mean;
    ((double *)call->rstd)[i] = rstd;
  }
}

void layernorm_backward_reference(const struct layernorm_call *call) {
  const double *weight = call->weight, n = (double)call->width;
  double *dweight = call->dweight, *dbias = call->dbias;
  for (int64_t i = 0; i < call->rows; i++) {
    const double *x = (const double *)call->x + i * call->width, *dy = (const double *)call->dy + i * call->width;
    const double mean = ((const double *)call->mean)[i], rstd = ((const double *)call->rstd)[i];
    double *dx = (double *)call->dx + i * call->width, mean_g = 0, mean_gz = 0;
    for (int64_t j = 0; j < call->width; j++) {
      const double g = dy[j] * (weight ? weight[j] : 1);
      mean_g += g / n;
      mean_gz += g * (x[j] - mean) * rstd / n;
    }
    for (int64_t j = 0; j < call->width; j++) {
      const double z = (x[j] - mean) * rstd, g = dy[j] * (weight ? weight[j] : 1);
      if (weight) {
        dweight[j] += dy[j] * z;
        dbias[j] += dy[j];
      }
      dx[j] = rstd * (g - mean_g - z * mean_gz);
    }
  }
}

void layernorm_forward_cpu(const struct layernorm_call *call) {
  const float *weight = call->weight, *bias = call->bias, n = (float)call->width;
  for (int64_t i = 0; i < call->rows; i++) {
    const float *x = (const float *)call->x + i * call->width;
    float *y = (float *)call->y + i * call->width, sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < call->width; j++)
      sum += x[j];
    const float mean = sum / n;
#pragma omp simd reduction(+ : squares)
    for (int64_t j = 0; j < call->width; j++)
      squares += (x[j] - mean) * (x[j] - mean);
    const float rstd = 1 / sqrtf(squares / n + call->eps);
    for (int64_t j = 0; j < call->width; j++)
      y[j] = (x[j] - mean) * rstd * (weight ? weight[j] : 1) + (bias ? bias[j] : 0);
    ((float *)call->mean)[i] = mean;
    ((float *)call->rstd)[i] = rstd;
  }
}

void layernorm_backward_cpu(const struct layernorm_call *call) {
  const float *weight = call->weight, n = (float)call->width;
  float *dweight = call->dweight, *dbias = call->dbias;
  for (int64_t i = 0; i < call->rows; i++) {
    const float *x = (const float *)call->x + i * call->width, *dy = (const float *)call->dy + i * call->width;
    const float mean = ((const float *)call->mean)[i], rstd = ((const float *)call->rstd)[i];
    float *dx = (float *)call->dx + i * call->width, sum_g = 0, sum_gz = 0;
#pragma omp simd reduction(+ : sum_g, sum_gz)
    for (int64_t j = 0; j < call->width; j++) {
      const float g = dy[j] * (weight ? weight[j] : 1);
      sum_g += g;
      sum_gz += g * (x[j] - mean) * rstd;
    }
    for (int64_t j = 0; j < call->width; j++) {
      const float z = (x[j] - mean) * rstd, d = dy[j], g = d * (weight ? weight[j] : 1); /* dx may be dy */
      if (weight) {
        dweight[j] += d * z;
        dbias[j] += d;
      }
      dx[j] = rstd * (g - sum_g / n - z * sum_gz / n);
    }
  }
}
