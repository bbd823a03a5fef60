/* bound.h: the lower bound of models.md section 7: GPU-seconds of one sample unpadded, without recomputation, exchange,
 * synchronisation, host or optimizer, each operation at the best measured rate of its class at any batch. */
#ifndef MODELS_BOUND_H
#define MODELS_BOUND_H
#include "models/system.h"

/* 1D: a = tokens, b = 1. 2D: a = frames, b = positions. Cheap (tens of ns): called once per sample. */
double bound_gpu_seconds(const struct system *s, int64_t a, int64_t b);

#endif
