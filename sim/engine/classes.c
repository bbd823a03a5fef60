#include "sim/engine/classes.h"

#include <math.h>
#include <string.h>

#include "sim/base/err.h"
#include "sim/base/units.h"

static int64_t rate_units(double rate) { return int64_max(1, llround(rate * (double)UNITS_PER_NS)); }

void classes_init(struct classes *c, double overlap_slowdown_frac, bool core_limited) {
  *c = (struct classes){.n = CLASS_FIRST_EXCHANGE, .core_limited = core_limited};
  c->overlapped_rate = rate_units(1 / (1 + overlap_slowdown_frac));
  classes_reset(c);
}

void classes_reset(struct classes *c) {
  for (int i = 0; i < c->n; i++) {
    heap_clear(&c->v[i].members);
    c->v[i].units = c->v[i].since_ns = 0;
    c->v[i].rate = UNITS_PER_NS;
  }
  c->signature = 0;
}

void classes_release(struct classes *c) {
  for (int i = 0; i < MAX_CLASSES; i++)
    heap_release(&c->v[i].members);
}

int classes_exchange(struct classes *c, const double load[PORT_KINDS]) {
  for (int i = CLASS_FIRST_EXCHANGE; i < c->n; i++)
    if (memcmp(c->v[i].load, load, sizeof c->v[i].load) == 0)
      return i;
  ASSERT(c->n < MAX_CLASSES);
  struct work_class_clock *k = &c->v[c->n];
  memcpy(k->load, load, sizeof k->load);
  k->rate = UNITS_PER_NS;
  return c->n++;
}

static int64_t clock_at(const struct work_class_clock *k, int64_t now_ns) {
  return k->units + (now_ns - k->since_ns) * k->rate;
}

/* Once an hour of work is done without a pause the clock goes back to 0, and its members with it. */
static void restart_clock(struct work_class_clock *k, int64_t now_ns) {
  int64_t units = clock_at(k, now_ns);
  for (size_t i = 0; i < k->members.n; i++)
    k->members.v[i].key -= units;
  k->units = 0;
  k->since_ns = now_ns;
}

void classes_start(struct classes *c, int class, int64_t now_ns, int64_t ns, uint32_t payload) {
  struct work_class_clock *k = &c->v[class];
  if (k->members.n == 0) { /* an empty class has no past: restart its clock, so that it cannot overflow */
    k->units = 0;
    k->since_ns = now_ns;
  }
  if (clock_at(k, now_ns) > INT64_MAX / 2)
    restart_clock(k, now_ns);
  heap_push(&k->members, clock_at(k, now_ns) + work_units(ns), payload);
}

int64_t classes_next_ns(const struct classes *c, int *class) {
  int64_t best = INT64_MAX;
  for (int i = 0; i < c->n; i++) {
    const struct work_class_clock *k = &c->v[i];
    const struct heap_entry *top = heap_top(&k->members);
    if (!top)
      continue;
    int64_t left = int64_max(0, top->key - k->units);
    int64_t t = k->since_ns + (k->rate == UNITS_PER_NS ? (left + UNITS_PER_NS - 1) >> 20 : ceil_div(left, k->rate));
    if (t < best) {
      best = t;
      *class = i;
    }
  }
  return best;
}

uint32_t classes_finish(struct classes *c, int class, int64_t now_ns) {
  struct work_class_clock *k = &c->v[class];
  (void)now_ns;
  return heap_pop(&k->members).payload;
}

/* What the rates depend on: which exchange classes are present (their counts where the core limits), and the
 * collective. */
static uint64_t signature_of(const struct classes *c) {
  uint64_t h = 1;
  for (int i = CLASS_COLLECTIVE; i < c->n; i++) {
    uint64_t n = c->v[i].members.n;
    h = h * 1099511628211u + (c->core_limited ? n : n > 0) + 1;
  }
  return h;
}

static void set_rate(struct work_class_clock *k, int64_t now_ns, int64_t rate) {
  if (rate == k->rate)
    return;
  k->units = k->members.n > 0 ? clock_at(k, now_ns) : 0;
  k->since_ns = now_ns;
  k->rate = rate;
}

void classes_update(struct classes *c, int64_t now_ns) {
  uint64_t signature = signature_of(c);
  if (signature == c->signature)
    return;
  c->signature = signature;
  struct flow_class flows[MAX_CLASSES] = {0};
  for (int i = CLASS_COLLECTIVE; i < c->n; i++) {
    flows[i].count = (int64_t)c->v[i].members.n;
    flows[i].everywhere = i == CLASS_COLLECTIVE;
    memcpy(flows[i].load, c->v[i].load, sizeof flows[i].load);
  }
  flow_share(flows + CLASS_COLLECTIVE, c->n - CLASS_COLLECTIVE);
  for (int i = CLASS_COLLECTIVE; i < c->n; i++)
    set_rate(&c->v[i], now_ns, flows[i].count ? rate_units(flows[i].rate) : UNITS_PER_NS);
  bool beside = c->v[CLASS_COLLECTIVE].members.n > 0;
  set_rate(&c->v[CLASS_COMPUTE], now_ns, beside ? c->overlapped_rate : UNITS_PER_NS);
}
