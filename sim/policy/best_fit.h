/* best_fit.h: open packs ordered by (room, number): finds the tightest one with room for a sample in O(log packs).
 * A treap whose priorities are a hash of the pack number, so that its shape does not depend on anything else. */
#ifndef SIM_POLICY_BEST_FIT_H
#define SIM_POLICY_BEST_FIT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct best_fit_node {
  int64_t room;
  uint32_t left, right; /* pack + 1; 0: none */
};

struct best_fit {
  struct best_fit_node *nodes; /* by pack */
  size_t cap;
  uint32_t root;
};

void best_fit_release(struct best_fit *f);
/* The pack must not be in already. */
void best_fit_insert(struct best_fit *f, uint32_t pack, int64_t room);
/* Takes out the pack with the least room >= need, of equal ones the lowest number. False: none has. */
bool best_fit_take(struct best_fit *f, int64_t need, uint32_t *pack, int64_t *room);

#endif
