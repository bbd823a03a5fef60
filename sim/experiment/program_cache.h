/* program_cache.h: lowered programs by shape: a policy runs few shapes many times. Belongs to one thread. */
#ifndef SIM_EXPERIMENT_PROGRAM_CACHE_H
#define SIM_EXPERIMENT_PROGRAM_CACHE_H
#include <stdbool.h>
#include <stdint.h>

#include "models/system.h"
#include "sim/plan/program.h"

struct cached_program {
  struct program program;
  int64_t batch;
  struct sample shape;
  int sp, recompute_blocks[2];
  int64_t memory_bytes; /* peak on a rank */
  uint32_t number;      /* in order of making: what orders programs, as addresses differ between runs */
};

struct program_cache {
  const struct system *system;
  bool unequal_counts; /* for the memory rule */
  struct cached_program **slots;
  size_t n, n_slots;
};

void program_cache_init(struct program_cache *c, const struct system *system, bool unequal_counts);
void program_cache_release(struct program_cache *c);

/* The program of `batch` samples padded to `shape` (2D: frames, positions) on sp ranks; made if new. Valid until the
 * cache is released. */
const struct cached_program *program_cache_get(struct program_cache *c, int sp, int64_t batch, struct sample shape,
                                               const int recompute_blocks[2]);

/* A padded micro-batch as the models take it. */
struct microbatch microbatch_padded(const struct system *s, int64_t batch, struct sample shape,
                                    const int recompute_blocks[2]);
/* A pack of n samples. */
struct microbatch microbatch_packed(const struct sample *samples, int64_t n, const int recompute_blocks[2]);

#endif
