/* Small epochs worked out by hand, one per policy. */
#include "sim/policy/fill.h"
#include "tests/unit/test_policy_helpers.h"

struct epoch {
  int64_t samples, dropped;
  int iterations;
  double time_s, imbalance_s;
};

/* Runs to the end; `groups` (if given): what each of the first n iterations must look like. */
static struct epoch run_epoch(const char *policy, const struct policy_input *in, const char *const *groups, int n) {
  struct policy_run *run = open_run(policy, in);
  struct plan_iteration it = {0};
  struct epoch e = {0};
  char text[512];
  int rc;
  while ((rc = policy_next(run, &it, NULL)) > 0) {
    if (e.iterations < n)
      cr_assert_str_eq(describe(&it, in->profile, text, sizeof text), groups[e.iterations], "iteration %d",
                       e.iterations);
    e.iterations++;
    e.samples += samples_of(&it);
    e.dropped += dropped_of(&it);
    e.time_s += it.time_s;
    e.imbalance_s += it.imbalance_s;
  }
  cr_assert_eq(rc, 0);
  e.dropped += dropped_of(&it);
  policy_close(run);
  plan_iteration_release(&it);
  return e;
}

Test(policy_traces, bucket_balances_on_the_median) {
  static const struct row rows[] = {ROW("A", 3, 4, 1, 8), ROW("B", 9, 4, 4, 6), ROW("C", 40, 4, 16, 5),
                                    ROW("D", 130, 4, 64, 4)};
  static const char *const want[] = {"A@4 1x1 | A@4 1x1", "A@4 1x1 | B@4 1x3", "B@4 1x3 | B@4 1x3",
                                     "C@4 1x16 | C@4 1x16", "D@4 1x64 | D@4 1x64"};
  struct profile p = profile_of_rows(rows, 4, 8, 8);
  struct policy_input in = {.world = 8, .profile = &p, .options = {.remainder = REMAINDER_DROP_LAST}};
  struct epoch e = run_epoch("bucket", &in, want, 5);
  cr_assert(e.iterations == 5 && e.samples == 172 && e.dropped == 10);
  cr_assert_float_eq(e.time_s, 29.5, 1e-12);
  cr_assert_float_eq(e.imbalance_s / e.time_s, 0.059322, 1e-6);
  /* Fair: the remainders of C (8) and D (2) run too, the last iteration with one group. */
  in.options.remainder = REMAINDER_FAIR;
  e = run_epoch("bucket", &in, want, 3);
  cr_assert(e.samples == 182 && e.dropped == 0 && e.iterations == 6, "%d iterations", e.iterations);
  profile_release(&p);
}

Test(policy_traces, bucket_cuts_the_list) {
  static const struct row rows[] = {ROW("A", 5, 2, 2, 3)};
  struct profile p = profile_of_rows(rows, 1, 4, 4);
  struct policy_input in = {.world = 4, .profile = &p, .options = {.remainder = REMAINDER_KEEP_LAST}};
  struct epoch e = run_epoch("bucket", &in, NULL, 0); /* 2 + 2 | 1 cut */
  cr_assert(e.iterations == 1 && e.samples == 4 && e.dropped == 1);
  profile_release(&p);
}

Test(policy_traces, dcp_inter_evicts_short_buckets) {
  static const struct row rows[] = {ROW("A", 13, 4, 1, 4.0), ROW("B", 60, 2, 2, 2.5), ROW("C", 410, 1, 4, 1.0),
                                    ROW("D", 650, 1, 8, 0.75)};
  static const int picks[] = {0, 1, 2, 3, 2, 3, 0, 1};
  static const char *const want[] = {"A@4 5x1 | B@2 8x2 | C@1 20x4 | D@1 26x8",
                                     "A@4 5x1 | B@2 8x2 | C@1 20x4 | D@1 26x8",
                                     "B@2 2x2 | B@2 2x2 | B@2 2x2 | B@2 2x2"};
  struct profile p = profile_of_rows(rows, 4, 8, 8);
  struct policy_input in = {
      .world = 8,
      .profile = &p,
      .injected_picks = picks,
      .n_injected_picks = 8,
      .options = {.remainder = REMAINDER_DROP_LAST, .pick = PICK_DETERMINISTIC, .max_gas = 5, .min_gas = 2}};
  struct epoch e = run_epoch("dcp_inter", &in, want, 3);
  cr_assert(e.iterations == 7 && e.samples == 954 && e.dropped == 13 + 60 + 410 + 650 - 954);
  cr_assert_float_eq(e.time_s, 52.5, 1e-12);
  cr_assert_float_eq(e.imbalance_s / e.time_s, 0.002381, 1e-6);
  profile_release(&p);
}

