/* adamw.h: one step of Adam with decoupled weight decay (Loshchilov and Hutter 2019) on n parameters, all state in
 * fp32: g' = grad_scale g,  m = beta1 m + (1 - beta1) g',  v = beta2 v + (1 - beta2) g'^2 w = w - lr (m / (1 -
 * beta1^step) / (sqrt(v / (1 - beta2^step)) + eps) + weight_decay w) and the elements that forward reads are written
 * from w. */
#ifndef KERNELS_ADAMW_H
#define KERNELS_ADAMW_H
#include <stdint.h>

struct adamw_call {
  int64_t n;
  float lr, beta1, beta2, eps, weight_decay, grad_scale;
  int64_t step;         /* from 1 */
  const void *grad;     /* fp32 (n) */
  void *master, *m, *v; /* fp32 (n), read and written */
  void *weight;         /* elements (n), written; may be master where elements are fp32 */
};

void adamw_reference(const struct adamw_call *call);
void adamw_cpu(const struct adamw_call *call);

#endif
