#include "sim/base/rng.h"

#include <gsl/gsl_randist.h>

#include "sim/base/err.h"

/* FNV-1a over the purpose, then a splitmix64 finish over both: cheap, and well mixed in all bits. */
uint64_t rng_stream_seed(uint64_t seed, const char *purpose) {
  uint64_t h = 1469598103934665603u;
  for (const char *p = purpose; *p; p++)
    h = (h ^ (unsigned char)*p) * 1099511628211u;
  h += seed * 0x9e3779b97f4a7c15u + 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

void rng_init(struct rng *rng, uint64_t seed, const char *purpose) {
  rng->gsl = gsl_rng_alloc(gsl_rng_mt19937);
  ASSERT(rng->gsl);
  gsl_rng_set(rng->gsl, (unsigned long)(rng_stream_seed(seed, purpose) & 0xffffffffu));
}

void rng_release(struct rng *rng) {
  if (rng->gsl)
    gsl_rng_free(rng->gsl);
  rng->gsl = NULL;
}

double rng_uniform(struct rng *rng) { return gsl_rng_uniform(rng->gsl); }

uint64_t rng_below(struct rng *rng, uint64_t n) {
  ASSERT(n > 0 && n <= 0xffffffffu);
  return gsl_rng_uniform_int(rng->gsl, (unsigned long)n);
}

void rng_shuffle(struct rng *rng, uint32_t *v, size_t n) {
  for (size_t i = n; i > 1; i--) {
    size_t j = (size_t)rng_below(rng, i);
    uint32_t t = v[i - 1];
    v[i - 1] = v[j];
    v[j] = t;
  }
}

double rng_gaussian(struct rng *rng) { return gsl_ran_gaussian(rng->gsl, 1.0); }
