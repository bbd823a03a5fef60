/* Schedules against the golden vectors: what an independent implementation of the published rules made. */
#include "tests/unit/test_policy_helpers.h"

/* The groups that a vector expects, in either of its two forms. */
static json_t *expected_groups(json_t *iteration) {
  json_t *groups = json_object_get(iteration, "groups");
  return groups ? groups : json_object_get(iteration, "final");
}

static void check_group(const struct plan_iteration *it, const struct plan_group *g, const struct profile *p,
                        json_t *want, const char *place) {
  bool listed = json_is_array(want); /* [bucket, batch, sp, time_s] */
  const char *name = json_string_value(listed ? json_array_get(want, 0) : json_object_get(want, "b"));
  int sp = listed ? (int)json_integer_value(json_array_get(want, 2)) : int_at(want, "sp");
  double time_s = listed ? json_number_value(json_array_get(want, 3)) : number_at(want, "time");
  cr_assert(strcmp(p->buckets[g->bucket].name, name) == 0 && g->sp == sp, "%s: %s@%d, not %s@%d", place,
            p->buckets[g->bucket].name, g->sp, name, sp);
  cr_assert_float_eq(g->time_s, time_s, 1e-4 * fmax(1, time_s), "%s: %g s, not %g s", place, g->time_s, time_s);
  json_t *counts = json_object_get(want, "bs");
  cr_assert_eq(g->n_micro_batches, listed ? 1 : json_array_size(counts), "%s: micro-batches", place);
  for (size_t i = 0; i < g->n_micro_batches; i++)
    cr_assert_eq(it->micro_batches[g->first_micro_batch + i].count,
                 json_integer_value(listed ? json_array_get(want, 1) : json_array_get(counts, i)), "%s: samples",
                 place);
}

static void check_iteration(const struct plan_iteration *it, const struct profile *p, json_t *want, const char *place) {
  json_t *groups = expected_groups(want), *gas = json_object_get(want, "planned_gas");
  cr_assert_eq(it->n_groups, json_array_size(groups), "%s: %zu groups, not %zu", place, it->n_groups,
               json_array_size(groups));
  int rank = 0;
  for (size_t i = 0; i < it->n_groups; i++) {
    check_group(it, &it->groups[i], p, json_array_get(groups, i), place);
    cr_assert(it->groups[i].first_rank == rank && rank % it->groups[i].sp == 0, "%s: group %zu not aligned", place, i);
    rank += it->groups[i].sp;
    if (gas)
      cr_assert_eq(it->groups[i].planned_gas, json_integer_value(json_array_get(gas, i)), "%s: gas", place);
  }
  json_t *time_s = json_object_get(want, "iter_time");
  if (time_s)
    cr_assert_float_eq(it->time_s, json_number_value(time_s), 1e-4 * fmax(1, it->time_s), "%s", place);
}

static void check_vector(const char *policy, json_t *v, const char *place) {
  struct profile p = profile_of_vector(v);
  json_t *picks = json_object_get(v, "picks"), *iterations = json_object_get(v, "iters");
  int *injected = xcalloc(json_array_size(picks) + 1, sizeof *injected);
  for (size_t i = 0; i < json_array_size(picks); i++)
    injected[i] = bucket_index(&p, json_string_value(json_array_get(picks, i)));
  struct policy_input in = {.world = p.world,
                            .profile = &p,
                            .injected_picks = injected,
                            .n_injected_picks = (int)json_array_size(picks),
                            .options = {.remainder = json_is_true(json_object_get(v, "drop_last"))
                                                         ? REMAINDER_DROP_LAST
                                                         : REMAINDER_KEEP_LAST,
                                        .pick = PICK_DETERMINISTIC,
                                        .max_gas = int_at(v, "max_gas"),
                                        .min_gas = int_at(v, "min_gas")}};
  struct policy_run *run = open_run(policy, &in);
  struct plan_iteration it = {0};
  int64_t total = 0, accounted = 0;
  char at[96];
  for (size_t i = 0; i <= json_array_size(iterations); i++) {
    int more = policy_next(run, &it, NULL);
    snprintf(at, sizeof at, "%s, iteration %zu", place, i);
    cr_assert_eq(more, i < json_array_size(iterations), "%s: number of iterations", at);
    if (more)
      check_iteration(&it, &p, json_array_get(iterations, i), at);
    accounted += samples_of(&it) + dropped_of(&it);
  }
  for (int b = 0; b < p.n_buckets; b++)
    total += p.buckets[b].samples;
  cr_assert_eq(accounted, total, "%s: %lld of %lld samples", place, (long long)accounted, (long long)total);
  policy_close(run);
  plan_iteration_release(&it);
  profile_release(&p);
  free(injected);
}

static void check_file(const char *file, const char *key, const char *policy, size_t expected) {
  json_t *root = load_vectors(file), *vectors = json_object_get(root, key);
  char place[64];
  cr_assert_eq(json_array_size(vectors), expected);
  for (size_t i = 0; i < expected; i++) {
    snprintf(place, sizeof place, "%s[%zu]", key, i);
    check_vector(policy, json_array_get(vectors, i), place);
  }
  json_decref(root);
}

Test(policy_vectors, dcp_inter) { check_file(VECTORS "dcp_schedules.json", "inter", "dcp_inter", 30); }

/* dcp is the same schedule from another profile. */
Test(policy_vectors, dcp) { check_file(VECTORS "dcp_schedules.json", "inter", "dcp", 30); }

Test(policy_vectors, dcp_rebalance) { check_file(VECTORS "dcp_schedules.json", "intra", "dcp_rebalance", 30); }

Test(policy_vectors, dcp_rebalance_with_picks) {
  check_file(VECTORS "dcp_rebalance_picks.json", "rebalance", "dcp_rebalance", 8);
}
