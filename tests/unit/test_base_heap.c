/* The heap gives the least key first, and equal keys in the order of insertion. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "sim/base/heap.h"
#include "sim/base/rng.h"
#include "sim/base/units.h"

static int by_key_and_number(const void *a, const void *b) {
  const struct heap_entry *x = a, *y = b;
  if (x->key != y->key)
    return x->key < y->key ? -1 : 1;
  return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Few distinct keys, so that most comparisons are ties. */
Test(base_heap, agrees_with_a_sort) {
  struct rng rng;
  rng_init(&rng, 1, "test");
  struct heap heap = {0};
  for (size_t n = 1; n <= 1000; n += 37) {
    heap_clear(&heap);
    struct heap_entry *sorted = xmalloc(n * sizeof *sorted);
    for (size_t i = 0; i < n; i++) {
      int64_t key = (int64_t)rng_below(&rng, n / 4 + 2) - 1;
      sorted[i] = (struct heap_entry){key, i, (uint32_t)(i * 7)};
      heap_push(&heap, key, (uint32_t)(i * 7));
    }
    qsort(sorted, n, sizeof *sorted, by_key_and_number);
    for (size_t i = 0; i < n; i++) {
      cr_assert_eq(heap_top(&heap)->key, sorted[i].key);
      struct heap_entry e = heap_pop(&heap);
      cr_assert(e.key == sorted[i].key && e.seq == sorted[i].seq && e.payload == sorted[i].payload);
    }
    cr_assert_null(heap_top(&heap));
    free(sorted);
  }
  heap_release(&heap);
  rng_release(&rng);
}

/* The hold model: pops never go back in time, and equal times keep their order, also when pushes and pops mix. */
Test(base_heap, mixed_pushes_and_pops_keep_order) {
  struct rng rng;
  rng_init(&rng, 2, "test");
  struct heap heap = {0};
  for (int i = 0; i < 100; i++)
    heap_push(&heap, (int64_t)rng_below(&rng, 5), 0);
  struct heap_entry last = {-1, 0, 0};
  for (int i = 0; i < 100000; i++) {
    struct heap_entry e = heap_pop(&heap);
    cr_assert(by_key_and_number(&last, &e) < 0 || e.key > last.key);
    last = e;
    heap_push(&heap, e.key + (int64_t)rng_below(&rng, 3), 0);
  }
  heap_release(&heap);
  rng_release(&rng);
}
