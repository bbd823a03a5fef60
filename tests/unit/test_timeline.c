#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/json.h"
#include "sim/plan/timeline.h"

static char path[64];

static void setup(void) {
  snprintf(path, sizeof path, "/tmp/test_timeline_XXXXXX");
  int fd = mkstemp(path);
  cr_assert(fd >= 0);
  close(fd);
}

static void teardown(void) { unlink(path); }

TestSuite(timeline, .init = setup, .fini = teardown);

static void write_file(const char *text) {
  FILE *f = fopen(path, "w");
  cr_assert(f);
  fputs(text, f);
  fclose(f);
}

static const struct timeline_span spans[] = {
    {0, 1234567, "attention_forward", TIMELINE_COMPUTE, TIMELINE_CAT_COMPUTE, 0, 8, 4, 2},
    {1, 2, "all_to_all \"q\"", TIMELINE_EXCHANGE, TIMELINE_CAT_SP_EXCHANGE, 0, 0, 8, 0},
    {INT64_C(90000000000001), INT64_C(90000000000004), "reduce_scatter", TIMELINE_SYNC, TIMELINE_CAT_GRAD_SYNC, 7, 31,
     1, -1},
    {5, 9, "attention_forward", TIMELINE_COMPUTE, TIMELINE_CAT_RECOMPUTE, 1, 8, 4, 0},
};
enum { SPANS = sizeof spans / sizeof *spans };

static struct timeline example(void) {
  struct timeline t = {.policy = "dcp", .run = "a \"trace\" on tiny-1d"};
  for (int i = 0; i < SPANS; i++)
    timeline_add(&t, spans[i]);
  return t;
}

Test(timeline, round_trip_is_exact) {
  struct timeline t = example(), back;
  struct err err = {0};
  t.left_out = 3;
  cr_assert_eq(timeline_write(&t, path, &err), 0, "%s", err.msg);
  cr_assert_eq(timeline_read(&back, path, &err), 0, "%s", err.msg);
  cr_assert_eq(back.n, (size_t)SPANS);
  cr_assert_eq(back.left_out, (size_t)3);
  cr_assert_str_eq(back.policy, t.policy);
  cr_assert_str_eq(back.run, t.run);
  for (int i = 0; i < SPANS; i++) {
    const struct timeline_span *a = &spans[i], *b = &back.spans[i];
    cr_assert_eq(a->start_ns, b->start_ns);
    cr_assert_eq(a->end_ns, b->end_ns);
    cr_assert_str_eq(a->name, b->name);
    cr_assert(a->stream == b->stream && a->category == b->category && a->iteration == b->iteration &&
              a->first_rank == b->first_rank && a->sp == b->sp && a->micro_batch == b->micro_batch);
  }
  timeline_release(&t);
  timeline_release(&back);
}

Test(timeline, is_a_chrome_trace) {
  struct timeline t = example();
  struct json_doc doc;
  cr_assert_eq(timeline_write(&t, path, NULL), 0);
  struct err err = {0};
  cr_assert_eq(json_doc_read(&doc, "timeline", path, NULL, &err), 0, "%s", err.msg);
  const json_t *events = json_object_get(doc.root, "traceEvents");
  int processes = 0, complete = 0;
  const json_t *event;
  size_t i;
  json_array_foreach(events, i, event) {
    const char *name = json_string_value(json_object_get(event, "name"));
    const json_t *args = json_object_get(event, "args");
    if (strcmp(json_string_value(json_object_get(event, "ph")), "X") == 0) {
      complete++;
      cr_assert(json_is_number(json_object_get(event, "ts")) && json_is_number(json_object_get(event, "dur")));
      cr_assert_str_eq(json_string_value(json_object_get(args, "policy")), "dcp");
    } else if (strcmp(name, "process_name") == 0) { /* in the order of their ranks */
      static const char *const expected[] = {"ranks 0-7 (SP 8)", "ranks 8-11 (SP 4)", "rank 31 (SP 1)"};
      cr_assert_str_eq(json_string_value(json_object_get(args, "name")), expected[processes]);
      processes++;
    }
  }
  cr_assert_eq(processes, 3);
  cr_assert_eq(complete, SPANS);
  json_doc_release(&doc);
  timeline_release(&t);
}

Test(timeline, limit_counts_what_it_leaves_out) {
  struct timeline t = {.limit = 2};
  for (int i = 0; i < SPANS; i++)
    timeline_add(&t, spans[i]);
  cr_assert_eq(t.n, (size_t)2);
  cr_assert_eq(t.left_out, (size_t)(SPANS - 2));
  timeline_release(&t);
}

Test(timeline, empty_is_valid) {
  struct timeline t = {.policy = "bucket"}, back;
  cr_assert_eq(timeline_write(&t, path, NULL), 0);
  cr_assert_eq(timeline_read(&back, path, NULL), 0);
  cr_assert_eq(back.n, (size_t)0);
}

Test(timeline, refuses_what_it_did_not_write) {
  static const char *const bad[] = {
      "",
      "{}",
      "[1,2",
      "{\"traceEvents\":[\n",
      "{\"traceEvents\":[\n{\"ph\":\"X\"},\n]}",
      "{\"traceEvents\":[\n{\"name\":\"a\",\"cat\":\"compute\",\"ph\":\"X\",\"ts\":0,\"dur\":1,\"pid\":9,\"tid\":1}\n",
      "{\"traceEvents\":[\n\x01\xff\n",
      "{\"traceEvents\":[\n],\"otherData\":{}}\n",
      "{\"traceEvents\":[\n]\n"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct timeline t;
    struct err err = {0};
    write_file(bad[i]);
    cr_assert_eq(timeline_read(&t, path, &err), -1, "%s", bad[i]);
    cr_assert(err.set && strstr(err.msg, path), "%s", err.msg);
  }
}

Test(timeline, a_cut_file_is_named_cut) {
  struct timeline t = example(), back;
  struct err err = {0};
  cr_assert_eq(timeline_write(&t, path, NULL), 0);
  FILE *f = fopen(path, "r+");
  cr_assert(f && fseek(f, -400, SEEK_END) == 0);
  cr_assert_eq(ftruncate(fileno(f), ftell(f)), 0);
  fclose(f);
  cr_assert_eq(timeline_read(&back, path, &err), -1);
  cr_assert(strstr(err.msg, "line"), "%s", err.msg);
  timeline_release(&t);
}
