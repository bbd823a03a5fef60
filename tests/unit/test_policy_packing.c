/* Packing against slow, obvious twins, and by hand. */
#include "sim/policy/packing.h"
#include "tests/unit/test_policy_helpers.h"

static struct sample_set set_of(const uint32_t *tokens, int64_t n) {
  struct sample_set s = {.n = n, .samples = xcalloc((size_t)n + 1, sizeof *s.samples)};
  for (int64_t i = 0; i < n; i++)
    s.samples[i] = (struct sample){tokens[i], 1};
  return s;
}

/* "5 3|4": tokens of the samples of each pack. */
static const char *text_of(const struct packs *p, const struct sample_set *s, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = 0;
  for (size_t i = 0; i < p->n; i++)
    for (int64_t j = 0; j < p->v[i].n; j++)
      at += (size_t)snprintf(buf + at, size - at, "%s%u",
                             j   ? " "
                             : i ? "|"
                                 : "",
                             s->samples[p->entries[p->v[i].first + j]].a);
  return buf;
}

static void check_packs(enum packing packing, int width, const char *want, const char *topped_up) {
  static const uint32_t tokens[] = {6, 3, 5, 2, 99, 4, 7, 1, 3};
  struct sample_set s = set_of(tokens, 9);
  struct packs p;
  char text[256];
  packs_make(&p, &s, NULL, packing, 10, width);
  cr_assert_str_eq(text_of(&p, &s, text, sizeof text), want);
  packs_top_up(&p, width);
  cr_assert_str_eq(text_of(&p, &s, text, sizeof text), topped_up);
  packs_release(&p);
  sample_set_release(&s);
}

Test(policy_packing, by_hand) {
  check_packs(PACKING_NEXT_FIT, 4, "6 3|5 2|4|7 1|3", "6|5|4|7|3|1|2|3");
  check_packs(PACKING_NEXT_FIT, 5, "6 3|5 2|4|7 1|3", "6 3|5 2|4|7 1|3");
  check_packs(PACKING_BFD, 2, "7 3|6 4|5 3 2|1", "7 3|6 4|5 3 2|1");
  /* Windows of two packs, longest first: 6 5 3 2, then 7 4 1, then 3. 3 and 2 join 5: 25 + 9 is less than 36. */
  check_packs(PACKING_LPT, 2, "6|5 3 2|7|4 1|3", "6|5 3 2|7|4|3|1");
}

/* Moving single samples cannot go on for ever. */
Test(policy_packing, top_up_stops_when_no_pack_can_be_split) {
  static const uint32_t tokens[] = {9, 9, 9};
  struct sample_set s = set_of(tokens, 3);
  struct packs p;
  packs_make(&p, &s, NULL, PACKING_NEXT_FIT, 10, 2);
  packs_top_up(&p, 2);
  cr_assert_eq(p.n, 3);
  packs_release(&p);
  sample_set_release(&s);
}

/* Positions of the samples longest first, equal ones in arrival order. */
static int64_t *longest_first(const struct sample_set *s, int64_t from, int64_t to) {
  int64_t *v = xcalloc((size_t)(to - from) + 1, sizeof *v);
  for (int64_t i = from; i < to; i++) {
    int64_t j = i - from;
    for (; j > 0 && s->samples[v[j - 1]].a < s->samples[i].a; j--)
      v[j] = v[j - 1];
    v[j] = i;
  }
  return v;
}

struct bin {
  int64_t room;
  double load;
};

/* bfd: least room that suffices, by looking at all. Returns the number of packs; pack[i] of each sample. */
static int slow_bfd(const struct sample_set *s, int64_t capacity, int *pack) {
  int64_t *order = longest_first(s, 0, s->n);
  struct bin *bins = xcalloc((size_t)s->n + 1, sizeof *bins);
  int n = 0;
  for (int64_t i = 0; i < s->n; i++) {
    int64_t tokens = s->samples[order[i]].a;
    int best = -1;
    for (int b = 0; b < n; b++)
      if (bins[b].room >= tokens && (best < 0 || bins[b].room < bins[best].room))
        best = b;
    if (best < 0)
      bins[best = n++].room = capacity;
    bins[best].room -= tokens;
    pack[order[i]] = best;
  }
  free(order);
  free(bins);
  return n;
}

