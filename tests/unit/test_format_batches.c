/* Batches as a data loader forms them: which sample is in which, and each way to be wrong. */
#include "sim/base/units.h"
#include "tests/unit/test_trace_files.h"

/* "0:512 0:77 1:2048": the batch of every sample, and its length. */
static void expect_batches(const void *bytes, size_t n, const struct trace_options *options, const char *wanted,
                           int64_t skipped_bad, int line) {
  struct trace t = {0};
  struct err err;
  char got[4096] = "";
  int rc = load_bytes(&t, bytes, n, options, &err);
  cr_assert_eq(rc, 0, "line %d: refused: %s", line, err.msg);
  cr_expect_str_eq(t.format, "batches", "line %d: read as %s", line, t.format);
  cr_assert(t.batch, "line %d: no batches", line);
  for (int64_t i = 0; i < t.n && strlen(got) < sizeof got - 32; i++)
    sprintf(got + strlen(got), "%s%u:%u", i ? " " : "", t.batch[i], t.samples[i].a);
  cr_expect_str_eq(got, wanted, "line %d: %s", line, got);
  cr_expect_eq(t.skipped_bad, skipped_bad, "line %d: %lld skipped", line, (long long)t.skipped_bad);
  trace_release(&t);
}

#define EXPECT_BATCHES(text, wanted) expect_batches((text), strlen(text), NULL, (wanted), 0, __LINE__)

Test(format_batches, good) {
  EXPECT_BATCHES("{\"batches\": [[512, 77], [2048], [1, 2, 3]]}", "0:512 0:77 1:2048 2:1 2:2 2:3");
  EXPECT_BATCHES("{\"schema\": \"dcpsim.batches/1\", \"batches\": [[5]]}\n", "0:5");
  EXPECT_BATCHES("\n { \"batches\" :\n\n[ [ 5\n,6 ]\n,\t[7] ] , \"schema\" : \"dcpsim.batches/1\" }  \n",
                 "0:5 0:6 1:7");
  EXPECT_BATCHES("\xef\xbb\xbf{\"batches\":[[5.0,6e1],[{\"length\": 7}, {\"input_ids\": [1, 2, 3]}]]}",
                 "0:5 0:60 1:7 1:3");
}

/* Batches keep the numbers that they have in the file. */
Test(format_batches, skip_bad) {
  static const char text[] = "{\"batches\": [[0, 5], [], [-1, \"x\"], [7, [8]], [9]]}";
  struct trace_options options = {.skip_bad = true};
  expect_batches(text, strlen(text), &options, "0:5 3:7 4:9", 5, __LINE__);
  static const char none[] = "{\"batches\": [[0], []]}";
  expect_refused(none, strlen(none), &options, "no good sample in it (2 bad ones skipped)", __LINE__);
}

/* An object whose "batches" is no array is a line of JSON Lines. */
Test(format_batches, detection) {
  EXPECT_TEXT("{\"length\": 5, \"batches\": 3}\n{\"length\": 6}\n", "jsonl", "5 6");
  EXPECT_REFUSED("{\"batch\": [[5]]}", "none of the keys length");
  static const char text[] = "{\"batch\": [[5]]}";
  struct trace_options named = {.format = "batches"};
  expect_refused(text, strlen(text), &named, "line 1: unknown key 'batch', did you mean 'batches'?", __LINE__);
}

#define WRONG(text, message) EXPECT_REFUSED((text), "' line " message)

Test(format_batches, wrong_structure) {
  WRONG("{\"batches\": [[5], [6", "1: the file ends inside the JSON array");
  WRONG("{\"batches\": [[5],\n", "2: the file ends inside the JSON object");
  WRONG("{\"batches\": [[5]]", "1: the file ends inside the JSON object");
  WRONG("{\"batches\": [[5]],", "1: the file ends inside the JSON object");
  WRONG("{\"batches\": [[5]], \"sche", "1: the file ends inside the JSON object");
  WRONG("{\"batches\": [[5]]}\n{}", "2: data after the end of the JSON object");
  WRONG("{\"batches\": [[5] [6]]}", "1: '[' where a comma belongs");
  WRONG("{\"batches\": [[5],,[6]]}", "1: batch 1 must be an array of lengths, got ',[6]'");
  WRONG("{\"batches\": [[5]] \"schema\": 1}", "1: '\"' where a comma belongs");
  WRONG("{\"batches\": [[5]], 7}", "1: '7' where a key belongs");
  WRONG("{\"batches\": [[5]],}", "1: '}' where a key belongs");
  WRONG("{\"batches\": [[5]], \"schema\" \"x\"}", "1: '\"' where a colon belongs");
  WRONG("{\"batches\": [[5]],\n\"batches\": [[6]]}", "2: duplicate key 'batches'");
  WRONG("{\"batches\": [[5]],\n\"schemo\": 1}", "2: unknown key 'schemo', did you mean 'schema'?");
  WRONG("{\"batches\": [[5]],\n\"world\": 1}", "2: unknown key 'world' (valid: batches, schema)");
  WRONG("{\"schema\": \"dcpsim.batches/2\",\n\"batches\": [[5]]}",
        "1: the schema must be 'dcpsim.batches/1', got 'dcpsim.batches/2'");
  WRONG("{\"schema\": 1,\n\"batches\": [[5]]}", "1: '1' where the schema belongs");
  WRONG("{\"batches\": [[5]], \"0123456789012345678901234567890123456789012345678901234567890123\": 1}",
        "1: a key is too long: '012345678901234567890123456789012345678901234567...'");
  EXPECT_REFUSED("{\"batches\": []}", "no lengths in it");
  static const char text[] = "[[5]]", only_schema[] = "{\"schema\": \"dcpsim.batches/1\"}";
  struct trace_options named = {.format = "batches"};
  expect_refused(text, strlen(text), &named, "line 1: '[' where the object with \"batches\" belongs", __LINE__);
  expect_refused(only_schema, strlen(only_schema), &named, "line 1: no key 'batches' in the object", __LINE__);
}

