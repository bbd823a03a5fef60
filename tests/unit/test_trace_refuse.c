/* Bad input: an error that names file and line, nothing half-read; or counted, with skip_bad. */
#include <fcntl.h>
#include <sys/stat.h>

#include "tests/unit/test_trace_files.h"

Test(trace_refuse, text) {
  EXPECT_REFUSED("5\n0\n", "line 2|positive|'0'");
  EXPECT_REFUSED("5\n\n-3\n", "line 3|positive|'-3'");
  EXPECT_REFUSED("5\n-0\n", "line 2|positive");
  EXPECT_REFUSED("5\nnan\n", "line 2|positive integer|'nan'");
  EXPECT_REFUSED("5\ninf\n", "line 2|positive integer");
  EXPECT_REFUSED("5\n7\nabc\n", "line 3|'abc'");
  EXPECT_REFUSED("5\n0x10\n", "line 2|'0x10'");
  EXPECT_REFUSED("5\n2.5\n", "line 2|integer|'2.5'");
  EXPECT_REFUSED("5\n5 6\n", "line 2|'5 6'");
  EXPECT_REFUSED("5\n5,6\n", "line 2|'5,6'");
  EXPECT_REFUSED("5\n1000000001\n", "line 2|at most 1000000000");
  EXPECT_REFUSED("5\n99999999999999999999999\n", "line 2|at most 1000000000");
  EXPECT_REFUSED("5\n1e400\n", "line 2|at most");
  EXPECT_REFUSED("5\n999999999999999999999999999999999999999999999999999999999999999999999999999\n", "line 2|at most");
  EXPECT_REFUSED("5\n\x01\x02junk\n", "line 2|'??junk'");
  EXPECT_REFUSED("abc\n5\n", "line 1|'abc'|--column");
  EXPECT_REFUSED("nan\n", "line 1|nan");
  EXPECT_REFUSED("", "empty");
  EXPECT_REFUSED("\n \n\r\n", "empty");
  EXPECT_REFUSED("# only a comment\n", "empty");
  EXPECT_REFUSED("\xef\xbb\xbf", "empty");
  expect_refused("5\n7\n\0\0\0", 7, NULL, "binary", __LINE__);
}

Test(trace_refuse, csv) {
  EXPECT_REFUSED("length,x\n5,1\n0,1\n", "line 3|'length'|positive");
  EXPECT_REFUSED("x,length\n1,5\n1\n", "line 3|'length' is missing");
  EXPECT_REFUSED("x,length\n1,5\n1,\n", "line 3|'length' is missing");
  EXPECT_REFUSED("x,length\n\"a\nb\",5\n1,\"-4\"\n", "line 4|positive|'-4'");
  EXPECT_REFUSED("x,length\n1,5\n\"a,7\nb,8\n", "line 3|never closed");
  EXPECT_REFUSED("a,b\n5,1\n", "line 1|'a', 'b'|--column");
  EXPECT_REFUSED("5,1\n6,2\n", "line 1|'5', '1'");
  EXPECT_REFUSED("length\n", "no lengths");
  EXPECT_REFUSED("length,weight\n5,1\n6,x\n", "line 3|weight");
  EXPECT_REFUSED("length,weight\n5,1\n6,-1\n", "line 3|weight");
  EXPECT_REFUSED("length,weight\n5,1\n6,nan\n", "line 3|weight");
  EXPECT_REFUSED("length,weight\n5,1\n0,1\n", "line 3|'length'|positive");
  EXPECT_REFUSED("length,weight\n5,0\n6,0\n", "sum");
  EXPECT_REFUSED("length,weight\n", "no lengths");
  EXPECT_REFUSED("num_frames,height,width\n51,240,426\n0,240,426\n", "line 3|'num_frames'|positive");
  EXPECT_REFUSED("num_frames,height,width\n51,240\n", "line 2|'width'|missing");
  EXPECT_REFUSED("num_frames,height,width\n51,240,900000\n", "line 2|'width'|pixels");
  struct trace_options column = {.column = "nope"};
  expect_refused("length\n5\n", 9, &column, "no column 'nope'|'length'", __LINE__);
}

Test(trace_refuse, json) {
  EXPECT_REFUSED("[1,2,", "line 1|ends inside");
  EXPECT_REFUSED("[1,\n2", "line 2|ends inside");
  EXPECT_REFUSED("[", "ends inside");
  EXPECT_REFUSED("[]", "no lengths");
  EXPECT_REFUSED("[1,\n\n0]", "line 3|positive");
  EXPECT_REFUSED("[1,\n-5\n]", "line 2|positive|'-5'");
  EXPECT_REFUSED("[1, NaN]", "line 1|'NaN'");
  EXPECT_REFUSED("[1, null]", "line 1|'null'");
  EXPECT_REFUSED("[1, \"2\"]", "line 1|must be a number|\"2\"");
  EXPECT_REFUSED("[1, [2, 3]]", "line 1|must be a number|[2, 3]");
  EXPECT_REFUSED("[1, 2 3]", "line 1|'2 3'");
  EXPECT_REFUSED("[1,,2]", "missing before ','");
  EXPECT_REFUSED("[1,]", "missing before ']'");
  EXPECT_REFUSED("[,1]", "missing before ','");
  EXPECT_REFUSED("[1}", "'}'");
  EXPECT_REFUSED("[1]\n[2]", "line 2|data after");
  EXPECT_REFUSED("[1.5]", "integer|'1.5'");
  EXPECT_REFUSED("[99999999999]", "at most");
  EXPECT_REFUSED("[5,\n{\"length\": \"x\"}]", "line 2|'length' must be a number");
}

