/* profile_memo.h: buckets profiled before, for experiments that follow each other: what a bucket of some shape costs is
 * the same wherever model, cluster, parameters, memory rule and SP degrees are. Belongs to one thread. */
#ifndef SIM_EXPERIMENT_PROFILE_MEMO_H
#define SIM_EXPERIMENT_PROFILE_MEMO_H
#include <stdbool.h>

#include "sim/experiment/profile_model.h"

struct profile_memo;
struct profile_memo *profile_memo_new(void);
void profile_memo_free(struct profile_memo *m); /* NULL is fine */

/* The buckets known under one rule. Valid until the next call. rule->fit->system->params is told by its address: the
 * same parameters must stay the same object, and live as long as the memo. */
struct memo_rule;
struct memo_rule *profile_memo_rule(struct profile_memo *m, const struct profile_rule *rule);

/* By b->shape: fills best, detail (the caller's) and infeasible. False: not known. */
bool profile_memo_find(const struct memo_rule *known, struct bucket_profile *b);
/* After profile_memo_find said no. */
void profile_memo_keep(struct profile_memo *m, struct memo_rule *known, const struct bucket_profile *b);

#endif
