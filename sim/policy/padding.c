#include "sim/policy/padding.h"

#include <string.h>

struct sample padding_longest(const struct sample_set *samples, const uint32_t *entries, int64_t n) {
  struct sample longest = {1, 1};
  for (int64_t i = 0; i < n; i++)
    longest = padding_join(longest, samples->samples[entries[i]]);
  return longest;
}

void padding_add_micro_batch(const struct policy_input *in, struct plan_iteration *it, const uint32_t *entries,
                             int64_t n, struct sample shape) {
  const struct policy_options *o = &in->options;
  struct plan_micro_batch *m = plan_add_micro_batch(it);
  uint32_t *copy = plan_pool(it, (size_t)n);
  m->count = n;
  m->samples = memcpy(copy, entries, (size_t)n * sizeof *copy);
  m->shape = shape;
  memcpy(m->recompute_blocks, o->full_recompute_blocks, sizeof m->recompute_blocks);
  if (in->costs.padded_time_s)
    m->time_s =
        in->costs.padded_time_s(in->costs.context, it->groups[it->n_groups - 1].sp, n, m->shape, m->recompute_blocks);
}
