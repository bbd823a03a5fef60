/* modulate.h: adaptive norm of a DiT block: each sample scales and shifts its rows.
 *   y = x (1 + scale_b) + shift_b      for rows cu_rows[b] .. cu_rows[b+1] - 1 of sample b
 * Backward: dx = dy (1 + scale_b), dscale_b += sum over the sample's rows of dy x, dshift_b += sum of dy.
 * scale and shift of sample b start b * sample_stride elements from their pointers (both are slices of one (batch, 6
 * width) array), dscale and dshift likewise in fp32. y may be x; dx may be dy. */
#ifndef KERNELS_MODULATE_H
#define KERNELS_MODULATE_H
#include <stdint.h>

struct modulate_call {
  int64_t batch, rows, width, sample_stride;
  const int32_t *cu_rows;    /* (batch + 1), on the device; the last is `rows` */
  const void *x;             /* elements (rows, width) */
  const void *scale, *shift; /* elements */
  void *y;                   /* elements (rows, width); forward */
  const void *dy;            /* elements (rows, width); backward */
  void *dx;                  /* elements (rows, width), overwritten; backward */
  void *dscale, *dshift;     /* fp32, added to; backward */
};

void modulate_forward_reference(const struct modulate_call *call);
void modulate_backward_reference(const struct modulate_call *call);
void modulate_forward_cpu(const struct modulate_call *call);
void modulate_backward_cpu(const struct modulate_call *call);

#endif
