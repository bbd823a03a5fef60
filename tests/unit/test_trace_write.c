/* What is written is read back as it was; refusals of what cannot be written. */
#include "sim/base/rng.h"
#include "tests/unit/test_trace_files.h"
#include "traces/format.h"
#include "traces/generate.h"

static void round_trip(const struct trace *t, const char *format) {
  struct trace back;
  struct err err = {.set = false};
  make_file("", 0);
  cr_assert_eq(trace_write(t, format, made_path, &err), 0, "%s", err.msg);
  cr_assert_eq(trace_load(&back, made_path, NULL, &err), 0, "%s: %s", format, err.msg);
  cr_expect_str_eq(back.format, format);
  cr_expect(back.n == t->n && back.is_2d == t->is_2d);
  cr_expect_eq(memcmp(back.samples, t->samples, (size_t)t->n * sizeof *t->samples), 0, "%s", format);
  trace_release(&back);
  unlink(made_path);
}

Test(trace_write, round_trips) {
  static const char *const formats[] = {"text", "csv", "json", "jsonl", "npy"};
  struct trace t;
  struct err err = {.set = false};
  cr_assert_eq(trace_generate(&t, "pareto:alpha=0.5,scale=1", 50000, 3, &err), 0, "%s", err.msg);
  t.samples[0].a = TRACE_MAX_LENGTH;
  for (int i = 0; i < 5; i++)
    round_trip(&t, formats[i]);
  t.n = 1;
  for (int i = 0; i < 5; i++)
    round_trip(&t, formats[i]);
  cr_expect_eq(trace_write(&t, "video_csv", "/tmp/x", &err), -1);
  cr_expect(err.usage && strstr(err.msg, "1D"));
  trace_release(&t);
  cr_assert_eq(trace_generate(&t, "zipf_video:offset=5,size=300,image_frac=2", 0, 3, &err), 0, "%s", err.msg);
  round_trip(&t, "video_csv");
  cr_expect_eq(trace_write(&t, "text", "/tmp/x", &err), -1);
  cr_expect(err.usage && strstr(err.msg, "video_csv"));
  t.samples[7] = (struct sample){3, 3};
  cr_expect_eq(trace_write(&t, "video_csv", "/tmp/dcpsim_trace_no_size", &err), -1);
  cr_expect(strstr(err.msg, "sample 7") && access("/tmp/dcpsim_trace_no_size", F_OK) != 0);
  trace_release(&t);
}

Test(trace_write, refusals) {
  struct sample s = {5, 1};
  struct trace t = {.name = (char *)"t", .format = "text", .samples = &s, .n = 1};
  struct err err = {.set = false};
  cr_expect_eq(trace_write(&t, "histogram", "/tmp/x", &err), -1);
  cr_expect(err.usage && strstr(err.msg, "read only"));
  cr_expect_eq(trace_write(&t, "nope", "/tmp/x", &err), -1);
  cr_expect(err.usage &&
            strstr(err.msg, "one of: npy, megatron_idx, mds, batches, json, jsonl, histogram, video_csv, csv, text"));
  cr_expect_eq(trace_write(&t, "text", "/tmp/x.gz", &err), -1);
  cr_expect(err.usage && strstr(err.msg, "uncompressed"));
  cr_expect_eq(trace_write(&t, "text", "/no/such/folder/x", &err), -1);
  cr_expect(!err.usage && strstr(err.msg, "/no/such/folder/x"));
  cr_expect_str_eq(trace_format_of_suffix("a/b.jsonl")->name, "jsonl");
  cr_expect_str_eq(trace_format_of_suffix("b.csv")->name, "csv");
  cr_expect_null(trace_format_of_suffix("b"));
  cr_expect_null(trace_format_of_suffix("b.parquet"));
}
