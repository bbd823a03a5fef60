/* generate.h: length generators over GSL random streams. A spec is "KIND:key=value,...":
 * lognormal:mean=,sigma=,min=,max= (mean is the target mean of the unclipped distribution: mu = ln(mean) - sigma^2/2;
 * clipped, then truncated), pareto:alpha=,scale=,max=; bimodal:short=,long=,frac_long=,cv=; uniform:min=,max=;
 * constant:length=; zipf_video:offset=,size=,image_frac=  (policies.md "Data generator"); mixture of files or
 * generators by weight: mixture:0.9*wikipedia+0.1*prolong. */
#ifndef TRACES_GENERATE_H
#define TRACES_GENERATE_H
#include "traces/trace.h"

int trace_generate(struct trace *out, const char *spec, int64_t n, uint64_t seed, struct err *err);
void trace_generators_list(FILE *out);

/* Open-Sora sizes: pixels and frames to latent frames and positions (policies.md). */
struct sample video_sample(int64_t frames, int64_t height, int64_t width);

#endif
