/* Holds per second of the event queue: with n entries pending, take the least and put one back a random time later. */
#include <stdio.h>

#include "sim/base/heap.h"
#include "sim/base/progress.h"
#include "sim/base/rng.h"
#include "sim/base/units.h"

#define HOLDS 2000000
#define INCREMENTS 65536

static double holds_per_s(const int64_t *increments, int pending) {
  struct heap heap = {0};
  for (int i = 0; i < pending; i++)
    heap_push(&heap, increments[i % INCREMENTS], (uint32_t)i);
  for (int i = 0; i < pending; i++) { /* until the queue has its steady shape */
    struct heap_entry e = heap_pop(&heap);
    heap_push(&heap, e.key + increments[i % INCREMENTS], e.payload);
  }
  int64_t started = wall_clock_ns();
  for (int i = 0; i < HOLDS; i++) {
    struct heap_entry e = heap_pop(&heap);
    heap_push(&heap, e.key + increments[i % INCREMENTS], e.payload);
  }
  double seconds = s_from_ns(wall_clock_ns() - started);
  heap_release(&heap);
  return HOLDS / seconds;
}

int main(void) {
  static int64_t increments[INCREMENTS];
  struct rng rng;
  rng_init(&rng, 0, "bench");
  for (int i = 0; i < INCREMENTS; i++)
    increments[i] = (int64_t)rng_below(&rng, 1000000);
  rng_release(&rng);
  static const int pending[] = {1024, 32768};
  printf("%10s %16s\n", "pending", "million holds/s");
  for (size_t i = 0; i < sizeof pending / sizeof pending[0]; i++)
    printf("%10d %16.1f\n", pending[i], holds_per_s(increments, pending[i]) / 1e6);
  return 0;
}
