/* gate.h: gated residual of a DiT block: y = residual + gate_b x for the rows cu_rows[b] .. cu_rows[b+1] - 1 of sample
 * b. Backward: dx = gate_b dy, dgate_b += sum over the sample's rows of dy x; the residual's gradient is dy itself.
 * gate of sample b starts b * sample_stride elements from its pointer, dgate likewise in fp32. y may be residual or x;
 * dx may not be dy. */
#ifndef KERNELS_GATE_H
#define KERNELS_GATE_H
#include <stdint.h>

struct gate_call {
  int64_t batch, rows, width, sample_stride;
  const int32_t *cu_rows; /* (batch + 1), on the device; the last is `rows` */
  const void *x, *gate;   /* elements (rows, width), (batch, width) */
  const void *residual;   /* elements (rows, width); forward */
  void *y;                /* elements (rows, width); forward */
  const void *dy;         /* elements (rows, width); backward */
  void *dx;               /* elements (rows, width), overwritten; backward */
  void *dgate;            /* fp32, added to; backward */
};

void gate_forward_reference(const struct gate_call *call);
void gate_backward_reference(const struct gate_call *call);
void gate_forward_cpu(const struct gate_call *call);
void gate_backward_cpu(const struct gate_call *call);

#endif
