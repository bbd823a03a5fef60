/* mixture.h: lengths drawn from several traces or generators by weight. */
#ifndef TRACES_MIXTURE_H
#define TRACES_MIXTURE_H
#include "traces/trace.h"

/* "mixture:0.9*wikipedia+0.1*lognormal:mean=30000,sigma=1": each sample first draws its part by weight, then takes a
 * random sample of that part (with replacement): of the file, or of as many as n generated ones. A part whose name has
 * a generator's form (KIND:...) is one. Parts are all 1D or all 2D. */
int mixture_generate(struct trace *out, const char *spec, int64_t n, uint64_t seed, struct err *err);

#endif
