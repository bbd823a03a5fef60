/* libdcpsim: plans from lengths, reading and checking of schedules, errors, threads. That its lines are those of the
 * program is checked on the installed library, by tests/install/run.sh. */
#include <criterion/criterion.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/dcpsim.h"

#define GOLDEN DCPSIM_SOURCE_DIR "/tests/golden/schedules/"
#define EXPERIMENT(fields) "{\"schema\": \"dcpsim.experiment/1\", \"cluster\": \"h200_4x1\"" fields "}"
#define TEXT EXPERIMENT(", \"model\": \"tiny-1d\", \"policy\": \"dcp\"")
#define N 300

static char error[1024];

static void make_lengths(uint32_t *lengths, uint32_t state) {
  for (int i = 0; i < N; i++) {
    state = state * 1664525u + 1013904223u;
    lengths[i] = 1 + (state >> 8) % (i % 50 == 0 ? 40000u : 3000u);
  }
}

/* All lines of a schedule; the caller frees them. */
static char *all_lines(struct dcpsim_schedule *s) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  const struct dcpsim_step *step;
  int status;
  fprintf(out, "%s\n", dcpsim_schedule_header(s)->line);
  while ((status = dcpsim_schedule_next(s, &step, error, sizeof error)) == DCPSIM_OK)
    fprintf(out, "%s\n", step->line);
  cr_assert_eq(status, DCPSIM_END, "%s", error);
  fclose(out);
  return text;
}

static char *plan_lines(const char *experiment, const uint32_t *lengths) {
  struct dcpsim_schedule *s = dcpsim_plan_tokens(experiment, lengths, N, error, sizeof error);
  cr_assert(s, "%s", error);
  char *text = all_lines(s);
  dcpsim_schedule_close(s);
  return text;
}

Test(library, every_sample_once) {
  uint32_t lengths[N];
  int seen[N] = {0};
  const struct dcpsim_step *step;
  int64_t steps = 0;
  make_lengths(lengths, 1);
  struct dcpsim_schedule *s = dcpsim_plan_tokens(TEXT, lengths, N, error, sizeof error);
  cr_assert(s, "%s", error);
  const struct dcpsim_header *h = dcpsim_schedule_header(s);
  cr_assert_eq(h->world, 4);
  cr_assert_eq(h->samples_total, N);
  cr_assert_str_eq(h->trace, "lengths");
  cr_assert_str_eq(h->policy, "dcp");
  cr_assert_str_eq(h->weighting, "published");
  cr_assert_eq(h->n_modules, 1);
  cr_assert_str_eq(h->modules[0], "layer");
  cr_assert_eq(h->n_dropped + h->n_infeasible + h->n_overlong, 0);
  while (dcpsim_schedule_next(s, &step, error, sizeof error) == DCPSIM_OK) {
    double weight = 0;
    cr_assert_eq(step->iteration, steps++);
    for (size_t g = 0; g < step->n_groups; g++)
      for (size_t m = 0; m < step->groups[g].n_micro_batches; m++) {
        const struct dcpsim_micro_batch *mb = &step->groups[g].micro_batches[m];
        weight += mb->weight;
        cr_assert_gt(mb->n_samples, 0);
        for (size_t i = 0; i < mb->n_samples; i++) {
          seen[mb->samples[i].id]++;
          cr_assert_eq(mb->samples[i].offset, DCPSIM_WHOLE);
          cr_assert_eq(mb->samples[i].extent[0], lengths[mb->samples[i].id]);
          cr_assert_eq(mb->samples[i].extent[1], 1);
          cr_assert_leq(mb->samples[i].extent[0], mb->padded_extent[0]);
        }
      }
    cr_assert_float_eq(weight, 1, 1e-9);
  }
  for (int i = 0; i < N; i++)
    cr_assert_eq(seen[i], 1, "sample %d runs %d times", i, seen[i]);
  cr_assert_gt(steps, 1);
  dcpsim_schedule_close(s);
  dcpsim_schedule_close(NULL);
  cr_assert_eq(dcpsim_api(), DCPSIM_API);
  cr_assert_str_eq(dcpsim_version(), DCPSIM_VERSION);
}

