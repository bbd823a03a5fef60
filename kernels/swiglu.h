/* swiglu.h: gated activation of an MLP. x (rows, 2 width) holds the gate g in its first half, u in its second:
 *   y = silu(g) u, silu(g) = g sigmoid(g)                      y (rows, width)
 * Backward: dg = dy u sigmoid(g) (1 + g (1 - sigmoid(g))), du = dy silu(g).   dx as x, may be x. */
#ifndef KERNELS_SWIGLU_H
#define KERNELS_SWIGLU_H
#include <stdint.h>

struct swiglu_call {
  int64_t rows, width;
  const void *x;  /* elements (rows, 2 width) */
  void *y;        /* elements (rows, width); forward */
  const void *dy; /* elements (rows, width); backward */
  void *dx;       /* elements (rows, 2 width), overwritten; backward */
};

void swiglu_forward_reference(const struct swiglu_call *call);
void swiglu_backward_reference(const struct swiglu_call *call);
void swiglu_forward_cpu(const struct swiglu_call *call);
void swiglu_backward_cpu(const struct swiglu_call *call);

#endif
