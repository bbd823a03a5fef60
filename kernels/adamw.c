#include "kernels/adamw.h"

#include <math.h>

void adamw_reference(const struct adamw_call *call) {
  const double *grad = call->grad;
  double *master = call->master, *m = call->m, *v = call->v, *weight = call->weight;
  const double beta1 = call->beta1, beta2 = call->beta2;
  const double correction1 = 1 - pow(call->beta1, (double)call->step);
  const double correction2 = 1 - pow(call->beta2, (double)call->step);
  for (int64_t i = 0; i < call->n; i++) {
    const double g = call->grad_scale * grad[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const double step = m[i] / correction1 / (sqrt(v[i] / correction2) + call->eps);
    master[i] -= call->lr * (step + call->weight_decay * master[i]);
    weight[i] = master[i];
  }
}

void adamw_cpu(const struct adamw_call *call) {
  const float *grad = call->grad;
  float *master = call->master, *m = call->m, *v = call->v, *weight = call->weight;
  const float beta1 = call->beta1, beta2 = call->beta2;
  const float correction1 = (float)(1 - pow(call->beta1, (double)call->step));
  const float correction2 = (float)(1 - pow(call->beta2, (double)call->step));
  for (int64_t i = 0; i < call->n; i++) {
    const float g = call->grad_scale * grad[i];
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const float step = m[i] / correction1 / (sqrtf(v[i] / correction2) + call->eps);
    master[i] -= call->lr * (step + call->weight_decay * master[i]);
    weight[i] = master[i];
  }
}
