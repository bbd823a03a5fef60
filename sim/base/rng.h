/* rng.h: random streams over GSL (mt19937), one per purpose, all split from the one seed and passed explicitly. */
#ifndef SIM_BASE_RNG_H
#define SIM_BASE_RNG_H
#include <gsl/gsl_rng.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
  gsl_rng *gsl;
};

/* Streams with different purposes or seeds are independent: the seed of a stream is a hash of both. */
void rng_init(struct rng *rng, uint64_t seed, const char *purpose);
void rng_release(struct rng *rng);

double rng_uniform(struct rng *rng);                      /* [0, 1) */
uint64_t rng_below(struct rng *rng, uint64_t n);          /* 0 .. n-1, n > 0 */
void rng_shuffle(struct rng *rng, uint32_t *v, size_t n); /* Fisher-Yates */
double rng_gaussian(struct rng *rng);                     /* mean 0, deviation 1 */

/* The hash behind rng_init: also what seeds a GSL generator used directly. */
uint64_t rng_stream_seed(uint64_t seed, const char *purpose);

#endif
