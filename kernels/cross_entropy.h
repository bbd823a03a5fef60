/* cross_entropy.h: negative log-likelihood of one target per row of logits.
 *   lse_i = log sum_v exp(x_iv),  loss_i = lse_i - x_i,target
 * Backward: dx_iv = scale (exp(x_iv - lse_i) - [v = target]). A target of -1 is ignored: loss 0, gradient 0.
 * dx may be x. Whether losses are averaged over samples or tokens is in `scale`. */
#ifndef KERNELS_CROSS_ENTROPY_H
#define KERNELS_CROSS_ENTROPY_H
#include <stdint.h>

struct cross_entropy_call {
  int64_t rows, vocab;
  const void *x;          /* elements (rows, vocab) */
  const int32_t *targets; /* (rows), -1 .. vocab - 1, on the device */
  void *loss;             /* fp32 (rows); forward */
  void *lse;              /* fp32 (rows): forward writes, backward reads */
  float scale;            /* backward */
  void *dx;               /* elements (rows, vocab), overwritten; backward */
};

void cross_entropy_forward_reference(const struct cross_entropy_call *call);
void cross_entropy_backward_reference(const struct cross_entropy_call *call);
void cross_entropy_forward_cpu(const struct cross_entropy_call *call);
void cross_entropy_backward_cpu(const struct cross_entropy_call *call);

#endif
