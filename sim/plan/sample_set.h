/* sample_set.h: the samples of one run, after --max-length and before any policy: shared by all policies, read-only. */
#ifndef SIM_PLAN_SAMPLE_SET_H
#define SIM_PLAN_SAMPLE_SET_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/sample.h"

struct sample_set {
  bool is_2d;
  int64_t n;              /* entries (pieces, where samples were split) */
  struct sample *samples; /* extents, in file order */
  uint32_t *ids;          /* trace id of each entry; NULL: entry i is sample i */
  uint32_t *offsets;      /* first token of each piece; NULL unless --overlong split */
  uint32_t *order;        /* arrival order: a permutation of entries; NULL: file order */
  uint16_t *bucket;       /* bucket of each entry; NULL when not bucketed */
  uint32_t *batch;        /* number of each entry's batch in the trace, ascending; NULL: the trace holds no batches */
};

void sample_set_release(struct sample_set *s);

static inline uint32_t sample_set_at(const struct sample_set *s, int64_t arrival) {
  return s->order ? s->order[arrival] : (uint32_t)arrival;
}
static inline uint32_t sample_set_id(const struct sample_set *s, uint32_t entry) {
  return s->ids ? s->ids[entry] : entry;
}

#endif
