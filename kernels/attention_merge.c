#include "kernels/attention_merge.h"

#include <math.h>

void attention_merge_reference(const struct attention_merge_call *call) {
  double *out_a = call->out_a, *lse_a = call->lse_a;
  const double *out_b = call->out_b, *lse_b = call->lse_b;
  for (int64_t h = 0; h < call->heads; h++)
    for (int64_t i = 0; i < call->rows; i++) {
      const int64_t at = h * call->rows + i;
      const double max = fmax(lse_a[at], lse_b[at]);
      if (max == -INFINITY)
        continue;
      const double lse = max + log(exp(lse_a[at] - max) + exp(lse_b[at] - max));
      for (int64_t l = (i * call->heads + h) * call->head_dim; l < (i * call->heads + h + 1) * call->head_dim; l++)
        out_a[l] = exp(lse_a[at] - lse) * out_a[l] + exp(lse_b[at] - lse) * out_b[l];
      lse_a[at] = lse;
    }
}

void attention_merge_cpu(const struct attention_merge_call *call) {
  float *out_a = call->out_a, *lse_a = call->lse_a;
  const float *out_b = call->out_b, *lse_b = call->lse_b;
  for (int64_t i = 0; i < call->rows; i++)
    for (int64_t h = 0; h < call->heads; h++) {
      const int64_t at = h * call->rows + i, row = (i * call->heads + h) * call->head_dim;
      const float max = fmaxf(lse_a[at], lse_b[at]);
      if (max == -INFINITY)
        continue;
      const float a = expf(lse_a[at] - max), b = expf(lse_b[at] - max), sum = a + b;
      for (int64_t l = 0; l < call->head_dim; l++)
        out_a[row + l] = (a * out_a[row + l] + b * out_b[row + l]) / sum;
      lse_a[at] = max + logf(sum);
    }
}
