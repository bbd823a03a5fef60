/* Accumulation: the golden vectors, and exact agreement with the published triple loop. */
#include "sim/policy/gas.h"
#include "tests/unit/test_policy_helpers.h"

/* The slow twin: the rule as published. */
static void triple_loop(const double *t, int n, int max_gas, int min_gas, int *gas) {
  double cap = 0, best = INFINITY;
  int *trial = xmalloc((size_t)n * sizeof *trial), most = 0;
  for (int i = 0; i < n; i++)
    cap = t[i] * max_gas > cap ? t[i] * max_gas : cap;
  for (int i = 0; i < n; i++)
    for (int m = 1; m <= (int)(cap / t[i]); m++) {
      double target = m * t[i], total = 0;
      for (int j = 0; j < n; j++) {
        double least = INFINITY;
        for (int k = 1; k <= (int)(cap / t[j]); k++) {
          double penalty = k * t[j] > target ? 1.2 * (k * t[j] - target) : target - k * t[j];
          if (penalty < least) {
            least = penalty;
            trial[j] = k;
          }
        }
        total += least;
      }
      if (total < best) {
        best = total;
        memcpy(gas, trial, (size_t)n * sizeof *gas);
      }
    }
  for (int i = 0; i < n; i++)
    most = gas[i] > most ? gas[i] : most;
  for (int i = 0; i < n && most < min_gas; i++)
    gas[i] *= (min_gas + most - 1) / most;
  free(trial);
}

static void check(const double *t, int n, int max_gas, int min_gas, const int *want, const char *place) {
  int got[64];
  gas_choose(t, n, max_gas, min_gas, got);
  for (int i = 0; i < n; i++)
    cr_assert_eq(got[i], want[i], "%s: gas[%d] is %d, not %d (max %d, min %d)", place, i, got[i], want[i], max_gas,
                 min_gas);
}

Test(gas, golden_vectors) {
  json_t *root = load_vectors(VECTORS "dcp_schedules.json"), *vectors = json_object_get(root, "gas");
  cr_assert_eq(json_array_size(vectors), 40);
  for (size_t v = 0; v < 40; v++) {
    json_t *x = json_array_get(vectors, v), *times = json_object_get(x, "times"), *gas = json_object_get(x, "gas");
    double t[64];
    int want[64], n = (int)json_array_size(times);
    char place[32];
    for (int i = 0; i < n; i++) {
      t[i] = json_number_value(json_array_get(times, (size_t)i));
      want[i] = (int)json_integer_value(json_array_get(gas, (size_t)i));
    }
    snprintf(place, sizeof place, "gas[%zu]", v);
    check(t, n, int_at(x, "max_gas"), int_at(x, "min_gas"), want, place);
  }
  json_decref(root);
}

Test(gas, small_cases_by_hand) {
  static const struct {
    double t[4];
    int n, max_gas, min_gas, want[4];
  } cases[] = {
      {{4, 2, 1}, 3, 1, 1, {1, 2, 4}},
      {{4, 2.5, 1}, 3, 5, 2, {5, 8, 20}},
      {{4, 2.5, 1, 0.75}, 4, 5, 2, {5, 8, 20, 26}},
      {{10, 7, 3}, 3, 3, 2, {2, 3, 7}},
      {{5, 3}, 2, 1, 1, {1, 1}},
      {{5, 3}, 2, 2, 1, {2, 3}},
      {{2, 1.3, 0.7, 0.6}, 4, 5, 2, {4, 6, 11, 13}},
      {{3, 3, 3}, 3, 5, 2, {2, 2, 2}},
      {{3, 3, 3}, 3, 5, 15, {15, 15, 15}},
      {{2, 1}, 2, 1, 15, {8, 16}},
      {{0.7}, 1, 3, 1, {1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check(cases[i].t, cases[i].n, cases[i].max_gas, cases[i].min_gas, cases[i].want, "by hand");
}

/* Times on a decimal grid (where products and quotients round across integers), with repeats, or any doubles. */
static int random_times(struct rng *rng, double *t) {
  int n = 1 + (int)rng_below(rng, 8), kind = (int)rng_below(rng, 3);
  double unit = kind == 0 ? 0.05 : kind == 1 ? 0.1 : 0;
  for (int i = 0; i < n; i++) {
    t[i] = unit > 0 ? unit * (double)(1 + rng_below(rng, 64)) : exp(rng_uniform(rng) * log(64.0));
    if (i > 0 && rng_below(rng, 3) == 0)
      t[i] = t[rng_below(rng, (uint64_t)i)];
  }
  return n;
}

Test(gas, equals_the_triple_loop) {
  struct rng rng;
  rng_init(&rng, 1, "test.gas");
  for (int round = 0; round < 6000; round++) {
    double t[64];
    int want[64], n = random_times(&rng, t), max_gas = 1 + (int)rng_below(&rng, 5),
                  min_gas = 1 + (int)rng_below(&rng, 16);
    char place[64];
    triple_loop(t, n, max_gas, min_gas, want);
    snprintf(place, sizeof place, "round %d (%d times, first %.17g)", round, n, t[0]);
    check(t, n, max_gas, min_gas, want, place);
  }
  rng_release(&rng);
}