Test(library, files_are_read_back_and_checked) {
  uint32_t lengths[N];
  char path[] = "/tmp/dcpsim_library_XXXXXX";
  make_lengths(lengths, 2);
  char *text =
      plan_lines(EXPERIMENT(", \"model\": \"tiny-1d\", \"policy\": \"packed\", \"max_length\": 20000"), lengths);
  FILE *file = fdopen(mkstemp(path), "w");
  fputs(text, file);
  fclose(file);
  struct dcpsim_schedule *s = dcpsim_schedule_open(path, error, sizeof error);
  cr_assert(s, "%s", error);
  cr_assert_gt(dcpsim_schedule_header(s)->n_overlong, 0);
  char *again = all_lines(s);
  cr_assert_str_eq(text, again);
  dcpsim_schedule_close(s);
  cr_assert_eq(dcpsim_check(path, NULL, NULL, error, sizeof error), 0, "%s", error);
  unlink(path);
  free(text);
  free(again);
}

/* ---- Schedules of the first version ---- */

struct counts {
  int64_t steps, groups, micro_batches, packs, samples, pieces, last_round, tokens;
};

static void count_micro_batch(struct counts *c, const struct dcpsim_micro_batch *mb) {
  c->micro_batches++;
  c->packs += mb->packed;
  for (size_t i = 0; i < mb->n_samples; i++) {
    c->samples++;
    c->tokens += (int64_t)mb->samples[i].extent[0] * mb->samples[i].extent[1];
    c->pieces += mb->samples[i].offset != DCPSIM_WHOLE;
  }
}

/* `expected` was counted in the file by another program. */
static void read_golden(const char *name, struct counts expected, size_t dropped) {
  const struct dcpsim_step *step;
  struct counts c = {0};
  char path[300];
  int status;
  snprintf(path, sizeof path, GOLDEN "%s", name);
  struct dcpsim_schedule *s = dcpsim_schedule_open(path, error, sizeof error);
  cr_assert(s, "%s", error);
  cr_assert_eq(dcpsim_schedule_header(s)->world, 8);
  cr_assert_eq(dcpsim_schedule_header(s)->n_dropped, dropped);
  while ((status = dcpsim_schedule_next(s, &step, error, sizeof error)) == DCPSIM_OK) {
    int round = 0;
    c.steps++;
    for (size_t g = 0; g < step->n_groups; g++) {
      c.groups++;
      cr_assert_geq(step->groups[g].round, round);
      round = step->groups[g].round;
      for (size_t m = 0; m < step->groups[g].n_micro_batches; m++)
        count_micro_batch(&c, &step->groups[g].micro_batches[m]);
    }
    c.last_round = round > c.last_round ? round : c.last_round;
  }
  cr_assert_eq(status, DCPSIM_END, "%s", error);
  dcpsim_schedule_close(s);
  cr_assert_eq(memcmp(&c, &expected, sizeof c), 0, "%s: %lld steps, %lld samples, %lld tokens", name,
               (long long)c.steps, (long long)c.samples, (long long)c.tokens);
}

Test(library, todays_schedules_stay_readable) {
  read_golden("rounds.jsonl", (struct counts){2, 9, 9, 0, 27, 8, 2, 101466}, 64);
  read_golden("packed.jsonl", (struct counts){1, 1, 1, 1, 91, 16, 0, 239089}, 0);
  read_golden("video.jsonl", (struct counts){1, 7, 7, 0, 9, 0, 0, 117849}, 0);
}

