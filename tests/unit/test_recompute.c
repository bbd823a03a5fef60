/* The recomputation knapsack: golden vectors, and the optimum by trying everything. */
#include "sim/policy/recompute.h"
#include "tests/unit/test_policy_helpers.h"

static double weight(const struct recompute_module *m, int count, int round_gib) {
  double bytes = m->activation_bytes * count;
  return round_gib ? ceil(bytes / GIB_BYTES) * GIB_BYTES : bytes;
}

Test(recompute, golden_vectors) {
  json_t *root = load_vectors(VECTORS "dcp_schedules.json"), *vectors = json_object_get(root, "pac");
  cr_assert_eq(json_array_size(vectors), 20);
  for (size_t v = 0; v < 20; v++) {
    json_t *x = json_array_get(vectors, v), *modules = json_object_get(x, "modules");
    int n = (int)json_array_size(modules), keep[4];
    struct recompute_module m[4];
    for (int i = 0; i < n; i++) {
      json_t *row = json_array_get(modules, (size_t)i);
      m[i] = (struct recompute_module){number_at(row, "fwd_s"), number_at(row, "act_gib") * GIB_BYTES};
    }
    double saved = recompute_choose(m, n, int_at(x, "layers"), number_at(x, "avail_gib") * GIB_BYTES, 1, keep);
    cr_assert_float_eq(saved, number_at(x, "saved_s"), 1e-9, "pac[%zu]", v);
    for (int i = 0; i < n; i++)
      cr_assert_eq(keep[i], json_integer_value(json_array_get(json_object_get(x, "cfg"), (size_t)i)), "pac[%zu]", v);
  }
  json_decref(root);
}

Test(recompute, four_amounts_of_memory) {
  const struct recompute_module m[2] = {{0.10, 1.5 * GIB_BYTES}, {0.08, 0.9 * GIB_BYTES}};
  static const struct {
    double spare_gib, saved_s;
    int keep[2];
  } cases[] = {{10, 0.88, {0, 11}}, {60, 4.48, {24, 26}}, {100, 5.04, {28, 28}}, {0, 0, {0, 0}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int keep[2];
    double saved = recompute_choose(m, 2, 28, cases[i].spare_gib * GIB_BYTES, 1, keep);
    cr_assert_float_eq(saved, cases[i].saved_s, 1e-9);
    cr_assert(keep[0] == cases[i].keep[0] && keep[1] == cases[i].keep[1], "spare %g: %d %d", cases[i].spare_gib,
              keep[0], keep[1]);
  }
}

/* Whole seconds, so that ties are exact: the first counted up slowest is the LAST module, smaller counts winning. */
static double try_all(const struct recompute_module *m, int layers, double spare, int round_gib, int keep[3]) {
  double best = -1;
  for (int c = 0; c <= layers; c++)
    for (int b = 0; b <= layers; b++)
      for (int a = 0; a <= layers; a++) {
        double saved = m[0].forward_s * a + m[1].forward_s * b + m[2].forward_s * c;
        if (weight(&m[0], a, round_gib) + weight(&m[1], b, round_gib) + weight(&m[2], c, round_gib) > spare ||
            saved <= best)
          continue;
        best = saved;
        keep[0] = a, keep[1] = b, keep[2] = c;
      }
  return best;
}

Test(recompute, equals_trying_everything) {
  struct rng rng;
  rng_init(&rng, 1, "test.recompute");
  for (int round = 0; round < 600; round++) {
    int layers = 1 + (int)rng_below(&rng, 9), round_gib = (int)rng_below(&rng, 2), keep[3], want[3] = {0};
    struct recompute_module m[3];
    for (int i = 0; i < 3; i++)
      m[i] = (struct recompute_module){(double)rng_below(&rng, 6), (double)rng_below(&rng, 40) * GIB_BYTES / 8};
    double spare = (double)rng_below(&rng, 60) * GIB_BYTES;
    double saved = recompute_choose(m, 3, layers, spare, round_gib, keep);
    double best = try_all(m, layers, spare, round_gib, want);
    cr_assert_eq(saved, best, "round %d: %g, not %g", round, saved, best);
    for (int i = 0; i < 3; i++)
      cr_assert_eq(keep[i], want[i], "round %d: module %d keeps %d, not %d", round, i, keep[i], want[i]);
  }
  rng_release(&rng);
}
