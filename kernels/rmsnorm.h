/* rmsnorm.h: root-mean-square norm of vectors of `width` elements.
 *   rstd = 1 / sqrt(mean(x^2) + eps),  y = x rstd weight
 * Backward, with g = dy weight:  dx = rstd (g - x rstd^2 mean(g x)),  dweight += sum over vectors of dy x rstd.
 * A row holds `groups` vectors one after another; rows are row_stride elements apart in x, y, dy and dx. A plain norm
 * has groups = 1, row_stride = width; the norm of the heads of q in a packed qkv has groups = heads, width = head_dim,
 * row_stride = (heads + 2 kv_heads) head_dim. y may be x, dx may be dy. */
#ifndef KERNELS_RMSNORM_H
#define KERNELS_RMSNORM_H
#include <stdint.h>

struct rmsnorm_args {
  int64_t rows, groups, width, row_stride;
  float eps;
  const void *x;      /* elements */
  const void *weight; /* elements (width), or NULL: ones */
  void *y;            /* elements; forward */
  void *rstd;         /* fp32 (rows, groups): forward writes, backward reads */
  const void *dy;     /* elements; backward from here on, where x is the forward's input */
  void *dx;           /* elements, overwritten */
  void *dweight;      /* fp32 (width), added to; NULL if weight is */
};

void rmsnorm_forward_reference(const struct rmsnorm_args *args);
void rmsnorm_backward_reference(const struct rmsnorm_args *args);
void rmsnorm_forward_cpu(const struct rmsnorm_args *args);
void rmsnorm_backward_cpu(const struct rmsnorm_args *args);

#endif
