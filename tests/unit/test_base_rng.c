/* Random streams: the same everywhere, one per purpose. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "sim/base/rng.h"

/* From an independent MT19937 in Python. A change of them changes every shuffled result. */
Test(base_rng, known_values) {
  cr_assert_eq(rng_stream_seed(0, "shuffle"), UINT64_C(12960674278174502678));
  struct rng rng;
  rng_init(&rng, 0, "shuffle");
  uint32_t v[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  rng_shuffle(&rng, v, 8);
  static const uint32_t expected[8] = {2, 6, 3, 0, 1, 5, 4, 7};
  for (int i = 0; i < 8; i++)
    cr_expect_eq(v[i], expected[i], "v[%d] = %u", i, v[i]);
  cr_expect_eq(rng_uniform(&rng), 0.41255895933136344);
  cr_expect_eq(rng_below(&rng, 1000000), 981158u);
  rng_release(&rng);
}

Test(base_rng, streams_differ_by_purpose_and_seed) {
  cr_assert_neq(rng_stream_seed(0, "shuffle"), rng_stream_seed(1, "shuffle"));
  cr_assert_neq(rng_stream_seed(0, "shuffle"), rng_stream_seed(0, "jitter"));
  cr_assert_neq(rng_stream_seed(0, ""), rng_stream_seed(1, ""));
  struct rng a, b;
  rng_init(&a, 5, "x");
  rng_init(&b, 5, "x");
  for (int i = 0; i < 1000; i++)
    cr_assert_eq(rng_uniform(&a), rng_uniform(&b));
  rng_release(&a);
  rng_release(&b);
  rng_release(&b); /* twice is harmless */
}

Test(base_rng, distributions) {
  struct rng rng;
  rng_init(&rng, 7, "test");
  enum { N = 100000 };
  double sum = 0, squares = 0;
  int counts[10] = {0};
  for (int i = 0; i < N; i++) {
    double g = rng_gaussian(&rng);
    sum += g;
    squares += g * g;
    uint64_t k = rng_below(&rng, 10);
    cr_assert_lt(k, 10);
    counts[k]++;
    double u = rng_uniform(&rng);
    cr_assert(u >= 0 && u < 1);
  }
  cr_assert_lt(fabs(sum / N), 4 / sqrt(N));
  cr_assert_lt(fabs(squares / N - 1), 4 * sqrt(2.0 / N));
  for (int i = 0; i < 10; i++)
    cr_assert_lt(fabs(counts[i] - N / 10.0), 4 * sqrt(N * 0.09));
  rng_release(&rng);
}

/* Every order of three comes up about equally often, and nothing is lost. */
Test(base_rng, shuffle_is_fair) {
  struct rng rng;
  rng_init(&rng, 3, "test");
  int counts[27] = {0};
  enum { N = 60000 };
  for (int i = 0; i < N; i++) {
    uint32_t v[3] = {0, 1, 2};
    rng_shuffle(&rng, v, 3);
    cr_assert(v[0] != v[1] && v[1] != v[2] && v[0] != v[2]);
    counts[v[0] * 9 + v[1] * 3 + v[2]]++;
  }
  for (int i = 0; i < 27; i++)
    cr_assert(counts[i] == 0 || abs(counts[i] - N / 6) < 4 * 92);
  rng_shuffle(&rng, NULL, 0);
  rng_release(&rng);
}
