/* check_threads.c: everything of the simulator that runs on threads, for ThreadSanitizer (tests/tsan/run.sh): the jobs
 * of an experiment (SP degrees, shuffles, draws), the points of a sweep, handles of libdcpsim. Results are compared
 * with those of one thread, so that the program is a test without the sanitizer, too. usage: check_threads FOLDER */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/dcpsim.h"
#include "sim/experiment/experiment.h"
#include "sim/experiment/result.h"
#include "sim/sweep/sweep.h"

#define LENGTHS 200

static char trace_path[300];

static void fail(const char *what, const char *why) {
  fprintf(stderr, "check_threads: %s: %s\n", what, why);
  exit(1);
}

static void write_lengths(const char *folder) {
  snprintf(trace_path, sizeof trace_path, "%s/lengths.txt", folder);
  FILE *file = fopen(trace_path, "w");
  uint32_t state = 1;
  for (int i = 0; file && i < LENGTHS; i++) {
    state = state * 1664525u + 1013904223u;
    fprintf(file, "%" PRIu32 "\n", 1 + (state >> 8) % (i % 50 == 0 ? 40000u : 3000u));
  }
  if (!file || fclose(file) != 0)
    fail(trace_path, "cannot be written");
}

static char *read_text(const char *path) {
  FILE *file = fopen(path, "r");
  char *text = xcalloc(1, 1 << 20);
  if (!file || fread(text, 1, (1 << 20) - 1, file) == 0)
    fail(path, "cannot be read");
  fclose(file);
  return text;
}

/* ---- One experiment ---- */

/* Columns of simulate --csv; plan_time_s, a wall clock, is set to 0. Caller frees. */
static char *run_experiment(const char *threads) {
  const char *const sets[] = {
      "trace", trace_path, "model", "tiny-1d", "cluster", "h200_8x1", "policy",  "bucket,packed,dcp_inter,dcp",
      "seeds", "3",        "draws", "3",       "jitter",  "0.1",      "threads", threads,
      NULL};
  struct experiment_options o;
  struct experiment x;
  struct policy_result results[MAX_POLICIES];
  struct err err = {.set = false};
  char *text = NULL;
  size_t size = 0;
  options_init(&o);
  for (const char *const *s = sets; *s; s += 2)
    if (options_set(&o, s[0], s[1], &err) < 0)
      fail(s[0], err.msg);
  if (experiment_open(&x, &o, &err) < 0 || experiment_run(&x, NULL, results, &err) < 0)
    fail("experiment", err.msg);
  for (int i = 0; i < x.n_policies; i++)
    results[i].plan_time_s = 0;
  FILE *out = open_memstream(&text, &size);
  result_write_csv(out, &x, results);
  fclose(out);
  experiment_close(&x);
  options_release(&o);
  return text;
}

static void check_experiment(void) {
  char *one = run_experiment("1"), *four = run_experiment("4");
  if (strcmp(one, four) != 0)
    fail("experiment", "four threads give another result than one");
  free(one);
  free(four);
}

/* ---- A sweep ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The rows of its table in order, as one text. Caller frees. */
static char *run_sweep(const char *folder, const char *spec, int threads) {
  char path[300], *lines[200], *rest;
  int n = 0;
  struct sweep_summary summary;
  struct err err = {.set = false};
  snprintf(path, sizeof path, "%s/sweep%d.csv", folder, threads);
  struct sweep_request request = {.spec_path = spec, .out_path = path, .threads = threads};
  if (sweep_run(&request, &summary, &err) < 0)
    fail("sweep", err.msg);
  if (summary.points != 12 || summary.failed != 0)
    fail("sweep", "not 12 good points");
  char *text = read_text(path), *sorted = xcalloc(1, strlen(text) + 1);
  rest = text;
  for (char *line; n < 200 && (line = strsep(&rest, "\n"));)
    lines[n++] = line;
  qsort(lines, (size_t)n, sizeof *lines, by_text);
  for (int i = 0; i < n; i++)
    strcat(sorted, lines[i]);
  free(text);
  return sorted;
}

static void check_sweep(const char *folder) {
  char spec[300];
  snprintf(spec, sizeof spec, "%s/sweep.json", folder);
  FILE *file = fopen(spec, "w");
  fprintf(file,
          "{\"schema\": \"dcpsim.sweep/1\", \"base\": {\"trace\": \"%s\", \"model\": \"tiny-1d\", \"cluster\": "
          "\"h200_4x1\", \"policy\": [\"bucket\", \"dcp\"]}, \"grid\": {\"seed\": [0, 1, 2], \"max_length\": [8000, "
          "60000], \"zero\": [1, 3]}}\n",
          trace_path);
  fclose(file);
  char *one = run_sweep(folder, spec, 1), *four = run_sweep(folder, spec, 4);
  if (strcmp(one, four) != 0)
    fail("sweep", "four threads give other rows than one");
  free(one);
  free(four);
}

/* ---- Handles of the library ---- */

static void *plan(void *policy) {
  uint32_t lengths[LENGTHS];
  char error[1024], text[200];
  const struct dcpsim_step *step;
  int64_t samples = 0;
  for (int i = 0; i < LENGTHS; i++)
    lengths[i] = 1 + (uint32_t)i * 7919 % 20000;
  snprintf(
      text, sizeof text,
      "{\"schema\": \"dcpsim.experiment/1\", \"model\": \"tiny-1d\", \"cluster\": \"h200_4x1\", \"policy\": \"%s\"}",
      (const char *)policy);
  struct dcpsim_schedule *s = dcpsim_plan_tokens(text, lengths, LENGTHS, error, sizeof error);
  if (!s)
    fail("library", error);
  while (dcpsim_schedule_next(s, &step, error, sizeof error) == DCPSIM_OK)
    for (size_t g = 0; g < step->n_groups; g++)
      for (size_t m = 0; m < step->groups[g].n_micro_batches; m++)
        samples += (int64_t)step->groups[g].micro_batches[m].n_samples;
  dcpsim_schedule_close(s);
  if (samples != LENGTHS)
    fail("library", "samples are missing");
  return NULL;
}

static void check_library(void) {
  static char names[4][8] = {"dcp", "bucket", "packed", "static"};
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    if (pthread_create(&threads[i], NULL, plan, names[i]) != 0)
      fail("library", "no thread");
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
}

int main(int argc, char **argv) {
  if (argc != 2)
    fail("usage", "check_threads FOLDER");
  write_lengths(argv[1]);
  check_experiment();
  check_sweep(argv[1]);
  check_library();
  puts("experiment, sweep and library: no difference to one thread");
  return 0;
}
