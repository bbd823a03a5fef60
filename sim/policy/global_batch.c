#include "sim/policy/global_batch.h"

#include <stdlib.h>

#include "sim/base/units.h"

void global_batch_init(struct global_batch *b, const struct policy_input *in, int64_t limit_tokens_each) {
  const struct policy_options *o = &in->options;
  *b = (struct global_batch){.in = in, .limit_tokens_each = limit_tokens_each, .wanted = o->global_batch};
  if (b->wanted == 0 && o->tokens_per_step == 0)
    b->wanted = (int64_t)in->world * GLOBAL_BATCH_PER_RANK;
  int64_t most = b->wanted > 0 ? int64_min(b->wanted, in->samples->n) : in->samples->n;
  b->entries = xmalloc(size_mul((size_t)most + 1, sizeof *b->entries));
}

void global_batch_release(struct global_batch *b) {
  free(b->entries);
  *b = (struct global_batch){0};
}

static bool can_run(const struct global_batch *b, uint32_t entry) {
  const struct policy_input *in = b->in;
  return !(in->excluded && in->excluded[entry]) && sample_tokens(in->samples->samples[entry]) <= b->limit_tokens_each;
}

bool global_batch_next(struct global_batch *b) {
  const struct sample_set *s = b->in->samples;
  int64_t limit = b->in->options.tokens_per_step, tokens = 0;
  b->n = 0;
  b->over_tokens = false;
  for (; b->arrival < s->n && (b->wanted == 0 || b->n < b->wanted); b->arrival++) {
    uint32_t entry = sample_set_at(s, b->arrival);
    if (!can_run(b, entry))
      continue;
    tokens += sample_tokens(s->samples[entry]);
    if (limit > 0 && b->n > 0 && tokens > limit)
      return true;
    b->entries[b->n++] = entry;
    b->over_tokens = limit > 0 && tokens > limit;
  }
  return b->n > 0 && (b->n >= b->wanted || b->in->options.remainder == REMAINDER_FAIR);
}
