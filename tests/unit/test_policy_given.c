/* Policy given: by hand, and in experiments: every micro-batch is a batch of the trace, equal batches are static's, and
 * what does not fit is refused as a whole. */
#include <unistd.h>

#include "models/memory.h"
#include "sim/experiment/experiment.h"
#include "sim/experiment/policy_setup.h"
#include "sim/experiment/program_cache.h"
#include "tests/unit/test_policy_helpers.h"

/* ---- By hand ----
 * 4 ranks at SP 2 are two groups. Text is padded to bounds ceil(2^(i/4)): 9 to 10, 21 to 23, 7 to 7, 4 to 4, 1 to 1.
 * One token of one sample takes a second. */

static double padded_time_s(void *context, int sp, int64_t batch, struct sample shape, const int blocks[2]) {
  (void)context, (void)blocks;
  return (double)(batch * shape.a) / sp;
}

static double packed_time_s(void *context, int sp, const struct sample *samples, int64_t n, const int blocks[2]) {
  double tokens = 0;
  (void)context, (void)blocks;
  for (int64_t i = 0; i < n; i++)
    tokens += samples[i].a;
  return tokens / sp;
}

/* Batches 9 8 | 21 | 7 6 5 | 4 | 1 1; numbers 1 and 2 were empty in the trace. The arrival order is not theirs. */
static uint32_t lengths[] = {9, 8, 21, 7, 6, 5, 4, 1, 1}, numbers[] = {0, 0, 3, 4, 4, 4, 5, 6, 6};
static uint32_t backwards[] = {8, 7, 6, 5, 4, 3, 2, 1, 0};

static struct policy_input input(struct sample_set *s, struct sample *samples, bool packed, int64_t tokens_per_step,
                                 enum remainder_rule remainder) {
  for (int i = 0; i < 9; i++)
    samples[i] = (struct sample){lengths[i], 1};
  *s = (struct sample_set){.n = 9, .samples = samples, .order = backwards, .batch = numbers};
  return (struct policy_input){
      .world = 4,
      .samples = s,
      .seed = 7,
      .costs = {NULL, padded_time_s, packed_time_s},
      .options = {
          .sp = 2, .packed = packed, .shuffle = true, .tokens_per_step = tokens_per_step, .remainder = remainder}};
}

/* "0-1: 0 1 (9) 9s" a group: its ranks, the ids and the padded length of its micro-batches, its time. */
static void text_of(const struct plan_iteration *it, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = 0;
  for (size_t i = 0; i < it->n_groups; i++) {
    const struct plan_group *g = &it->groups[i];
    at += (size_t)snprintf(buf + at, size - at, "%s%d-%d:", i ? "|" : "", g->first_rank, g->first_rank + g->sp - 1);
    for (size_t j = 0; j < g->n_micro_batches; j++) {
      const struct plan_micro_batch *m = &it->micro_batches[g->first_micro_batch + j];
      for (int64_t k = 0; k < m->count; k++)
        at += (size_t)snprintf(buf + at, size - at, "%s%u", k || !j ? " " : ", ", m->samples[k]);
      if (!m->packed)
        at += (size_t)snprintf(buf + at, size - at, " (%u)", m->shape.a);
    }
    at += (size_t)snprintf(buf + at, size - at, " %gs", g->time_s);
  }
}

static void expect_steps(const struct policy_input *in, const char *const *steps, const char *dropped) {
  struct policy_run *run = open_run("given", in);
  struct plan_iteration it = {0};
  char text[256] = "";
  for (; *steps; steps++) {
    cr_assert_eq(policy_next(run, &it, NULL), 1);
    text_of(&it, text, sizeof text);
    cr_expect_str_eq(text, *steps, "%s", text);
  }
  cr_assert_eq(policy_next(run, &it, NULL), 0);
  text[0] = 0;
  for (size_t i = 0; i < it.n_drops; i++)
    for (int64_t k = 0; k < it.drops[i].count; k++)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%u ", it.drops[i].samples[k]);
  cr_expect_str_eq(text, dropped);
  policy_close(run);
  plan_iteration_release(&it);
}

