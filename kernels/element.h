/* element.h: the number formats that operators and collectives move. Activations and weights are *elements*: fp32 on
 * the CPU, bf16 on CUDA (products accumulated in fp32), double in the references. Statistics, losses, parameter
 * gradients and the optimizer's state are fp32 on every device, double in the references. Call structs hold untyped
 * pointers with a comment "elements" or "fp32", so that one struct serves all three. */
#ifndef KERNELS_ELEMENT_H
#define KERNELS_ELEMENT_H
#include <stddef.h>

enum element_type { ELEMENT_FP32, ELEMENT_BF16 };

static inline size_t element_bytes(enum element_type t) { return t == ELEMENT_BF16 ? 2 : 4; }

#endif
