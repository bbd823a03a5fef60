/* overlong.h: --max-length: samples that are longer are dropped, truncated or split, before any policy sees them. */
#ifndef SIM_EXPERIMENT_OVERLONG_H
#define SIM_EXPERIMENT_OVERLONG_H
#include "sim/base/err.h"

struct experiment;

/* Moves the trace's samples into x->samples, cut as the options say, and counts what was left out. */
int overlong_apply(struct experiment *x, struct err *err);

#endif