Test(policy_given, by_hand) {
  struct sample_set s;
  struct sample samples[9];
  struct policy_input in = input(&s, samples, false, 0, REMAINDER_FAIR);
  expect_steps(&in,
               (const char *const[]){"0-1: 0 1 (9) 9s|2-3: 2 (21) 10.5s", "0-1: 3 4 5 (7) 10.5s|2-3: 6 (4) 2s",
                                     "0-1: 7 8 (1) 1s", NULL},
               "");
  in = input(&s, samples, true, 0, REMAINDER_DROP_LAST);
  expect_steps(&in, (const char *const[]){"0-1: 0 1 8.5s|2-3: 2 10.5s", "0-1: 3 4 5 9s|2-3: 6 2s", NULL}, "7 8 ");
  /* 38 and 22 tokens: together 60. */
  in = input(&s, samples, false, 60, REMAINDER_FAIR);
  expect_steps(&in,
               (const char *const[]){"0-1: 0 1 (9), 3 4 5 (7) 19.5s|2-3: 2 (21), 6 (4) 12.5s", "0-1: 7 8 (1) 1s", NULL},
               "");
}

Test(policy_given, refuses) {
  struct sample_set s;
  struct sample samples[9];
  struct policy_run *run = NULL;
  struct err err = {.set = false};
  struct policy_input in = input(&s, samples, false, 0, REMAINDER_FAIR);
  in.options.sp = 8;
  cr_expect_eq(policy_open(&run, policy_find("given", NULL), &in, &err), -1);
  cr_expect_str_eq(err.msg, "policy 'given': sp must be 1 to 4");
  in.options.sp = 2;
  s.batch = NULL;
  cr_expect_eq(policy_open(&run, policy_find("given", NULL), &in, &err), -1);
  cr_expect_str_eq(err.msg, "policy 'given': the samples are in no batches");
}

/* ---- In experiments ---- */

/* `sets`: name, value, ..., NULL. */
static int open_text(struct experiment *x, const char *text, const char *const *sets, struct err *err) {
  struct experiment_options o;
  char path[] = "/tmp/test_given_XXXXXX";
  FILE *file = fdopen(mkstemp(path), "w");
  fputs(text, file);
  fclose(file);
  options_init(&o);
  cr_assert_eq(options_set(&o, "trace", path, err), 0);
  cr_assert_eq(options_set(&o, "model", "tiny-1d", err), 0);
  cr_assert_eq(options_set(&o, "cluster", "h200_8x1", err), 0);
  for (; *sets; sets += 2)
    cr_assert_eq(options_set(&o, sets[0], sets[1], err), 0, "%s", err->msg);
  int rc = experiment_open(x, &o, err);
  options_release(&o);
  unlink(path);
  return rc;
}

/* Batches of `n` samples; the caller frees it. */
static char *equal_batches(int batches, int n, int length) {
  char *text = xcalloc((size_t)(batches * n) * 12 + 64, 1), *at = text;
  at += sprintf(at, "{\"batches\": [");
  for (int b = 0; b < batches; b++)
    for (int i = 0; i < n; i++)
      at += sprintf(at, "%s%d%s", i ? "," : b ? ",[" : "[", length, i == n - 1 ? "]" : "");
  sprintf(at, "]}");
  return text;
}

/* Equal batches of equal samples: static with that batch makes the same steps, in the same time, padded at any SP (a
 * length that static does not round up). Whole and partial last steps. */
