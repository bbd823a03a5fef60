#include "sim/policy/padding.h"

#include <string.h>

#include "traces/bucket.h"

struct sample padding_shape(struct sample longest, bool is_2d, int per_octave) {
  if (!is_2d)
    longest.a = (uint32_t)bucket_bound(longest.a, per_octave);
  return longest;
}

void padding_add_micro_batch(const struct policy_input *in, struct plan_iteration *it, const uint32_t *entries,
                             int64_t n) {
  const struct policy_options *o = &in->options;
  struct plan_micro_batch *m = plan_add_micro_batch(it);
  uint32_t *copy = plan_pool(it, (size_t)n);
  struct sample longest = {1, 1};
  for (int64_t i = 0; i < n; i++)
    longest = padding_join(longest, in->samples->samples[entries[i]]);
  m->count = n;
  m->samples = memcpy(copy, entries, (size_t)n * sizeof *copy);
  m->shape = padding_shape(longest, in->samples->is_2d, o->per_octave);
  memcpy(m->recompute_blocks, o->full_recompute_blocks, sizeof m->recompute_blocks);
  if (in->costs.padded_time_s)
    m->time_s =
        in->costs.padded_time_s(in->costs.context, it->groups[it->n_groups - 1].sp, n, m->shape, m->recompute_blocks);
}