Test(trace_refuse, jsonl) {
  EXPECT_REFUSED("{\"length\": \"abc\"}\n", "line 1|'length' must be a number|abc");
  EXPECT_REFUSED("{\"length\": 5}\n{\"length\": -4}\n", "line 2|'length' must be positive, got '-4'");
  EXPECT_REFUSED("{\"length\": 5}\n\n{\"length\": 7\n", "line 3|not a JSON object");
  EXPECT_REFUSED("{\"length\": 5}\n{\"length\": 7} x\n", "line 2|not a JSON object");
  EXPECT_REFUSED("{\"length\": 5}\n7\n", "line 2|not a JSON object");
  EXPECT_REFUSED("{\"length\": 05}\n", "line 1|not a JSON object");
  EXPECT_REFUSED("{\"size\": 5}\n", "line 1|none of the keys|--column");
  EXPECT_REFUSED("{\"length\": true}\n", "line 1|must be a number|true");
  EXPECT_REFUSED("{\"length\": [5]}\n", "line 1|must be a number");
  EXPECT_REFUSED("{\"tokens\": \"5\"}\n", "line 1|number or an array");
  EXPECT_REFUSED("{\"tokens\": []}\n", "line 1|empty array");
  EXPECT_REFUSED("{\"length\": 2.5}\n", "line 1|integer");
  EXPECT_REFUSED("{\"length\": 1e99}\n", "line 1|at most");
}

Test(trace_refuse, other_files) {
  expect_refused("PAR1\x15\x04\x15\x10", 8, NULL, "Parquet|read_parquet", __LINE__);
  expect_refused("ARROW1\0\0", 8, NULL, "Arrow|read_feather", __LINE__);
  expect_refused("FEA1\0\0\0\0", 8, NULL, "Feather|read_feather", __LINE__);
  expect_refused("\xff\xff\xff\xff\x10\0\0\0", 8, NULL, "Arrow stream", __LINE__);
  expect_refused("PK\3\4\x14\0\0\0", 8, NULL, "zip|numpy.save", __LINE__);
  expect_refused("\x89HDF\r\n\x1a\n", 8, NULL, "HDF5", __LINE__);
  expect_refused("\x80\x04\x95\x10\0\0\0", 7, NULL, "pickle", __LINE__);
  expect_refused("\xff\xfe"
                 "5\0\n\0",
                 6, NULL, "UTF-16|iconv", __LINE__);
  expect_refused("\xfd"
                 "7zXZ\0\0",
                 7, NULL, "xz", __LINE__);
  expect_refused("\x1f\x8bjunkjunk", 10, NULL, "gzip", __LINE__);
}

Test(trace_refuse, places) {
  struct trace t;
  struct err err = {.set = false};
  cr_expect_eq(trace_load(&t, "/tmp", NULL, &err), -1);
  cr_expect(strstr(err.msg, "directory") && !err.usage);
  cr_expect_eq(trace_load(&t, "no_such_trace", NULL, &err), -1);
  cr_expect(strstr(err.msg, "no_such_trace") && strstr(err.msg, "wikipedia, prolong, sharegpt, azure_code_2023") &&
            err.usage);
  cr_expect_eq(trace_load(&t, "", NULL, &err), -1);
  cr_expect_eq(trace_load(&t, "/tmp/no/such/file", NULL, NULL), -1);
  make_file("5\n", 2);
  struct trace_options options = {.format = "xml"};
  cr_expect_eq(trace_load(&t, made_path, &options, &err), -1);
  cr_expect(err.usage && strstr(err.msg, "jsonl") && strstr(err.msg, "'xml'"));
  options.format = "json";
  err.msg[0] = 0;
  cr_expect_eq(trace_load(&t, made_path, &options, &err), -1);
  cr_expect(strstr(err.msg, "begins with '['"));
  unlink(made_path);
}

Test(trace_refuse, skip_bad) {
  static const char *const text[][2] = {
      {"5\n0\nx\n-1\n7\n99999999999\n", "text"},
      {"length\n5\n0\nx\n-1\n7\n1.5\n", "csv"},
      {"[5, 0, \"x\", [1, {\"a\": \"]\"}], 7, null]", "json"},
      {"{\"length\":5}\n{\"length\":0}\n{bad}\n{\"a\":1}\n{\"length\":7}\n{\"length\":null}\n", "jsonl"},
  };
  struct trace_options options = {.skip_bad = true};
  for (int i = 0; i < 4; i++) {
    struct trace t;
    struct err err;
    cr_assert_eq(load_text(&t, text[i][0], &options, &err), 0, "%s", err.msg);
    cr_expect_str_eq(t.format, text[i][1]);
    cr_expect(t.n == 2 && t.samples[0].a == 5 && t.samples[1].a == 7, "%s", text[i][1]);
    cr_expect_eq(t.skipped_bad, 4, "%s: %lld", text[i][1], (long long)t.skipped_bad);
    trace_release(&t);
  }
  expect_refused("0\n-1\n", 5, &options, "no good sample|2", __LINE__);
  expect_refused("[5, 6", 5, &options, "ends inside", __LINE__);
  expect_refused("length,x\n5,\"a\n", 14, &options, "never closed", __LINE__);
}

/* A file without a newline for 70 MB is refused at the limit, not read whole. */
Test(trace_refuse, endless_line) {
  size_t n = (size_t)TRACE_MAX_LINE_BYTES + (6u << 20);
  char *bytes = malloc(n);
  memset(bytes, '7', n);
  expect_refused(bytes, n, NULL, "line 1|64 MiB", __LINE__);
  bytes[0] = '[';
  bytes[1] = '"';
  expect_refused(bytes, n, NULL, "64 MiB", __LINE__);
  free(bytes);
}