Test(policy_given, equal_batches_are_statics) {
  for (int batches = 32; batches <= 35; batches += 3)
    for (int sp = 1; sp <= 8; sp *= 2) {
      char *text = equal_batches(batches, 4, 2048), number[12];
      struct experiment x;
      struct policy_result results[2];
      struct err err = {.set = false};
      sprintf(number, "%d", sp);
      cr_assert_eq(
          open_text(&x, text, (const char *const[]){"policy", "static,given", "batch", "4", "sp", number, NULL}, &err),
          0, "%s", err.msg);
      cr_assert_eq(experiment_run(&x, NULL, results, &err), 0, "%s", err.msg);
      cr_expect_eq(results[0].steps, (batches * sp + 7) / 8);
      cr_expect_eq(results[1].steps, results[0].steps);
      cr_expect_eq(results[1].time_s, results[0].time_s, "%d batches, SP %d", batches, sp);
      cr_expect_eq(results[1].padding_frac, results[0].padding_frac);
      cr_expect_eq(results[1].padding_frac, 0);
      cr_expect_eq(results[1].peak_memory_bytes, results[0].peak_memory_bytes);
      cr_expect_eq(x.baseline, 1, "given is the baseline");
      experiment_close(&x);
      free(text);
    }
}

/* Batch after batch, whatever the seed. */
struct expected {
  const struct experiment *x;
  int64_t entry;
};

static void expect_batch(void *context, const struct profile *profile, const struct plan_iteration *it) {
  struct expected *e = context;
  const struct sample_set *s = &e->x->samples;
  (void)profile;
  for (size_t i = 0; i < it->n_micro_batches; i++) {
    const struct plan_micro_batch *m = &it->micro_batches[i];
    for (int64_t k = 0; k < m->count; k++)
      cr_assert(m->samples[k] == e->entry + k && s->batch[m->samples[k]] == s->batch[e->entry]);
    e->entry += m->count;
    cr_assert(e->entry == s->n || s->batch[e->entry] != s->batch[e->entry - 1], "the whole batch");
  }
}

Test(policy_given, micro_batches_are_the_batches) {
  static const char text[] = "{\"batches\": [[500, 9000, 20], [7], [700, 9100], [9200], [1, 2, 3, 4, 5], [600, 4]]}";
  static const char *const cases[][2] = {{"epoch", "true"},         {"layout", "packed"},  {"overlong", "split"},
                                         {"overlong", "truncate"},  {"overlong", "drop"},  {"seed", "5"},
                                         {"recompute", "adaptive"}, {"recompute", "none"}, {"zero", "3"}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    struct experiment x;
    struct policy_result result;
    struct err err = {.set = false};
    const char *const sets[] = {
        "policy",    "given",     "sp",         "2",
        cases[c][0], cases[c][1], "max-length", strcmp(cases[c][0], "overlong") == 0 ? "4000" : "100000",
        NULL};
    cr_assert_eq(open_text(&x, text, sets, &err), 0, "%s", err.msg);
    struct expected e = {.x = &x};
    struct experiment_plan plan = {.context = &e, .iteration = expect_batch};
    cr_assert_eq(experiment_plan(&x, &plan, &result, &err), 0, "%s", err.msg);
    cr_expect_eq(e.entry, x.samples.n);
    cr_expect_eq(result.samples + result.samples_overlong, 14);
    bool dropped = strcmp(cases[c][1], "drop") == 0; /* batch 3 has no other sample */
    cr_expect_eq(result.samples_overlong, dropped ? 3 : 0);
    for (int64_t i = 0; dropped && i < x.samples.n; i++)
      cr_expect_neq(x.samples.batch[i], 3);
    experiment_close(&x);
  }
}

Test(policy_given, default_policies) {
  struct experiment x;
  struct err err = {.set = false};
  cr_assert_eq(open_text(&x, "{\"batches\": [[5, 6], [7]]}", (const char *const[]){NULL}, &err), 0, "%s", err.msg);
  cr_expect_str_eq(x.options.policy, "given,bucket,packed,dcp_inter,dcp");
  cr_expect_str_eq(x.options.baseline, "given");
  experiment_close(&x);
  cr_assert_eq(open_text(&x, "[5, 6, 7]", (const char *const[]){NULL}, &err), 0, "%s", err.msg);
  cr_expect_str_eq(x.options.policy, "bucket,packed,dcp_inter,dcp");
  cr_expect_str_eq(x.options.baseline, "bucket");
  experiment_close(&x);
  cr_expect_eq(open_text(&x, "[5, 6, 7]", (const char *const[]){"policy", "bucket,given", NULL}, &err), -1);
  cr_expect(strstr(err.msg, "policy 'given': trace 'test_given_") &&
                strstr(err.msg, "' holds no batches (a file {\"batches\": [[512, 77], [2048]]} does)"),
            "%s", err.msg);
}