/* lpt of one window: least load that has room, by looking at all. */
static void slow_deal(const struct sample_set *s, int64_t from, int64_t to, int64_t capacity, int width, int *pack,
                      int *n_packs) {
  int64_t *order = longest_first(s, from, to);
  struct bin *bins = xcalloc((size_t)(to - from + width), sizeof *bins);
  int n = width;
  for (int b = 0; b < n; b++)
    bins[b].room = capacity;
  for (int64_t i = 0; i < to - from; i++) {
    int64_t tokens = s->samples[order[i]].a;
    int best = -1;
    for (int b = 0; b < n; b++)
      if (bins[b].room >= tokens && (best < 0 || bins[b].load < bins[best].load))
        best = b;
    if (best < 0)
      bins[best = n++].room = capacity;
    bins[best].room -= tokens;
    bins[best].load += (double)tokens * (double)tokens;
    pack[order[i]] = *n_packs + best;
  }
  *n_packs += n;
  free(order);
  free(bins);
}

static int slow_lpt(const struct sample_set *s, int64_t capacity, int width, int *pack) {
  int n_packs = 0;
  for (int64_t from = 0, to; from < s->n; from = to) {
    int64_t room = capacity;
    int n = 0;
    for (to = from; to < s->n; to++) {
      if (to == from || s->samples[to].a > room) {
        if (++n > width)
          break;
        room = capacity;
      }
      room -= s->samples[to].a;
    }
    slow_deal(s, from, to, capacity, width, pack, &n_packs);
  }
  return n_packs;
}

/* The same partition in the same order: packs without samples are not made. */
static void check_equal(const struct packs *p, const struct sample_set *s, const int *pack, int n_packs,
                        int64_t capacity) {
  size_t at = 0;
  for (int k = 0; k < n_packs; k++) {
    int64_t n = 0, tokens = 0;
    for (int64_t i = 0; i < s->n; i++)
      n += pack[i] == k;
    if (n == 0)
      continue;
    cr_assert(at < p->n && p->v[at].n == n);
    for (int64_t j = 0; j < n; j++) {
      uint32_t entry = p->entries[p->v[at].first + j];
      cr_assert_eq(pack[entry], k);
      tokens += s->samples[entry].a;
    }
    cr_assert_leq(tokens, capacity);
    at++;
  }
  cr_assert_eq(at, p->n);
}

Test(policy_packing, equals_the_slow_twins) {
  struct rng rng;
  rng_init(&rng, 1, "test.packing");
  for (int round = 0; round < 300; round++) {
    int64_t n = (int64_t)rng_below(&rng, 400), capacity = 20 + (int64_t)rng_below(&rng, 100);
    int width = 1 + (int)rng_below(&rng, 9);
    uint32_t *tokens = xcalloc((size_t)n + 1, sizeof *tokens);
    int *pack = xcalloc((size_t)n + 1, sizeof *pack);
    for (int64_t i = 0; i < n; i++)
      tokens[i] = 1 + (uint32_t)rng_below(&rng, round % 2 ? (uint64_t)capacity : 12);
    struct sample_set s = set_of(tokens, n);
    struct packs p;
    packs_make(&p, &s, NULL, PACKING_BFD, capacity, width);
    check_equal(&p, &s, pack, slow_bfd(&s, capacity, pack), capacity);
    packs_release(&p);
    packs_make(&p, &s, NULL, PACKING_LPT, capacity, width);
    check_equal(&p, &s, pack, slow_lpt(&s, capacity, width, pack), capacity);
    packs_release(&p);
    sample_set_release(&s);
    free(tokens);
    free(pack);
  }
  rng_release(&rng);
}

/* A million samples: best fit must not look at every pack. */
Test(policy_packing, best_fit_of_a_million) {
  struct rng rng;
  rng_init(&rng, 2, "test.packing");
  uint32_t *tokens = xcalloc(1000000, sizeof *tokens);
  int64_t sum = 0;
  for (int i = 0; i < 1000000; i++)
    sum += tokens[i] = 1 + (uint32_t)(exp(rng_uniform(&rng) * log(8192.0)));
  struct sample_set s = set_of(tokens, 1000000);
  struct packs p;
  packs_make(&p, &s, NULL, PACKING_BFD, 8193, 8);
  cr_assert_lt((double)p.n, 1.01 * (double)sum / 8193 + 1);
  packs_release(&p);
  sample_set_release(&s);
  free(tokens);
  rng_release(&rng);
}