Test(policy_traces, dcp_rebalance_rechooses_batch_and_sp) {
  static const struct row rows[] = {
      {"A", 2, 2, 1, 4.0, {{2, 1, 4.0, {0}}, {4, 2, 4.4, {0}}, {8, 4, 5.0, {0}}}},
      {"B", 8, 2, 2, 2.5, {{2, 2, 2.5, {0}}, {4, 4, 2.8, {0}}, {8, 8, 3.4, {0}}}},
      {"C", 80, 1, 8, 2.0, {{1, 8, 2.0, {0}}, {2, 16, 2.2, {0}}, {4, 32, 2.6, {0}}, {8, 64, 3.6, {0}}}}};
  static const int picks[] = {0, 1, 1, 2, 2};
  static const char *const want[] = {"A@4 1x1 | B@4 1x3", "A@4 1x1 | B@2 1x2 | B@2 1x2",
                                     "C@1 1x8 | C@1 1x8 | C@1 1x8 | C@1 1x8 | C@1 1x8 | C@1 1x8 | C@1 1x8 | C@1 1x8"};
  struct profile p = profile_of_rows(rows, 3, 8, 8);
  struct policy_input in = {.world = 8,
                            .profile = &p,
                            .injected_picks = picks,
                            .n_injected_picks = 5,
                            .options = {.remainder = REMAINDER_DROP_LAST, .pick = PICK_DETERMINISTIC}};
  struct epoch e = run_epoch("dcp_rebalance", &in, want, 3);
  cr_assert(e.iterations == 3 && e.samples == 73 && e.dropped == 17, "%d %d", e.iterations, (int)e.samples);
  cr_assert_float_eq(e.time_s, 2.2 + 2.5 + 2.0, 1e-12);
  profile_release(&p);
}

/* keep_last: an exhausted bucket's quick batch stays as it is; 2.5 samples round to 2. */
Test(policy_traces, dcp_rebalance_details) {
  static const struct row left_alone[] = {{"A", 1, 1, 1, 1.0, {{1, 1, 1.0, {0}}, {2, 1, 1.9, {0}}}},
                                          {"B", 90, 1, 4, 2.0, {{1, 4, 2.0, {0}}}}};
  static const struct row half[] = {{"R", 90, 1, 1, 2.5, {{1, 1, 2.5, {0}}}}, {"Q", 90, 1, 4, 4.0, {{1, 4, 4.0, {0}}}}};
  static const char *const want_alone[] = {"A@1 1x1 | B@1 1x4 | B@1 1x4 | B@1 1x4"}, *const want_half[] = {
                                                                                         "R@1 1x1 | Q@1 1x2"};
  static const int picks[] = {0, 1};
  struct policy_input in = {.injected_picks = picks,
                            .n_injected_picks = 2,
                            .options = {.remainder = REMAINDER_KEEP_LAST, .pick = PICK_DETERMINISTIC}};
  struct profile p = profile_of_rows(left_alone, 2, 4, 4);
  in.profile = &p;
  in.world = 4;
  run_epoch("dcp_rebalance", &in, want_alone, 1);
  profile_release(&p);
  p = profile_of_rows(half, 2, 2, 2);
  in.world = 2;
  run_epoch("dcp_rebalance", &in, want_half, 1);
  profile_release(&p);
}

/* An sp that comes back stands at the end of the published list, hidden behind a larger one; fair puts it in place. */
Test(policy_traces, sp_that_comes_back) {
  static const struct row rows[] = {ROW("A", 3, 1, 1, 1.0), ROW("B", 3, 4, 1, 1.0)};
  struct profile p = profile_of_rows(rows, 2, 8, 8);
  for (int fair = 0; fair < 2; fair++) {
    struct policy_input in = {.world = 8, .profile = &p, .options = {.pick = PICK_DETERMINISTIC}};
    in.options.remainder = fair ? REMAINDER_FAIR : REMAINDER_KEEP_LAST;
    struct fill f;
    cr_assert_eq(fill_init(&f, &in, "test", true, NULL), 0);
    cr_assert(fill_pick(&f, 8) == 1 && fill_pick(&f, 2) == 0);
    fill_take(&f, 0, 3);
    cr_assert_eq(fill_pick(&f, 2), -1);
    fill_take(&f, 0, -2);
    cr_assert(fill_pick(&f, 8) == (fair ? 1 : 0) && fill_pick(&f, 2) == (fair ? 0 : -1));
    fill_take(&f, 1, 3);
    cr_assert(fill_pick(&f, 2) == 0 && !fill_done(&f));
    fill_take(&f, 0, 2);
    cr_assert(fill_done(&f));
    fill_release(&f);
  }
  profile_release(&p);
}

