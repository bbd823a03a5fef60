/* vector_exp.h: e^x for loops that the compiler turns into vector code, which it cannot do with expf. */
#ifndef KERNELS_VECTOR_EXP_H
#define KERNELS_VECTOR_EXP_H
#include <stdint.h>
#include <string.h>

/* Relative error below 2e-7 for -80 <= x <= 80; beyond, the value at the nearer end (1.8e-35, 5.5e34). The ends leave
 * room to the smallest normal number: products with subnormal ones are tens of times slower. NaN gives an end.
 * x = n ln 2 + r with |r| <= ln 2 / 2: 2^n by its bits, e^r by its series. */
static inline float vector_exp(float x) {
  x = x > 80 ? 80 : x;
  x = x > -80 ? x : -80;
  const float rounder = 12582912; /* 1.5 * 2^23: adding it rounds to whole numbers */
  const float n = (x * 1.44269504f + rounder) - rounder;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f; /* ln 2 in two parts, the first exact in products */
  const float series =
      1 + r * (1 + r * (1.f / 2 + r * (1.f / 6 + r * (1.f / 24 + r * (1.f / 120 + r * (1.f / 720 + r / 5040))))));
  const int32_t bits = ((int32_t)n + 127) * (1 << 23);
  float power;
  memcpy(&power, &bits, sizeof power);
  return series * power;
}

#endif