/* Auto takes the degrees at which the largest batch fits, by the memory model itself; one that fits at none, or not at
 * the degree asked for, is an error that names it. (Packed, batch 2 fits at any.) */
Test(policy_given, fits_or_is_refused) {
  static const char text[] = "{\"batches\": [[512], [32000, 32000, 32000, 32000, 32000, 32000],"
                             " [9, 32000, 32000, 32000, 32000, 32000]]}";
  static const char *const layouts[] = {"padded", "packed"};
  static const int64_t tokens[] = {6 * 32000, 6 * 32000}; /* of batch 1 */
  for (int l = 0; l < 2; l++) {
    struct experiment x;
    struct err err = {.set = false};
    int sps[MAX_SPS], n_sps, wanted = 0;
    bool holds_all;
    const char *sets[] = {"policy", "given", "model", "llama2-7b", "layout", layouts[l], "sp", "auto", NULL};
    cr_assert_eq(open_text(&x, text, sets, &err), 0, "%s", err.msg);
    cr_assert_eq(policy_setup_sps(&x, x.policies[0], sps, &n_sps, &holds_all, &err), 0, "%s", err.msg);
    for (int i = 0; i < x.n_sps; i++) {
      struct microbatch mb = {.batch = 1, .seqlen = tokens[l], .recompute_blocks = {x.model.layers}};
      if (memory_peak_bytes(&x.system, x.sps[i], &mb, false) > x.memory_cap_bytes)
        continue;
      cr_expect(wanted < n_sps && sps[wanted] == x.sps[i], "SP %d", x.sps[i]);
      wanted++;
    }
    cr_expect(n_sps == wanted && wanted > 0 && wanted < x.n_sps && holds_all, "%d degrees", n_sps);
    experiment_close(&x);
    sets[7] = "1";
    cr_assert_eq(open_text(&x, text, sets, &err), 0, "%s", err.msg);
    char name[256];
    snprintf(name, sizeof name, "policy 'given': trace '%s': %sbatch 1 of 6 samples, %lld tokens %s, needs ",
             x.trace.name, l == 0 ? "2 of its batches do not fit; the largest, " : "", (long long)tokens[l],
             layouts[l]);
    cr_expect_eq(policy_setup_sps(&x, x.policies[0], sps, &n_sps, &holds_all, &err), -1);
    cr_expect_eq(strncmp(err.msg, name, strlen(name)), 0, "%s", err.msg);
    cr_expect(strstr(err.msg, " GiB on each of 1 GPUs (") && strstr(err.msg, "the cap is 126.4 GiB: try "), "%s",
              err.msg);
    experiment_close(&x);
  }
}

Test(policy_given, too_many_tokens) {
  struct experiment x;
  struct policy_result result;
  struct err err = {.set = false};
  cr_assert_eq(open_text(&x,
                         "{\"batches\": [[5], [1000000000, 1000000000, 1000000000, 1000000000, 1000000000, 1000000000, "
                         "1000000000, 1000000000, 1000000000, 1000000000, 1]]}",
                         (const char *const[]){"policy", "given", "layout", "packed", NULL}, &err),
               0, "%s", err.msg);
  cr_expect_eq(experiment_run(&x, NULL, &result, &err), -1);
  cr_expect(strstr(err.msg,
                   "batch 1 of 11 samples, 10000000001 tokens packed, is more than the 10000000000 tokens that a "
                   "micro-batch may have"),
            "%s", err.msg);
  experiment_close(&x);
}