Test(format_batches, wrong_values) {
  WRONG("{\"batches\": [[5],\n[]]}", "2: batch 1 is empty");
  WRONG("{\"batches\": [[5],\n\n6]}", "3: batch 1 must be an array of lengths, got '6'");
  WRONG("{\"batches\": [[5],\n{\"a\": 1}]}", "2: batch 1 must be an array of lengths, got '{\"a\": 1}'");
  WRONG("{\"batches\": [[5, 0]]}", "1: length must be positive, got '0'");
  WRONG("{\"batches\": [[5,\n-3]]}", "2: length must be positive, got '-3'");
  WRONG("{\"batches\": [[5.5]]}", "1: length must be an integer, got '5.5'");
  WRONG("{\"batches\": [[1000000001]]}", "1: length must be at most 1000000000, got '1000000001'");
  WRONG("{\"batches\": [[null]]}", "1: length must be a positive integer, got 'null'");
  WRONG("{\"batches\": [[\"5\"]]}", "1: an element of the array must be a number, got \"5\"");
  WRONG("{\"batches\": [[[51, 240, 426]]]}", "1: an element of the array must be a number, got [51, 240, 426]");
  WRONG("{\"batches\": [[5,,6]]}", "1: not a JSON array: a value is missing before ','");
  WRONG("{\"batches\": [[5,]]}", "1: not a JSON array: a value is missing before ']'");
  WRONG("{\"batches\": [[5}]}", "1: not a JSON array: '}' where a comma belongs");
}

/* A file many times the reader's window: read back as written. */
Test(format_batches, large_and_round_trip) {
  enum { BATCHES = 60000 };
  struct trace t = {.name = "made"}, back;
  struct err err = {.set = false};
  size_t n = 0, cap = 0, n_batch = 0, batch_cap = 0;
  for (uint32_t b = 0; b < BATCHES; b++)
    for (uint32_t i = 0; i <= b % 5; i++) {
      struct sample one = {1 + (b * 7919 + i) % 100000, 1};
      VEC_PUSH(t.samples, n, cap, one);
      VEC_PUSH(t.batch, n_batch, batch_cap, b);
    }
  t.n = (int64_t)n;
  cr_expect_eq(trace_batches(&t), BATCHES);
  make_file("", 0);
  cr_assert_eq(trace_write(&t, "batches", made_path, &err), 0, "%s", err.msg);
  cr_assert_eq(trace_load(&back, made_path, NULL, &err), 0, "%s", err.msg);
  cr_assert_eq(back.n, t.n);
  cr_expect_arr_eq(back.samples, t.samples, n * sizeof *t.samples);
  cr_expect_arr_eq(back.batch, t.batch, n * sizeof *t.batch);
  unlink(made_path);
  trace_release(&back);
  t.name = NULL;
  trace_release(&t);
}

Test(format_batches, write) {
  struct trace t;
  struct err err = {.set = false};
  cr_assert_eq(load_text(&t, "5\n6\n", NULL, &err), 0);
  make_file("", 0);
  cr_expect_eq(trace_write(&t, "batches", made_path, &err), -1);
  cr_expect(err.usage && strstr(err.msg, "holds no batches and cannot be written as batches"), "%s", err.msg);
  unlink(made_path);
  trace_release(&t);
  cr_assert_eq(load_text(&t, "{\"batches\": [[5, 6], [7]]}", NULL, &err), 0);
  make_file("", 0);
  cr_assert_eq(trace_write(&t, "batches", made_path, &err), 0);
  char text[200];
  FILE *file = fopen(made_path, "rb");
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  cr_expect_str_eq(text, "{\"schema\": \"dcpsim.batches/1\", \"batches\": [\n[5, 6],\n[7]\n]}\n");
  unlink(made_path);
  trace_release(&t);
}
