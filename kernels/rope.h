/* rope.h: rotary position embedding, in place. Of each head of width head_dim, elements i and i + head_dim/2 are the
 * plane i = 0 .. head_dim/2 - 1, turned by the angle a = position * base^(-2 i / head_dim):
 *   (x, y) -> (x cos a - y sin a, x sin a + y cos a)
 * `inverse` turns back, which is the backward pass. */
#ifndef KERNELS_ROPE_H
#define KERNELS_ROPE_H
#include <stdbool.h>
#include <stdint.h>

enum { ROPE_MAX_DIM = 512 };

struct rope_call {
  int64_t rows, heads, head_dim; /* head_dim even, at most ROPE_MAX_DIM */
  float base;                    /* 10000 as a rule */
  bool inverse;
  int64_t max_position;     /* the largest of positions, or more */
  const int32_t *positions; /* (rows), on the device, not negative */
  void *x;                  /* elements (rows, heads, head_dim), read and written */
};

void rope_reference(const struct rope_call *call);
void rope_cpu(const struct rope_call *call);

#endif