/* A copy of a golden schedule with `from` made `to`, opened and read to the end; what was wrong is in error. */
static void refuse(const char *from, const char *to) {
  char path[] = "/tmp/dcpsim_library_XXXXXX", line[1 << 16];
  FILE *in = fopen(GOLDEN "video.jsonl", "r"), *out = fdopen(mkstemp(path), "w");
  int status = DCPSIM_OK;
  const struct dcpsim_step *step;
  while (fgets(line, sizeof line, in)) {
    char *at = strstr(line, from);
    if (at)
      fprintf(out, "%.*s%s%s", (int)(at - line), line, to, at + strlen(from));
    else
      fputs(line, out);
  }
  fclose(in);
  fclose(out);
  error[0] = '\0';
  struct dcpsim_schedule *s = dcpsim_schedule_open(path, error, sizeof error);
  while (s && status == DCPSIM_OK)
    status = dcpsim_schedule_next(s, &step, error, sizeof error);
  cr_assert(!s || status == DCPSIM_ERROR, "%s was read", to);
  dcpsim_schedule_close(s);
  unlink(path);
}

Test(library, other_schemas_are_refused_by_name) {
  refuse("dcpsim.schedule/1", "dcpsim.schedule/2");
  cr_assert(
      strstr(error, "line 1: its schema is \"dcpsim.schedule/2\", this version of dcpsim reads \"dcpsim.schedule/1\""),
      "%s", error);
  refuse("dcpsim.schedule/1", "dcpsim.result/1");
  cr_assert(strstr(error, "is not a schedule"), "%s", error);
  refuse("\"world\"", "\"word\"");
  cr_assert(strstr(error, "line 1: unknown key 'word', did you mean 'world'?"), "%s", error);
  refuse("\"weight\":", "\"weight\":\"x\",\"w\":");
  cr_assert(strstr(error, "line 2, micro-batch 0: "), "%s", error);
  refuse("\"iteration\":0", "\"iteration\"0");
  cr_assert(strstr(error, "line 2 column"), "%s", error);
}

/* ---- Errors ---- */

static void plan_fails(const char *experiment, uint32_t length, size_t n, const char *why) {
  const uint32_t lengths[] = {700, length};
  error[0] = '\0';
  cr_assert_null(dcpsim_plan_tokens(experiment, lengths, n, error, sizeof error), "%s", experiment);
  cr_assert(strstr(error, why), "'%s' does not say '%s'", error, why);
  cr_assert_null(strchr(error, '\n'));
}

Test(library, errors_are_one_line) {
  plan_fails("{", 1, 2, "experiment 'text' line 1");
  plan_fails("{\"schema\": \"dcpsim.experiment/2\"}", 1, 2, "dcpsim.experiment/2");
  plan_fails(EXPERIMENT(", \"modle\": \"tiny-1d\""), 1, 2, "did you mean 'model'");
  plan_fails(EXPERIMENT(", \"policy\": \"dcp\""), 1, 2, "--model is missing");
  plan_fails(EXPERIMENT(", \"model\": \"none\", \"policy\": \"dcp\""), 1, 2, "none");
  plan_fails(EXPERIMENT(", \"model\": \"tiny-1d\""), 1, 2, "'policy' is missing");
  plan_fails(EXPERIMENT(", \"model\": \"tiny-1d\", \"policy\": [\"dcp\", \"packed\"]"), 1, 2, "must name one policy");
  plan_fails(EXPERIMENT(", \"model\": \"tiny-1d\", \"policy\": \"dpc\""), 1, 2, "dpc");
  plan_fails(EXPERIMENT(", \"model\": \"tiny-1d\", \"policy\": \"dcp\", \"schedule\": \"x\""), 1, 2,
             "'schedule' has no");
  plan_fails(EXPERIMENT(", \"model\": \"tiny-1d\", \"policy\": \"dcp\", \"offload\": \"optimizer\""), 1, 2,
             "'offload'");
  plan_fails(TEXT, 0, 2, "sample 1 has 0 tokens");
  plan_fails(TEXT, 2000000000, 2, "sample 1 has 2000000000 tokens");
  plan_fails(TEXT, 1, 0, "got 0");
  plan_fails(EXPERIMENT(", \"model\": \"tiny-2d\", \"policy\": \"dcp\""), 1, 2, "trains on videos");
  cr_assert_null(dcpsim_schedule_open("/none/such", error, sizeof error));
  cr_assert(strstr(error, "cannot open schedule '/none/such'"));
  cr_assert_null(dcpsim_schedule_open("-", NULL, 0));
  cr_assert_eq(dcpsim_check("/none/such", NULL, NULL, error, 12), DCPSIM_ERROR);
  cr_assert_str_eq(error, "cannot open", "cut to the buffer");
}

