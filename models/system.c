#include "models/system.h"

#include "sim/base/units.h"

const char *sp_kind_name(enum sp_kind k) {
  static const char *const names[] = {"ulysses", "ring", "dsp"};
  ASSERT((unsigned)k < sizeof names / sizeof names[0]);
  return names[k];
}

int system_sp_nodes(const struct system *s, int sp) { return (int)ceil_div(sp, s->cluster->gpus_per_node); }

static bool power_of_two(int v) { return v > 0 && (v & (v - 1)) == 0; }

/* NULL when groups of this degree can be formed. */
static const char *sp_obstacle(const struct system *s, int sp) {
  const int node = s->cluster->gpus_per_node, world = system_world(s);
  if (sp < 1 || sp > world)
    return "sp must be between 1 and the number of GPUs";
  if (sp == 1)
    return NULL;
  if (s->parallel.sp_kind == SP_DSP && !s->model->is_2d)
    return "sp kind dsp needs a 2D model";
  if (s->parallel.sp_kind != SP_DSP && s->model->is_2d)
    return "sp kinds ulysses and ring need a 1D model";
  if (s->parallel.sp_kind == SP_DSP && sp == world)
    return NULL;
  if (!power_of_two(sp))
    return "sp must be a power of two";
  if (s->parallel.sp_kind == SP_DSP && sp > node)
    return "sp kind dsp forms groups within a node or over all GPUs";
  if (sp <= node ? node % sp != 0 : sp % node != 0)
    return "sp groups must fill nodes evenly";
  return NULL;
}

bool system_sp_valid(const struct system *s, int sp, const char **why) {
  const char *obstacle = sp_obstacle(s, sp);
  if (obstacle && why)
    *why = obstacle;
  return obstacle == NULL;
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

void system_sp_split(const struct system *s, int sp, int *u, int *ring) {
  switch (s->parallel.sp_kind) {
  case SP_ULYSSES:
    *u = (int)gcd(s->model->heads, sp);
    *ring = sp / *u;
    return;
  case SP_RING:
    *u = 1;
    *ring = sp;
    return;
  case SP_DSP: /* neither heads nor keys are split: space is */
    *u = 1;
    *ring = 1;
    return;
  }
}

int64_t microbatch_tokens(const struct system *s, const struct microbatch *mb) {
  int64_t tokens = 0;
  if (!mb->packed)
    return mb->batch * (s->model->is_2d ? mb->frames * mb->positions : mb->seqlen);
  for (int64_t i = 0; i < mb->batch; i++)
    tokens += sample_tokens(mb->packed[i]);
  return tokens;
}

int64_t microbatch_local_tokens(const struct system *s, const struct microbatch *mb, int sp) {
  if (!s->model->is_2d)
    return ceil_div(microbatch_tokens(s, mb), sp);
  int64_t tokens = 0;
  if (!mb->packed)
    return mb->batch * mb->frames * ceil_div(mb->positions, sp);
  for (int64_t i = 0; i < mb->batch; i++)
    tokens += mb->packed[i].a * ceil_div(mb->packed[i].b, sp);
  return tokens;
}
