#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/plan/schedule.h"
#include "sim/plan/schedule_read.h"

/* ---- An example: two iterations, every kind of micro-batch --------------------------------------------------------
 */

static char folder[64], path[96];

static void setup(void) {
  snprintf(folder, sizeof folder, "/tmp/test_schedule_XXXXXX");
  cr_assert(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/s.jsonl", folder);
}

static void teardown(void) {
  unlink(path);
  cr_assert_eq(rmdir(folder), 0, "files were left behind");
}

TestSuite(schedule, .init = setup, .fini = teardown);

static struct sample shapes[] = {{2000, 1}, {1500, 1}, {2048, 1}, {100, 1}, {50, 1}, {700, 1},
                                 {900, 1},  {901, 1},  {902, 1},  {7, 1},   {8, 1},  {9, 1}};

static struct sample_set example_samples(void) { return (struct sample_set){.n = 12, .samples = shapes}; }

static void add(struct plan_iteration *it, bool packed, uint32_t shape, int recompute, uint32_t first, uint32_t n) {
  struct plan_micro_batch *mb = plan_add_micro_batch(it);
  uint32_t *ids = plan_pool(it, n);
  for (uint32_t i = 0; i < n; i++)
    ids[i] = first + i;
  mb->bucket = -1;
  mb->samples = ids;
  mb->count = n;
  mb->packed = packed;
  mb->shape = (struct sample){shape, 1};
  mb->recompute_blocks[0] = recompute;
}

static void example_iteration(struct plan_iteration *it, int index) {
  plan_iteration_clear(it);
  if (index == 0) {
    plan_add_group(it, 0, 4, -1);
    add(it, false, 2048, 2, 0, 2);
    add(it, false, 2048, 0, 2, 1);
    plan_add_group(it, 4, 2, -1);
    add(it, true, 0, 1, 3, 2);
    plan_add_group(it, 6, 1, -1);
    add(it, false, 768, 0, 5, 1);
  } else {
    plan_add_group(it, 0, 8, -1);
    add(it, false, 1024, 2, 6, 3);
  }
}

static struct params *params;

static struct schedule_header example_header(const struct cluster *cluster) {
  struct schedule_header h = {.policy = "dcp",
                              .trace = "lengths \"1\".txt",
                              .model = "tiny-1d",
                              .cluster = "h200_8x1",
                              .framework = "fused",
                              .weighting = "published",
                              .params = "h200_sxm",
                              .world = 8,
                              .gpus_per_node = 8,
                              .zero = 1,
                              .sp_kind = SP_ULYSSES,
                              .seed = 7,
                              .samples_total = 12,
                              .memory_cap_bytes = cluster->memory_bytes / 2};
  snprintf(h.params_sha256, sizeof h.params_sha256, "%s", params_sha256(params));
  return h;
}

/* Writes the example; `change` may alter the header. Returns what commit returns. */
static int write_example(void (*change)(struct schedule_header *h), struct err *err) {
  static const uint32_t dropped[] = {9}, infeasible[] = {10}, overlong[] = {11};
  struct transformer model;
  struct cluster cluster;
  cr_assert_eq(transformer_load(&model, "tiny-1d", err), 0);
  cr_assert_eq(cluster_load(&cluster, "h200_8x1", err), 0);
  cr_assert_eq(params_load(&params, "h200_sxm", err), 0, "%s", err->msg);
  struct schedule_header h = example_header(&cluster);
  if (change)
    change(&h);
  params_free(params);
  struct sample_set samples = example_samples();
  struct schedule_writer *w;
  struct plan_iteration it = {0};
  double weights[8], times[8] = {0.5, 0.25, 0.125, 0, 0, 0, 0, 0};
  cr_assert_eq(schedule_writer_open(&w, path, err), 0, "%s", err->msg);
  for (int i = 0; i < 2; i++) {
    example_iteration(&it, i);
    schedule_weights(&it, &samples, 8, strcmp(h.weighting, "per_token") == 0, weights);
    cr_assert_eq(schedule_writer_iteration(w, &samples, &model, &it, weights, 0.75, times, err), 0);
  }
  plan_iteration_release(&it);
  return schedule_writer_commit(w, &h, (struct schedule_ids){dropped, NULL, 1},
                                (struct schedule_ids){infeasible, NULL, 1}, (struct schedule_ids){overlong, NULL, 1},
                                err);
}

static char *read_file(void) {
  FILE *f = fopen(path, "r");
  cr_assert(f);
  char *text = xcalloc(1, 1 << 16);
  size_t n = fread(text, 1, (1 << 16) - 1, f);
  fclose(f);
  text[n] = '\0';
  return text;
}

static void write_file(const char *text) {
  FILE *f = fopen(path, "w");
  cr_assert(f);
  fputs(text, f);
  fclose(f);
}

/* ---- Findings -----------------------------------------------------------------------------------------------------
 */

struct found {
  int n;
  struct schedule_finding v[32];
};

static void keep(void *context, const struct schedule_finding *f) {
  struct found *all = context;
  if (all->n < 32)
    all->v[all->n] = *f;
  all->n++;
}

static struct found check_file(struct schedule_check *summary) {
  struct found found = {0};
  struct err err = {0};
  int64_t n = schedule_check(path, summary, keep, &found, &err);
  cr_assert_eq(n, found.n, "%s", err.msg);
  return found;
}

/* The example with `from` replaced by `to` where it first occurs. */
static void doctor(const char *from, const char *to) {
  struct err err = {0};
  cr_assert_eq(write_example(NULL, &err), 0, "%s", err.msg);
  char *text = read_file(), *at = strstr(text, from);
  cr_assert(at, "'%s' is not in the example: %s", from, text);
  char *changed = xcalloc(1, strlen(text) + strlen(to) + 1);
  sprintf(changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  write_file(changed);
  free(text);
  free(changed);
}

/* Exactly one finding, of this rule and saying this. */
static void expect_one(const char *rule, const char *says) {
  struct schedule_check summary;
  struct found found = check_file(&summary);
  cr_assert_eq(found.n, 1, "%d findings, first: %s: %s; second: %s: %s", found.n, found.n ? found.v[0].rule : "",
               found.v[0].message, found.n > 1 ? found.v[1].rule : "", found.v[1].message);
  cr_assert_str_eq(found.v[0].rule, rule);
  cr_assert(strstr(found.v[0].message, says), "%s", found.v[0].message);
}

static void expect_after(const char *from, const char *to, const char *rule, const char *says) {
  doctor(from, to);
  expect_one(rule, says);
}

/* ---- Writing ------------------------------------------------------------------------------------------------------
 */

Test(schedule, example_is_accepted) {
  struct err err = {0};
  struct schedule_check summary;
  cr_assert_eq(write_example(NULL, &err), 0, "%s", err.msg);
  struct found found = check_file(&summary);
  cr_assert_eq(found.n, 0, "%s: %s", found.v[0].rule, found.v[0].message);
  cr_assert_eq(summary.iterations, 2);
  cr_assert_eq(summary.samples, 9);
}

static void per_token(struct schedule_header *h) {
  strcpy(h->weighting, "per_token");
  h->zero = 3;
  h->grad_bytes = 4;
  h->head_chunk = 512;
  h->offload_optimizer = true;
  h->shard_node = true;
}

Test(schedule, options_make_the_round_trip) {
  struct err err = {0};
  struct schedule_check summary;
  struct schedule_reader r;
  struct found found = {0};
  cr_assert_eq(write_example(per_token, &err), 0, "%s", err.msg);
  cr_assert_eq(check_file(&summary).n, 0);
  cr_assert_eq(schedule_reader_open(&r, path, keep, &found, &err), 0);
  cr_assert(r.header.grad_bytes == 4 && r.header.head_chunk == 512 && r.header.offload_optimizer &&
            r.header.shard_node && r.header.zero == 3 && r.header.seed == 7 && r.header.samples_total == 12);
  cr_assert_str_eq(r.header.trace, "lengths \"1\".txt");
  cr_assert_str_eq(r.modules[0], "layer");
  schedule_reader_close(&r);
}

Test(schedule, reader_gives_back_the_plan) {
  struct err err = {0};
  struct found found = {0};
  struct schedule_reader r;
  struct schedule_step step = {0};
  struct plan_iteration it = {0};
  double weights[8];
  struct sample_set samples = example_samples();
  cr_assert_eq(write_example(NULL, &err), 0);
  cr_assert_eq(schedule_reader_open(&r, path, keep, &found, &err), 0);
  for (int i = 0; i < 2; i++) {
    example_iteration(&it, i);
    schedule_weights(&it, &samples, 8, false, weights);
    cr_assert_eq(schedule_reader_next(&r, &step, &err), 1);
    cr_assert(step.complete && step.iteration == i && step.plan.n_groups == it.n_groups);
    for (size_t g = 0; g < it.n_groups; g++)
      cr_assert(step.plan.groups[g].first_rank == it.groups[g].first_rank && step.plan.groups[g].sp == it.groups[g].sp);
    cr_assert_eq(step.plan.n_micro_batches, it.n_micro_batches);
    for (size_t m = 0; m < it.n_micro_batches; m++) {
      const struct plan_micro_batch *a = &it.micro_batches[m], *b = &step.plan.micro_batches[m];
      cr_assert(a->count == b->count && a->packed == b->packed && a->shape.a * !a->packed == b->shape.a &&
                a->recompute_blocks[0] == b->recompute_blocks[0]);
      cr_assert_eq(step.weights[m], weights[m]); /* to the last bit */
      cr_assert_eq(step.samples.ids[b->samples[0]], a->samples[0]);
      cr_assert_eq(step.samples.samples[b->samples[0]].a, shapes[a->samples[0]].a);
    }
  }
  cr_assert_eq(schedule_reader_next(&r, &step, &err), 0);
  cr_assert_eq(found.n, 0);
  schedule_reader_close(&r);
  schedule_step_release(&step);
  plan_iteration_release(&it);
}

/* One iteration of one group over all 8 ranks, of the first entries of `samples`, written for a model. */
static void write_one(const char *model_name, struct sample_set *samples, uint32_t n_run, struct sample padded,
                      struct schedule_ids dropped) {
  struct transformer model;
  struct cluster cluster;
  struct schedule_writer *w;
  struct plan_iteration it = {0};
  struct err err = {0};
  double weight = 1, time_s = 2;
  cr_assert_eq(transformer_load(&model, model_name, &err), 0);
  cr_assert_eq(cluster_load(&cluster, "h200_8x1", &err), 0);
  cr_assert_eq(params_load(&params, "h200_sxm", &err), 0);
  struct schedule_header h = example_header(&cluster);
  params_free(params);
  snprintf(h.model, sizeof h.model, "%s", model_name);
  h.sp_kind = model.is_2d ? SP_DSP : SP_ULYSSES;
  h.samples_total = samples->ids ? 3 : samples->n;
  plan_add_group(&it, 0, 8, -1);
  add(&it, false, padded.a, 1, 0, n_run);
  it.micro_batches[0].shape = padded;
  it.micro_batches[0].recompute_blocks[1] = 2;
  cr_assert_eq(schedule_writer_open(&w, path, &err), 0);
  cr_assert_eq(schedule_writer_iteration(w, samples, &model, &it, &weight, 2, &time_s, &err), 0);
  struct schedule_ids none = {0};
  cr_assert_eq(schedule_writer_commit(w, &h, dropped, none, none, &err), 0);
  plan_iteration_release(&it);
}

Test(schedule, videos_have_two_modules) {
  struct sample videos[] = {{15, 144}, {12, 144}};
  struct sample_set samples = {.is_2d = true, .n = 2, .samples = videos};
  struct schedule_check summary;
  write_one("tiny-2d", &samples, 2, (struct sample){15, 144}, (struct schedule_ids){0});
  struct found found = check_file(&summary);
  cr_assert_eq(found.n, 0, "%s: %s", found.v[0].rule, found.v[0].message);
  char *text = read_file();
  cr_assert(strstr(text, "\"modules\":[\"spatial\",\"temporal\"]") && strstr(text, "\"recompute_layers\":[1,2]") &&
            strstr(text, "\"shapes\":[[15,144],[12,144]]"));
  free(text);
}

Test(schedule, pieces_are_named_by_id_and_offset) {
  struct sample pieces[] = {{1000, 1}, {500, 1}, {300, 1}, {1000, 1}, {7, 1}};
  uint32_t ids[] = {0, 0, 1, 2, 2}, offsets[] = {0, 1000, 0, 0, 1000}; /* the last is dropped */
  struct sample_set samples = {.n = 5, .samples = pieces, .ids = ids, .offsets = offsets};
  struct schedule_check summary;
  write_one("tiny-1d", &samples, 4, (struct sample){1024, 1}, (struct schedule_ids){&ids[4], &offsets[4], 1});
  char *text = read_file();
  cr_assert(strstr(text, "\"samples\":[[0,0],[0,1000],1,[2,0]]") && strstr(text, "\"dropped\":[[2,1000]]"), "%s", text);
  free(text);
  struct found found = check_file(&summary);
  cr_assert_eq(found.n, 0, "%s", found.v[0].message);
  cr_assert_eq(summary.samples, 3);
}

Test(schedule, published_weights_by_hand) {
  struct plan_iteration it = {0};
  struct sample_set samples = example_samples();
  double w[8];
  example_iteration(&it, 0); /* 4 ranks with 2 micro-batches, 2 with 1, 1 with 1: A = 7 */
  schedule_weights(&it, &samples, 8, false, w);
  cr_assert_eq(w[0], 4 / (7.0 * 2));
  cr_assert_eq(w[1], 4 / (7.0 * 2));
  cr_assert_eq(w[2], 2 / 7.0);
  cr_assert_eq(w[3], 1 / 7.0);
  schedule_weights(&it, &samples, 8, true, w);
  cr_assert_float_eq(w[0], 3500 / 6398.0, 1e-15);
  cr_assert_float_eq(w[3], 700 / 6398.0, 1e-15);
  plan_iteration_release(&it);
}

Test(schedule, weights_of_merged_rounds) {
  struct plan_iteration it = {0};
  struct sample_set samples = example_samples();
  double w[8];
  plan_add_group(&it, 0, 2, -1); /* round 0: ranks 0-1 and 2-3; round 1: ranks 0-3 together */
  add(&it, false, 2048, 0, 0, 1);
  plan_add_group(&it, 2, 2, -1);
  add(&it, false, 2048, 0, 1, 1);
  add(&it, false, 2048, 0, 2, 1);
  plan_add_group(&it, 0, 4, -1)->round = 1;
  add(&it, false, 2048, 0, 3, 1);
  schedule_weights(&it, &samples, 8, false, w); /* ranks 0-1 run 2, ranks 2-3 run 3, A = 4 */
  cr_assert_float_eq(w[0], 2 / (4.0 * 2), 1e-15);
  cr_assert_float_eq(w[1], 2 / (4.0 * 3), 1e-15);
  cr_assert_float_eq(w[3], 2 / (4.0 * 2) + 2 / (4.0 * 3), 1e-15);
  cr_assert_float_eq(w[0] + w[1] + w[2] + w[3], 1, 1e-15);
  plan_iteration_release(&it);
}

Test(schedule, discard_leaves_nothing) {
  struct schedule_writer *w;
  cr_assert_eq(schedule_writer_open(&w, path, NULL), 0);
  schedule_writer_discard(w);
  schedule_writer_discard(NULL);
  cr_assert_neq(access(path, F_OK), 0);
}

Test(schedule, a_full_disk_leaves_the_old_file) {
  struct err err = {0};
  struct rlimit limit = {300, RLIM_INFINITY};
  write_file("old");
  signal(SIGXFSZ, SIG_IGN);
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  int status = write_example(NULL, &err);
  limit.rlim_cur = RLIM_INFINITY;
  setrlimit(RLIMIT_FSIZE, &limit);
  cr_assert_eq(status, -1);
  cr_assert(strstr(err.msg, path), "%s", err.msg);
  char *text = read_file();
  cr_assert_str_eq(text, "old");
  free(text);
}

/* ---- One doctored schedule per rule -------------------------------------------------------------------------------
 */

Test(schedule, header_findings) {
  expect_after("\"world\":8,", "", "header", "'world' is missing");
  expect_after("\"zero\":1", "\"zero\":4", "header", "'zero' must be an integer from 0 to 3");
  expect_after("\"partial\"", "\"partail\":false,\"partial\"", "header", "did you mean 'partial'?");
  expect_after("\"model\":\"tiny-1d\"", "\"model\":\"tiny-3d\"", "header", "tiny-3d");
  expect_after("\"gpus_per_node\":8", "\"gpus_per_node\":4", "header", "'gpus_per_node' is 4");
  expect_after("[\"layer\"]", "[\"spatial\",\"temporal\"]", "header", "'modules'");
}

Test(schedule, header_findings_of_words_and_files) {
  expect_after("\"fused\"", "\"fussed\"", "header", "framework");
  expect_after("\"sp_kind\":\"ulysses\"", "\"sp_kind\":\"ulises\"", "header", "must be one of \"ulysses\"");
  expect_after("\"sha256\":\"", "\"sha256\":\"0", "header", "'sha256' is longer than 64 bytes");
  expect_after("\"file\":\"h200_sxm\"", "\"file\":\"h201_sxm\"", "header", "h201_sxm");
  expect_after("\"overlong\":[11]", "\"overlong\":[11,\"x\"]", "header", "entry 1 is neither");
}

static void other_parameters(struct schedule_header *h) { memset(h->params_sha256, 'a', 64); }

Test(schedule, changed_parameters_are_a_finding) {
  struct err err = {0};
  cr_assert_eq(write_example(other_parameters, &err), 0);
  expect_one("header", "have changed");
}

Test(schedule, lines_that_are_not_json) {
  expect_after("{\"iteration\":1", "{\"iteration\" 1", "json", "line 3 column");
  expect_after("{\"iteration\":1", "[1]\n{\"iteration\":1", "json", "line 3 column 1: an iteration must be");
}

Test(schedule, format_findings) {
  expect_after("\"recompute_layers\":[1]", "\"recompute_layers\":[1,1]", "format", "one integer per module");
  expect_after("\"recompute_layers\":[1]", "\"recompute_layer\":[1],\"recompute_layers\":[1]", "format",
               "unknown key 'recompute_layer', did you mean 'recompute_layers'?");
  expect_after("\"layout\":\"packed\"", "\"layout\":\"packed\",\"padded_shape\":[128]", "format", "does not belong");
  expect_after("\"shapes\":[[100],[50]]", "\"shapes\":[[100]]", "format", "equally long");
  expect_after("\"shapes\":[[100],[50]]", "\"shapes\":[[100],[0]]", "format", "entry 1 of 'shapes'");
  expect_after("\"ranks\":[4,6]", "\"ranks\":[4]", "format", "'ranks' must be");
}

Test(schedule, iterations_are_consecutive) {
  expect_after("{\"iteration\":1", "{\"iteration\":2", "iteration", "iteration 2 stands where 1 belongs");
}

Test(schedule, coverage_findings) {
  expect_after("\"dropped\":[9]", "\"dropped\":[]", "coverage", "sample 9 is missing");
  expect_after("\"dropped\":[9]", "\"dropped\":[9,10]", "coverage", "sample 10 is infeasible here, but also dropped");
  expect_after("\"dropped\":[9]", "\"dropped\":[9,9]", "coverage", "sample 9 is dropped twice");
  expect_after("\"dropped\":[9]", "\"dropped\":[9,12]", "coverage", "'samples_total' is 12");
  expect_after("\"samples_total\":12", "\"samples_total\":20", "coverage", "samples 12 to 19 are missing");
  expect_after("\"dropped\":[9]", "\"dropped\":[9,5]", "coverage", "sample 5 is scheduled here, but also dropped");
}

Test(schedule, partial_schedules_may_miss_samples) {
  struct schedule_check summary;
  doctor("\"samples_total\":12", "\"samples_total\":20");
  char *text = read_file(), *at = strstr(text, "\"partial\":false");
  memcpy(at, "\"partial\":true ", 15);
  write_file(text);
  free(text);
  cr_assert_eq(check_file(&summary).n, 0);
}

Test(schedule, pieces_cover_a_sample_once) {
  struct schedule_check summary;
  doctor("\"samples\":[6,7,8]", "\"samples\":[[6,0],[6,900],8]");
  struct found found = check_file(&summary);
  cr_assert(found.n == 1 && strcmp(found.v[0].message, "sample 7 is missing") == 0);
  cr_assert_eq(summary.samples, 8);
}

/* The example with sample 7 dropped and its place taken by the second piece of sample 6. */
static void expect_pieces(const char *pieces, const char *says) {
  char ids[64];
  snprintf(ids, sizeof ids, "\"samples\":[%s,8]", pieces);
  doctor("\"samples\":[6,7,8]", ids);
  char *text = read_file(), *at = strstr(text, "\"dropped\":[9]"), *changed = xcalloc(1, strlen(text) + 8);
  sprintf(changed, "%.*s\"dropped\":[9,7]%s", (int)(at - text), text, at + strlen("\"dropped\":[9]"));
  write_file(changed);
  free(text);
  free(changed);
  expect_one("coverage", says);
}

Test(schedule, piece_findings) {
  expect_pieces("[6,0],[6,901]", "sample 6 misses its tokens 900 to 900");
  expect_pieces("[6,0],[6,899]", "begins inside the one before");
  expect_pieces("[6,0],[6,0]", "piece [6, 0] is scheduled and so a second time");
  expect_pieces("[6,5],[6,905]", "starts at token 5");
  expect_pieces("6,[6,900]", "sample [6, 900] is scheduled twice");
}

Test(schedule, ranks_findings) {
  expect_after("\"ranks\":[6,7]", "\"ranks\":[5,6]", "ranks", "rank 5 is in two groups at once");
  expect_after("\"ranks\":[6,7]", "\"ranks\":[8,9]", "ranks", "'world' is 8");
  expect_after("\"ranks\":[0,4]", "\"ranks\":[0,4],\"round\":1", "ranks", "round 0 stands after round 1");
}

Test(schedule, alignment_and_powers_of_two) {
  struct schedule_check summary;
  doctor("\"ranks\":[4,6]", "\"ranks\":[5,7]");
  struct found found = check_file(&summary); /* also shares rank 6 */
  cr_assert(found.n == 2 && strstr(found.v[0].message, "2 ranks must start at a multiple of 2, not at 5"));
  doctor("\"ranks\":[0,8]", "\"ranks\":[0,7]"); /* alone: its weight stays 1 */
  expect_one("ranks", "7 ranks: an SP degree is a power of two");
}

Test(schedule, shapes_fit) {
  expect_after("\"padded_shape\":[768]", "\"padded_shape\":[640]", "shape",
               "sample 5 of 700 tokens does not fit the padded shape 640");
}

Test(schedule, recomputed_blocks_are_the_models) {
  expect_after("\"recompute_layers\":[1]", "\"recompute_layers\":[3]", "recompute", "3 recomputed layer blocks");
  expect_after("\"recompute_layers\":[1]", "\"recompute_layers\":[-1]", "recompute", "-1 recomputed");
}

Test(schedule, memory_is_under_the_cap) {
  expect_after("\"padded_shape\":[1024]", "\"padded_shape\":[40000000]", "memory", "is over the cap of");
  expect_after("\"padded_shape\":[1024]", "\"padded_shape\":[1000000000]", "memory", "over the cap");
}

Test(schedule, weights_follow_the_rule) {
  struct schedule_check summary;
  doctor("\"weight\":1.0", "\"weight\":0.999");
  struct found found = check_file(&summary);
  cr_assert_eq(found.n, 2);
  cr_assert_str_eq(found.v[0].rule, "weights");
  cr_assert(strstr(found.v[0].message, "weight 0.999, by the rule 'published' it is 1"), "%s", found.v[0].message);
  cr_assert(strstr(found.v[1].message, "sum to 0.999"), "%s", found.v[1].message);
  doctor("\"weight\":1.0", "\"weight\":1.0000000001");
  cr_assert_eq(check_file(&summary).n, 0);
}

Test(schedule, times_are_not_negative) {
  expect_after("\"predicted_time_s\":0.75", "\"predicted_time_s\":-1", "time", "must not be negative, got -1");
  expect_after("\"predicted_time_s\":0.75", "\"predicted_time_s\":null", "format", "must be a finite number");
}

/* ---- What is no schedule ------------------------------------------------------------------------------------------
 */

Test(schedule, no_schedule_at_all) {
  static const char *const bad[] = {
      "", "\n\n", "17\n5\n", "{\"schema\":\"dcpsim.result/1\"}\n", "{\"schema\":", "\x7f"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct schedule_check summary;
    struct found found = {0};
    struct err err = {0};
    write_file(bad[i]);
    cr_assert_eq(schedule_check(path, &summary, keep, &found, &err), -1, "%s", bad[i]);
    cr_assert(err.set && strstr(err.msg, path), "%s", err.msg);
  }
}

Test(schedule, an_empty_header_lists_what_is_missing) {
  struct schedule_check summary;
  write_file("{\"schema\":\"dcpsim.schedule/1\"}\n{}\n{\"iteration\":0,\"groups\":[{},1,{\"ranks\":[0,2]}]}\n");
  struct found found = check_file(&summary);
  cr_assert_gt(found.n, 18);
  cr_assert_str_eq(found.v[0].message, "line 1: 'world' is missing");
}

Test(schedule, overlong_lines_stop_the_reading) {
  struct json_lines l;
  struct err err = {0};
  char *text = xmalloc(200001);
  memset(text, 'x', 200000);
  text[200000] = '\0';
  write_file(text);
  cr_assert_eq(json_lines_open(&l, "schedule", path, &err), 0);
  l.limit = 100000;
  cr_assert_eq(json_lines_next(&l, &err), -1);
  cr_assert(strstr(err.msg, "line 1: longer than 100000 bytes"), "%s", err.msg);
  json_lines_release(&l);
  free(text);
}
