/* sequences.h: which queries attend to which keys, as entries of attention.h. Keys that nobody may see, behind a padded
 * sequence's real ones, are an entry without queries: masks are exact. Private to sim/execute. */
#ifndef SIM_EXECUTE_SEQUENCES_H
#define SIM_EXECUTE_SEQUENCES_H
#include "sim/execute/player.h"

struct sequences {
  int32_t *q, *k; /* n + 1 rising rows */
  size_t n, cap;
  int64_t longest_q, longest_k;
  void *cu_q, *cu_k; /* the same on the device */
};

void sequences_clear(struct sequences *s);
void sequences_release(struct sequences *s);
/* `queries` rows that see `seen` of the next `keys` rows. */
void sequences_add(struct sequences *s, int64_t queries, int64_t keys, int64_t seen);
void sequences_take(struct player *p, struct sequences *s); /* room on the device, from the arena */
int sequences_upload(struct player *p, const struct sequences *s, struct err *err);
/* Sets the parts of a call that say who attends to whom. */
void sequences_use(const struct sequences *s, struct attention_call *call);

#endif
