/* step_memo.h: what one played step amounts to, and a bounded table of such records: steps of bucket and static repeat.
 *
 * A step in which every group runs one micro-batch, in one round and without faults, is told by the multiset of its
 * groups' programs: groups of one degree are alike wherever they lie. Its record is then looked up instead of played.
 */
#ifndef SIM_EXPERIMENT_STEP_MEMO_H
#define SIM_EXPERIMENT_STEP_MEMO_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/engine/step.h"

/* Compute of one micro-batch on `ranks` ranks of its group that behave alike. */
struct record_work {
  int group, micro_batch, ranks;
  int64_t work_ns[WORK_CLASSES];
};

struct step_record {
  int64_t step_ns, imbalance_ns, max_busy_ns;
  struct account ranks; /* summed over all ranks; work_ns left to `work` */
  int64_t *busy_ns;     /* per group: of its longest rank */
  int n_groups;
  struct record_work *work;
  size_t n_work;
  size_t groups_cap, work_cap;
};

void step_record_release(struct step_record *r);
void step_record_fill(struct step_record *r, const struct step_input *in, const struct step_result *result);

struct step_memo;
struct step_memo *step_memo_new(void);
void step_memo_free(struct step_memo *m); /* NULL is fine */

/* `numbers`: per group, what tells its program. False: not known. True: *r is filled, its groups as numbered here. */
bool step_memo_find(struct step_memo *m, const uint32_t *numbers, int n_groups, struct step_record *r);
/* After step_memo_find said no, for the same numbers: keeps what was played. */
void step_memo_keep(struct step_memo *m, const struct step_record *r);

#endif