Test(library, videos) {
  const uint32_t frames[] = {15, 1, 30, 15, 60}, positions[] = {405, 144, 405, 920, 144};
  const char *experiment = EXPERIMENT(", \"model\": \"tiny-2d\", \"policy\": \"bucket\"");
  const struct dcpsim_step *step;
  size_t n = 0;
  struct dcpsim_schedule *s = dcpsim_plan_frames(experiment, frames, positions, 5, error, sizeof error);
  cr_assert(s, "%s", error);
  cr_assert_eq(dcpsim_schedule_header(s)->n_modules, 2);
  while (dcpsim_schedule_next(s, &step, error, sizeof error) == DCPSIM_OK)
    for (size_t g = 0; g < step->n_groups; g++)
      for (size_t m = 0; m < step->groups[g].n_micro_batches; m++)
        for (size_t i = 0; i < step->groups[g].micro_batches[m].n_samples; i++, n++) {
          const struct dcpsim_sample *sample = &step->groups[g].micro_batches[m].samples[i];
          cr_assert_eq(sample->extent[0], frames[sample->id]);
          cr_assert_eq(sample->extent[1], positions[sample->id]);
        }
  cr_assert_eq(n, 5);
  dcpsim_schedule_close(s);
}

static void note_rule(void *context, const struct dcpsim_finding *f) {
  snprintf(context, 100, "%s %lld: %.60s", f->rule, (long long)f->iteration, f->message);
}

Test(library, check_tells_findings) {
  char rule[100] = "", path[] = "/tmp/dcpsim_library_XXXXXX";
  uint32_t lengths[N];
  make_lengths(lengths, 3);
  char *text = plan_lines(TEXT, lengths), *partial = strstr(text, "\"samples_total\":300");
  partial[strlen("\"samples_total\":30")] = '1'; /* one sample more than there are */
  FILE *file = fdopen(mkstemp(path), "w");
  fputs(text, file);
  fclose(file);
  cr_assert_eq(dcpsim_check(path, note_rule, rule, error, sizeof error), 1);
  cr_assert(strncmp(rule, "coverage -1: ", 13) == 0, "%s", rule);
  unlink(path);
  free(text);
}

/* ---- Threads, and the program around ---- */

static void *plan_on_thread(void *argument) {
  const uint32_t *lengths = argument;
  return plan_lines(TEXT, lengths);
}

Test(library, handles_on_two_threads) {
  uint32_t lengths[2][N];
  pthread_t threads[2];
  char *alone[2];
  for (int i = 0; i < 2; i++) {
    make_lengths(lengths[i], 10u + (uint32_t)i);
    alone[i] = plan_lines(TEXT, lengths[i]);
  }
  cr_assert_str_neq(alone[0], alone[1]);
  for (int i = 0; i < 2; i++)
    cr_assert_eq(pthread_create(&threads[i], NULL, plan_on_thread, lengths[i]), 0);
  for (int i = 0; i < 2; i++) {
    void *text;
    pthread_join(threads[i], &text);
    cr_assert_str_eq(text, alone[i]);
    free(text);
    free(alone[i]);
  }
}

Test(library, the_callers_locale_changes_nothing) {
  uint32_t lengths[N];
  if (!setlocale(LC_ALL, "de_DE.UTF-8"))
    cr_skip_test("no locale with a decimal comma here");
  make_lengths(lengths, 4);
  setlocale(LC_ALL, "C");
  char *plain = plan_lines(TEXT, lengths);
  setlocale(LC_ALL, "de_DE.UTF-8");
  char *text = plan_lines(TEXT, lengths);
  cr_assert_str_eq(text, plain);
  free(text);
  free(plain);
}
