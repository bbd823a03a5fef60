#include "kernels/sgd.h"

void sgd_reference(const struct sgd_call *call) {
  const double *grad = call->grad;
  double *master = call->master, *m = call->m, *weight = call->weight;
  for (int64_t i = 0; i < call->n; i++) {
    m[i] = call->momentum * m[i] + call->grad_scale * grad[i] + call->weight_decay * master[i];
    master[i] -= call->lr * m[i];
    weight[i] = master[i];
  }
}

void sgd_cpu(const struct sgd_call *call) {
  const float *grad = call->grad;
  float *master = call->master, *m = call->m, *weight = call->weight;
  for (int64_t i = 0; i < call->n; i++) {
    m[i] = call->momentum * m[i] + call->grad_scale * grad[i] + call->weight_decay * master[i];
    master[i] -= call->lr * m[i];
    weight[i] = master[i];
  }
}
