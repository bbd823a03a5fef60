#include "sim/experiment/program_cache.h"

#include <stdlib.h>
#include <string.h>

#include "models/memory.h"
#include "sim/base/units.h"
#include "sim/plan/lower.h"

struct microbatch microbatch_padded(const struct system *s, int64_t batch, struct sample shape,
                                    const int recompute_blocks[2]) {
  struct microbatch mb = {.batch = batch};
  if (s->model->is_2d) {
    mb.frames = shape.a;
    mb.positions = shape.b;
  } else {
    mb.seqlen = shape.a;
  }
  memcpy(mb.recompute_blocks, recompute_blocks, sizeof mb.recompute_blocks);
  return mb;
}

struct microbatch microbatch_packed(const struct sample *samples, int64_t n, const int recompute_blocks[2]) {
  struct microbatch mb = {.batch = n, .packed = samples};
  memcpy(mb.recompute_blocks, recompute_blocks, sizeof mb.recompute_blocks);
  return mb;
}

void program_cache_init(struct program_cache *c, const struct system *system, bool unequal_counts) {
  *c = (struct program_cache){.system = system, .unequal_counts = unequal_counts, .n_slots = 256};
  c->slots = xcalloc(c->n_slots, sizeof *c->slots);
}

void program_cache_release(struct program_cache *c) {
  for (size_t i = 0; i < c->n_slots; i++)
    if (c->slots[i]) {
      program_release(&c->slots[i]->program);
      free(c->slots[i]);
    }
  free(c->slots);
  *c = (struct program_cache){0};
}

static uint64_t mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

static uint64_t hash_of(int sp, int64_t batch, struct sample shape, const int blocks[2]) {
  uint64_t h = mix((uint64_t)sp, (uint64_t)batch);
  h = mix(h, (uint64_t)shape.a << 32 | shape.b);
  return mix(h, (uint64_t)(uint32_t)blocks[0] << 32 | (uint32_t)blocks[1]);
}

static bool is_it(const struct cached_program *p, int sp, int64_t batch, struct sample shape, const int blocks[2]) {
  return p->sp == sp && p->batch == batch && p->shape.a == shape.a && p->shape.b == shape.b &&
         p->recompute_blocks[0] == blocks[0] && p->recompute_blocks[1] == blocks[1];
}

static void grow(struct program_cache *c) {
  struct cached_program **old = c->slots;
  size_t n_old = c->n_slots;
  c->n_slots = n_old * 2;
  c->slots = xcalloc(c->n_slots, sizeof *c->slots);
  for (size_t i = 0; i < n_old; i++) {
    const struct cached_program *p = old[i];
    if (!p)
      continue;
    size_t at = hash_of(p->sp, p->batch, p->shape, p->recompute_blocks) & (c->n_slots - 1);
    while (c->slots[at])
      at = (at + 1) & (c->n_slots - 1);
    c->slots[at] = old[i];
  }
  free(old);
}

static struct cached_program *make(struct program_cache *c, int sp, int64_t batch, struct sample shape,
                                   const int blocks[2]) {
  struct cached_program *p = xcalloc(1, sizeof *p);
  struct microbatch mb = microbatch_padded(c->system, batch, shape, blocks);
  *p = (struct cached_program){.batch = batch, .shape = shape, .sp = sp, .number = (uint32_t)c->n};
  memcpy(p->recompute_blocks, blocks, sizeof p->recompute_blocks);
  lower_micro_batch(&p->program, c->system, sp, &mb);
  p->memory_bytes = memory_peak_bytes(c->system, sp, &mb, c->unequal_counts);
  c->n++;
  return p;
}

const struct cached_program *program_cache_get(struct program_cache *c, int sp, int64_t batch, struct sample shape,
                                               const int blocks[2]) {
  if (2 * (c->n + 1) > c->n_slots)
    grow(c);
  size_t at = hash_of(sp, batch, shape, blocks) & (c->n_slots - 1);
  while (c->slots[at] && !is_it(c->slots[at], sp, batch, shape, blocks))
    at = (at + 1) & (c->n_slots - 1);
  if (!c->slots[at])
    c->slots[at] = make(c, sp, batch, shape, blocks);
  return c->slots[at];
}
