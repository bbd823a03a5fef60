/* timeline.h: what ran when, in simulated or measured time: the record that both players fill, and its writer
 * (Chrome/Perfetto trace JSON: groups as processes, streams as threads). */
#ifndef SIM_PLAN_TIMELINE_H
#define SIM_PLAN_TIMELINE_H
#include <stddef.h>
#include <stdint.h>

#include "sim/base/err.h"

enum timeline_stream { TIMELINE_COMPUTE, TIMELINE_EXCHANGE, TIMELINE_SYNC, TIMELINE_STREAMS };

/* The share of models.md section 7 that a span falls into, and the colour it is drawn in. */
enum timeline_category {
  TIMELINE_CAT_COMPUTE,
  TIMELINE_CAT_RECOMPUTE,
  TIMELINE_CAT_SP_EXCHANGE,
  TIMELINE_CAT_GRAD_SYNC,
  TIMELINE_CAT_OPTIMIZER,
  TIMELINE_CAT_HOST,
  TIMELINE_CAT_IDLE,
  TIMELINE_CATEGORIES
};
const char *timeline_category_name(enum timeline_category c);

struct timeline_span {
  int64_t start_ns, end_ns; /* since the start of the run */
  const char *name;         /* operation, static */
  uint8_t stream, category;
  int32_t iteration, first_rank, sp, micro_batch; /* micro_batch -1: not of one */
};

struct timeline {
  char policy[32];
  char run[256]; /* what was run, for titles: "wikipedia on llama2-7b, h200_8x4"; may be empty */
  struct timeline_span *spans;
  size_t n, cap;
  size_t limit; /* further spans are counted, not kept; 0: no limit */
  size_t left_out;
  char **names; /* owned; what the spans' names point into after timeline_read */
  size_t n_names, names_cap;
};

void timeline_add(struct timeline *t, struct timeline_span span);
void timeline_release(struct timeline *t);

/* {"traceEvents":[...],"displayTimeUnit":"ms","otherData":{...}}; microseconds with three decimals. */
int timeline_write(const struct timeline *t, const char *path, struct err *err);

/* Reads back what timeline_write wrote (for `plot timeline`). */
int timeline_read(struct timeline *t, const char *path, struct err *err);

#endif
