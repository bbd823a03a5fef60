/* sample.h: the extent of one sequence, 8 bytes: what traces hold, policies schedule and models cost. */
#ifndef SIM_BASE_SAMPLE_H
#define SIM_BASE_SAMPLE_H
#include <stdint.h>

struct sample {
  uint32_t a; /* 1D: tokens. 2D: latent frames */
  uint32_t b; /* 1D: 1.      2D: positions (latent patches of one frame) */
};

static inline int64_t sample_tokens(struct sample s) { return (int64_t)s.a * s.b; }

#endif
