/* fit.h: what fits under the memory cap: batches, packs, kept activations; for one policy's rule of recomputation. */
#ifndef SIM_EXPERIMENT_FIT_H
#define SIM_EXPERIMENT_FIT_H
#include <stdbool.h>
#include <stdint.h>

#include "models/system.h"
#include "sim/base/err.h"

enum recompute_rule { RECOMPUTE_FULL, RECOMPUTE_NONE, RECOMPUTE_ADAPTIVE };

struct fit {
  const struct system *system;
  int64_t cap_bytes;
  bool unequal_counts; /* see memory.h */
  enum recompute_rule recompute;
  bool round_gib;
};

/* Blocks recomputed where memory is tested: all, or none under RECOMPUTE_NONE. */
void fit_blocks(const struct fit *f, int blocks[2]);

/* Peak memory of this micro-batch on a rank, by its own recompute_blocks. */
int64_t fit_peak_bytes(const struct fit *f, int sp, const struct microbatch *mb);

bool fit_padded(const struct fit *f, int sp, int64_t batch, struct sample shape);

/* The largest batch that fits, up to `limit`; 0: none. */
int64_t fit_largest_batch(const struct fit *f, int sp, struct sample shape, int64_t limit);

/* Tokens that a pack of one group may hold at most: a multiple of 128. `shapes`: the samples that there are (2D, where
 * memory depends on more than tokens; ignored in 1D). 0: none. */
int64_t fit_pack_tokens(const struct fit *f, int sp, const struct sample *shapes, int n_shapes);

/* Blocks to recompute in this micro-batch: as the rule says; adaptive: as few as the spare memory allows, by the time
 * they save. mb->recompute_blocks is ignored. */
void fit_adapt(const struct fit *f, int sp, const struct microbatch *mb, int blocks[2]);

/* An error that says what one sample of this shape alone needs on sp ranks, the cap, and what to try. Returns -1. */
int fit_error(const struct fit *f, int sp, struct sample shape, struct err *err);
/* The same of a micro-batch; `what` says which: "a sample of 512 tokens alone". */
int fit_error_of(const struct fit *f, int sp, const struct microbatch *mb, const char *what, struct err *err);

#endif
