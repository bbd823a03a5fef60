/* rmsnorm.h: root-mean-square norm of rows of `width` elements.
 *   rstd = 1 / sqrt(mean(x^2) + eps),  y = x rstd weight
 * Backward, with g = dy weight:  dx = rstd (g - x rstd^2 mean(g x)),  dweight += sum over rows of dy x rstd.
 * qk-norm is the same with a vector per head: rows = tokens * heads. y may be x, dx may be dy. */
#ifndef KERNELS_RMSNORM_H
#define KERNELS_RMSNORM_H
#include <stdint.h>

struct rmsnorm_call {
  int64_t rows, width;
  float eps;
  const void *x;      /* elements (rows, width) */
  const void *weight; /* elements (width), or NULL: ones */
  void *y;            /* elements (rows, width); forward */
  void *rstd;         /* fp32 (rows): forward writes, backward reads */
  const void *dy;     /* elements (rows, width); backward from here on, where x is the forward's input */
  void *dx;           /* elements, overwritten */
  void *dweight;      /* fp32 (width), added to; NULL if weight is */
};

void rmsnorm_forward_reference(const struct rmsnorm_call *call);
void rmsnorm_backward_reference(const struct rmsnorm_call *call);
void rmsnorm_forward_cpu(const struct rmsnorm_call *call);
void rmsnorm_backward_cpu(const struct rmsnorm_call *call);

#endif
