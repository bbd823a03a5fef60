/* Advice where the answer is known by construction: equal lengths, one sample that is far too long, settings that leave
 * nothing to try; and its words. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/experiment/advice.h"
#include "sim/experiment/policy_setup.h"
#include "sim/experiment/result.h"
#include "sim/experiment/shared_inputs.h"
#include "sim/report/advice_text.h"

struct made {
  char path[40];
  struct experiment_options o;
  struct trace_store *traces;
  struct shared_inputs *shared;
  struct experiment x;
  struct policy_result results[MAX_POLICIES];
  struct advice advice;
  char *json;
};

/* `sets`: name, value, ..., NULL. */
static void make(struct made *m, const uint32_t *lengths, int n, const char *const *sets) {
  struct err err = {.set = false};
  size_t size;
  *m = (struct made){.path = "/tmp/test_advice_XXXXXX"};
  FILE *file = fdopen(mkstemp(m->path), "w");
  for (int i = 0; i < n; i++)
    fprintf(file, "%u\n", lengths[i]);
  fclose(file);
  options_init(&m->o);
  cr_assert_eq(options_set(&m->o, "trace", m->path, &err), 0);
  cr_assert_eq(options_set(&m->o, "model", "tiny-1d", &err), 0);
  cr_assert_eq(options_set(&m->o, "cluster", "h200_8x1", &err), 0);
  for (; *sets; sets += 2)
    cr_assert_eq(options_set(&m->o, sets[0], sets[1], &err), 0, "%s", err.msg);
  m->traces = trace_store_new();
  m->shared = shared_inputs_for_threads(m->traces);
  cr_assert_eq(experiment_open_shared(&m->x, &m->o, m->shared, &err), 0, "%s", err.msg);
  cr_assert_eq(experiment_run(&m->x, NULL, m->results, &err), 0, "%s", err.msg);
  advice_make(&m->advice, &m->x, &m->o, m->results);
  file = open_memstream(&m->json, &size);
  struct json_writer w = {.file = file};
  result_write_json(&w, &m->x, m->results, NULL, &m->advice);
  fclose(file);
}

static void unmake(struct made *m) {
  free(m->json);
  advice_release(&m->advice);
  experiment_close(&m->x);
  shared_inputs_free(m->shared);
  trace_store_free(m->traces);
  options_release(&m->o);
  unlink(m->path);
}

/* ---- Words ---- */

struct collected {
  char text[8000];
  int commands;
};

static void collect_line(void *context, const char *topic, const char *text) {
  struct collected *c = context;
  size_t n = strlen(c->text);
  snprintf(c->text + n, sizeof c->text - n, "%s|%s\n", topic, text);
}

static void collect_command(void *context, const char *what, const char *command) {
  struct collected *c = context;
  (void)what;
  cr_expect_eq(strncmp(command, "dcpsim simulate --trace ", 24), 0, "%s", command);
  c->commands++;
}

static int words_of(struct collected *c, const char *json, struct err *err) {
  struct advice_sink sink = {c, collect_line, collect_command};
  struct json_doc doc;
  *c = (struct collected){.commands = 0};
  cr_assert_eq(json_doc_parse(&doc, "result", "r.json", json, "dcpsim.result/1", err), 0, "%s", err->msg);
  int rc = advice_text(&doc, &sink, err);
  json_doc_release(&doc);
  return rc;
}

static void expect_words(const struct made *m, const char *const *wanted) {
  struct collected c;
  struct err err = {.set = false};
  cr_assert_eq(words_of(&c, m->json, &err), 0, "%s", err.msg);
  for (; *wanted; wanted++)
    cr_expect(strstr(c.text, *wanted), "no '%s' in:\n%s", *wanted, c.text);
  int run = 0;
  for (int i = 0; i < EXTRAS; i++)
    run += m->advice.extras[i].command != NULL;
  cr_expect_eq(c.commands, run + 1);
}

static uint32_t *equal_lengths(int n, uint32_t length) {
  uint32_t *v = malloc((size_t)n * sizeof *v);
  for (int i = 0; i < n; i++)
    v[i] = length;
  return v;
}

/* Samples of one length in batches of one size: static and bucket do the same, so neither wins, and nothing is to cut.
 */
Test(advice, equal_lengths_show_no_difference) {
  struct made m;
  uint32_t *lengths = equal_lengths(2048, 512);
  make(&m, lengths, 2048,
       (const char *[]){"policy", "static,bucket", "batch", "8", "sp", "1", "recompute", "full", NULL});
  cr_expect_float_eq(m.results[0].tokens_per_s, m.results[1].tokens_per_s, 1e-9 * m.results[1].tokens_per_s);
  cr_expect_not(m.advice.shown);
  cr_expect_str_eq(m.results[m.advice.use].name, "bucket"); /* the baseline */
  cr_expect_null(m.advice.extras[EXTRA_CUT].command);
  cr_expect_null(m.advice.extras[EXTRA_EQUAL_STEPS].command);
  cr_expect_not_null(m.advice.extras[EXTRA_NODES_X4].command);
  expect_words(&m, (const char *[]){"No difference shown", "the longest 0.1 % are no longer than the next",
                                    "about as many tokens", NULL});
  unmake(&m);
  free(lengths);
}