/* Shares of the picks from buckets of sp 1, 1, 1, 2, 4 with 1, 1, 2, 4, 8 micro-batches left. */
Test(policy_traces, pick_rules) {
  static const struct row rows[] = {ROW("A", 1, 1, 1, 1.0), ROW("B", 1, 1, 1, 1.0), ROW("C", 2, 1, 1, 1.0),
                                    ROW("D", 4, 2, 1, 1.0), ROW("E", 8, 4, 1, 1.0)};
  static const struct {
    enum pick pick;
    bool by_share;
    double want[5];
  } cases[] = {/* not cumulated: sp 1 below 3/5; sp 2 never (below 1/5 is below 3/5); else the last */
               {PICK_PUBLISHED, false, {0.2, 0.2, 0.2, 0, 0.4}},
               {PICK_PUBLISHED, true, {0.2, 0.2, 0.2, 0.2, 0.2}},
               {PICK_PROPORTIONAL, false, {1. / 16, 1. / 16, 2. / 16, 4. / 16, 8. / 16}},
               {PICK_DETERMINISTIC, false, {0, 0, 0, 0, 1}}};
  struct profile p = profile_of_rows(rows, 5, 8, 8);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    struct policy_input in = {.world = 8, .profile = &p, .options = {.pick = cases[c].pick}};
    struct fill f;
    int count[5] = {0};
    cr_assert_eq(fill_init(&f, &in, "test", cases[c].by_share, NULL), 0);
    for (int i = 0; i < 20000; i++)
      count[fill_pick(&f, 8)]++;
    for (int b = 0; b < 5; b++)
      cr_assert_float_eq(count[b] / 20000.0, cases[c].want[b], 0.015, "case %zu bucket %d: %g", c, b,
                         count[b] / 20000.0);
    fill_release(&f);
  }
  profile_release(&p);
}

/* An iteration that no bucket can fill: discarded as published, run with idle ranks in the fair default. */
Test(policy_traces, dcp_inter_unfilled_iteration) {
  static const struct row rows[] = {ROW("A", 3, 4, 1, 4.0)};
  struct profile p = profile_of_rows(rows, 1, 8, 8);
  struct policy_input in = {
      .world = 8,
      .profile = &p,
      .options = {.remainder = REMAINDER_KEEP_LAST, .pick = PICK_DETERMINISTIC, .max_gas = 1, .min_gas = 1}};
  struct epoch e = run_epoch("dcp_inter", &in, NULL, 0);
  cr_assert(e.iterations == 1 && e.samples == 2 && e.dropped == 1);
  in.options.remainder = REMAINDER_FAIR;
  e = run_epoch("dcp_inter", &in, NULL, 0);
  cr_assert(e.iterations == 2 && e.samples == 3 && e.dropped == 0);
  cr_assert_float_eq(e.imbalance_s, 4.0 / 2, 1e-12, "idle ranks count");
  profile_release(&p);
}

Test(policy_traces, infeasible_buckets_are_skipped) {
  static const struct row rows[] = {{"A", 3, 4, 1, 4.0, {{4, 1, 4.0, {0}}}}, {"B", 5, 4, 1, 2.0, {{4, 1, 2.0, {0}}}}};
  static const char *const names[] = {"bucket", "dcp_inter", "dcp", "dcp_rebalance"};
  struct profile p = profile_of_rows(rows, 2, 8, 8);
  p.buckets[0].infeasible = true;
  struct policy_input in = {.world = 8, .profile = &p, .options = {.max_gas = 5, .min_gas = 2}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct epoch e = run_epoch(names[i], &in, NULL, 0);
    cr_assert(e.samples == 5 && e.dropped == 0, "%s", names[i]);
  }
  profile_release(&p);
}

Test(policy_traces, errors_name_what_is_wrong) {
  static const struct row rows[] = {ROW("A", 3, 4, 1, 4.0), ROW("B", 5, 2, 1, 2.0)};
  struct profile p = profile_of_rows(rows, 2, 8, 8);
  p.buckets[0].n_detail = p.buckets[1].n_detail = 0;
  struct policy_input in = {.world = 8, .profile = &p, .options = {.max_gas = 5, .min_gas = 2}};
  struct policy_run *run = NULL;
  struct err err = {0};
  cr_assert_null(policy_find("nosuch", &err));
  cr_assert(err.usage && strstr(err.msg, "dcp_rebalance"), "%s", err.msg);
  cr_assert(policy_open(&run, policy_find("bucket", NULL), &in, &err) < 0 && strstr(err.msg, "same sp"), "%s", err.msg);
  cr_assert(policy_open(&run, policy_find("dcp_rebalance", NULL), &in, &err) < 0 && strstr(err.msg, "detail"), "%s",
            err.msg);
  cr_assert(policy_open(&run, policy_find("packed", NULL), &in, &err) < 0 && strstr(err.msg, "samples"), "%s", err.msg);
  in.world = 2;
  cr_assert(policy_open(&run, policy_find("dcp_inter", NULL), &in, &err) < 0 && strstr(err.msg, "sp must"), "%s",
            err.msg);
  in.world = 8;
  p.buckets[0].best.time_s = 1e9;
  p.buckets[1].best.time_s = 1e-9;
  cr_assert(policy_open(&run, policy_find("dcp", NULL), &in, &err) < 0 && strstr(err.msg, "differ"), "%s", err.msg);
  profile_release(&p);
}
