/* heap.h: binary min-heap of (key, insertion number) -> payload: an event queue whose ties keep insertion order. */
#ifndef SIM_BASE_HEAP_H
#define SIM_BASE_HEAP_H
#include <stddef.h>
#include <stdint.h>

struct heap_entry {
  int64_t key;
  uint64_t seq;
  uint32_t payload;
};

struct heap {
  struct heap_entry *v;
  size_t n, cap;
  uint64_t next_seq;
};

void heap_release(struct heap *h);
void heap_clear(struct heap *h); /* keeps the memory; restarts insertion numbers */
void heap_push(struct heap *h, int64_t key, uint32_t payload);
/* The least (key, seq); the heap must not be empty. */
struct heap_entry heap_pop(struct heap *h);
static inline const struct heap_entry *heap_top(const struct heap *h) { return h->n ? &h->v[0] : NULL; }

#endif
