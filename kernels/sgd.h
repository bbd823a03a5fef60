/* sgd.h: one step of gradient descent with momentum and weight decay on n parameters in fp32:
 *   m = momentum m + grad_scale g + weight_decay w,  w = w - lr m
 * and the elements that forward reads are written from w. Steps are linear in g, so runs that split a batch differently
 * can be compared closely. */
#ifndef KERNELS_SGD_H
#define KERNELS_SGD_H
#include <stdint.h>

struct sgd_call {
  int64_t n;
  float lr, momentum, weight_decay, grad_scale;
  const void *grad; /* fp32 (n) */
  void *master, *m; /* fp32 (n), read and written */
  void *weight;     /* elements (n), written; may be master where elements are fp32 */
};

void sgd_reference(const struct sgd_call *call);
void sgd_cpu(const struct sgd_call *call);

#endif
