#include "sim/base/heap.h"

#include <stdlib.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

static inline int before(const struct heap_entry *a, const struct heap_entry *b) {
  return a->key != b->key ? a->key < b->key : a->seq < b->seq;
}

void heap_release(struct heap *h) {
  free(h->v);
  *h = (struct heap){0};
}

void heap_clear(struct heap *h) {
  h->n = 0;
  h->next_seq = 0;
}

void heap_push(struct heap *h, int64_t key, uint32_t payload) {
  struct heap_entry e = {key, h->next_seq++, payload};
  VEC_PUSH(h->v, h->n, h->cap, e);
  size_t i = h->n - 1;
  while (i > 0) {
    size_t parent = (i - 1) / 2;
    if (!before(&e, &h->v[parent]))
      break;
    h->v[i] = h->v[parent];
    i = parent;
  }
  h->v[i] = e;
}

struct heap_entry heap_pop(struct heap *h) {
  ASSERT(h->n > 0);
  struct heap_entry top = h->v[0], last = h->v[--h->n];
  size_t i = 0, n = h->n;
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= n)
      break;
    if (child + 1 < n && before(&h->v[child + 1], &h->v[child]))
      child++;
    if (!before(&h->v[child], &last))
      break;
    h->v[i] = h->v[child];
    i = child;
  }
  if (n)
    h->v[i] = last;
  return top;
}
