/* layernorm.h: norm of rows of `width` elements, with or without weight and bias.
 *   z = (x - mean) rstd, rstd = 1 / sqrt(mean((x - mean)^2) + eps),  y = z weight + bias
 * Backward, with g = dy weight:  dx = rstd (g - mean(g) - z mean(g z)),  dweight += sum dy z,  dbias += sum dy.
 * y may be x, dx may be dy. */
#ifndef KERNELS_LAYERNORM_H
#define KERNELS_LAYERNORM_H
#include <stdint.h>

struct layernorm_call {
  int64_t rows, width;
  float eps;
  const void *x;             /* elements (rows, width) */
  const void *weight, *bias; /* elements (width), both or neither (NULL: 1 and 0) */
  void *y;                   /* elements (rows, width); forward */
  void *mean, *rstd;         /* fp32 (rows): forward writes, backward reads */
  const void *dy;            /* elements; backward from here on, where x is the forward's input */
  void *dx;                  /* elements, overwritten */
  void *dweight, *dbias;     /* fp32 (width), added to; NULL if weight is */
};

void layernorm_forward_reference(const struct layernorm_call *call);
void layernorm_backward_reference(const struct layernorm_call *call);
void layernorm_forward_cpu(const struct layernorm_call *call);
void layernorm_backward_cpu(const struct layernorm_call *call);

#endif