/* Two samples of 2,000 that hold up all others: without them every policy is faster, and the length is the others'. */
Test(advice, cutting_gains_where_two_samples_are_huge) {
  struct made m;
  uint32_t *lengths = equal_lengths(2000, 512);
  lengths[300] = lengths[1700] = 400000;
  make(&m, lengths, 2000, (const char *[]){"policy", "bucket,packed,dcp", NULL});
  const struct extra_run *cut = &m.advice.extras[EXTRA_CUT];
  cr_assert_not_null(cut->command, "%s", cut->why_not);
  cr_expect_eq(cut->max_length, 512);
  cr_expect_eq(cut->samples_over, 2);
  cr_expect_eq(cut->tokens_over, 800000);
  for (int i = 0; i < cut->n; i++)
    cr_expect_gt(cut->results[i].tokens_per_s, 1.5 * m.results[i].tokens_per_s, "%s", cut->results[i].name);
  cr_expect(strstr(cut->command, "--max-length 512"), "%s", cut->command);
  cr_expect_eq(m.advice.trace_longest, 400000);
  expect_words(&m, (const char *[]){"Dropping the 2 samples over 512 tokens", "what is to be used now", NULL});
  unmake(&m);
  free(lengths);
}

/* The longest sample that fits does, and one token more does not. */
Test(advice, longest_is_the_longest) {
  struct made m;
  uint32_t *lengths = equal_lengths(200, 512);
  make(&m, lengths, 200, (const char *[]){"policy", "bucket,packed", NULL});
  for (int i = 0; i < m.x.n_policies; i++) {
    struct fit f = experiment_fit(&m.x, m.x.policies[i]);
    for (int k = 0; k < m.x.n_sps; k++) {
      int64_t longest = m.advice.longest[i][k];
      cr_assert_gt(longest, 512);
      if (m.x.policies[i]->flags & POLICY_PACKS) {
        cr_expect_eq(longest, fit_pack_tokens(&f, m.x.sps[k], NULL, 0));
        continue;
      }
      cr_expect(fit_padded(&f, m.x.sps[k], 1, (struct sample){(uint32_t)bucket_bound(longest, 4), 1}));
      cr_expect_not(fit_padded(&f, m.x.sps[k], 1, (struct sample){(uint32_t)bucket_bound(longest + 1, 4), 1}));
    }
  }
  unmake(&m);
  free(lengths);
}

/* Without recomputation asked for, there is nothing to try; a single policy has nothing to be compared with. */
Test(advice, says_why_it_does_not_try) {
  struct made m;
  uint32_t *lengths = equal_lengths(200, 512);
  make(&m, lengths, 200, (const char *[]){"policy", "packed", "recompute", "none", NULL});
  for (int kind = 0; kind <= EXTRA_CUT; kind++) {
    cr_expect_null(m.advice.extras[kind].command, "%s", extra_names[kind]);
    cr_expect_gt(strlen(m.advice.extras[kind].why_not), 10, "%s", extra_names[kind]);
  }
  cr_expect_eq(m.advice.use_extra, -1);
  expect_words(&m, (const char *[]){"no other policy to compare with", "no policy recomputes every layer",
                                    "0.1 % of the samples is less than one", NULL});
  unmake(&m);
  free(lengths);
}

/* Where everything fits without, recomputation is a loss: the advice is to leave it, and more nodes are tried so. */
Test(advice, recomputation_that_is_not_needed_is_left) {
  struct made m;
  uint32_t *lengths = equal_lengths(4000, 512);
  make(&m, lengths, 4000, (const char *[]){"policy", "bucket,packed", "batch", "8", NULL});
  const struct extra_run *none = &m.advice.extras[EXTRA_NO_RECOMPUTE];
  cr_assert_eq(none->n, 2, "%s", none->why_not);
  cr_expect_eq(m.advice.use_extra, EXTRA_NO_RECOMPUTE);
  cr_expect(strstr(m.advice.use_command, "--recompute none"), "%s", m.advice.use_command);
  cr_expect(strstr(m.advice.extras[EXTRA_NODES_X2].command, "--recompute none"));
  cr_expect(strstr(m.advice.extras[EXTRA_NODES_X2].command, "--cluster h200_8x2"));
  cr_expect_eq(m.advice.extras[EXTRA_NODES_X4].gpus, 32);
  expect_words(&m, (const char *[]){"without recomputation", "Recompute|Without it: bucket 1.", NULL});
  unmake(&m);
  free(lengths);
}

/* Words of a file that is not as it should be: an error that names the key, not a sentence with zeros. */
Test(advice, words_refuse_what_is_missing) {
  struct collected c;
  struct err err = {.set = false};
  cr_expect_eq(words_of(&c, "{\"schema\":\"dcpsim.result/1\"}", &err), 0);
  cr_expect_str_empty(c.text);
  cr_expect_lt(words_of(&c, "{\"schema\":\"dcpsim.result/1\",\"advice\":3}", &err), 0);
  cr_expect(strstr(err.msg, "'advice'"), "%s", err.msg);
  cr_expect_lt(
      words_of(&c, "{\"schema\":\"dcpsim.result/1\",\"advice\":{\"use\":{},\"fastest\":{},\"noise_frac\":0.1}}", &err),
      0);
  cr_expect_str_empty(c.text);
}
