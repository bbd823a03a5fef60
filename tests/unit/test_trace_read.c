/* Every format read, recognised by content, compressed and not. */
#include "sim/base/units.h"
#include "tests/unit/test_trace_files.h"
#include "traces/generate.h"
#include "traces/source.h" /* for zlib and zstd */

Test(trace_read, text) {
  EXPECT_TEXT("5\n7\n9\n", "text", "5 7 9");
  EXPECT_TEXT("5\r\n7\r\n9", "text", "5 7 9");
  EXPECT_TEXT("\xef\xbb\xbf"
              "5\n7\n",
              "text", "5 7");
  EXPECT_TEXT("# lengths\n\n  5 \n\t7\n\n+9\n", "text", "5 7 9");
  EXPECT_TEXT("1000000000\n12.0\n5.12e2\n0012\n", "text", "1000000000 12 512 12");
}

Test(trace_read, csv) {
  struct trace_options column = {.column = "n b"};
  EXPECT_TEXT("length\n5\n7\n", "csv", "5 7");
  EXPECT_TEXT("a,num_tokens,c\n1,5,2\n1, 7 ,2\r\n", "csv", "5 7");
  EXPECT_TEXT("\xef\xbb\xbf\"Total tokens\",x\n\"5\",1\n 7,2\n", "csv", "5 7");
  EXPECT_TEXT("text;ContextTokens\nhi;5\n;7\n", "csv", "5 7");
  EXPECT_TEXT("id\tnum_total_tokens\n1\t5\n2\t7\n", "csv", "5 7");
  /* quoted fields hold separators, doubled quotes and newlines */
  EXPECT_TEXT("text,length\n\"a, \"\"b\"\"\nc\n\",5\n\"\",7\nx\"y,9\n", "csv", "5 7 9");
  EXPECT_TEXT("num_tokens,length\n1,5\n2,7\n", "csv", "5 7"); /* length comes first */
  EXPECT_TEXT("LENGTH,x\n5,1\n", "csv", "5");
  EXPECT_TEXT("# made by hand\nlength\n\n5\n# more\n7\n", "csv", "5 7");
  const char *named = "length, n b \n1,5\n1,7\n", *unknown = "n b\n5\n";
  expect_lengths(named, strlen(named), &column, "csv", "5 7", __LINE__);
  expect_lengths(unknown, strlen(unknown), &column, "csv", "5", __LINE__);
}

Test(trace_read, json) {
  struct trace_options column = {.column = "n"};
  EXPECT_TEXT("[5, 7,9]", "json", "5 7 9");
  EXPECT_TEXT("\n [ 5 ,\n7\n,\r\n9.0, 1e2 ]\n\n", "json", "5 7 9 100");
  EXPECT_TEXT("[{\"length\": 5, \"text\": \"a]}, \\\"b\"}, {\"tokens\": [1,[2,3],4]}]", "json", "5 3");
  const char *named = "[{\"n\": 5}, 6]";
  expect_lengths(named, strlen(named), &column, "json", "5 6", __LINE__);
}

Test(trace_read, jsonl) {
  struct trace_options column = {.column = "n"};
  EXPECT_TEXT("{\"length\": 5}\n\n{\"num_tokens\":7}\r\n{\"x\":{\"length\":1},\"seq_len\" : 9}\n", "jsonl", "5 7 9");
  EXPECT_TEXT("{\"input_ids\": [1, 2, 3], \"input_length\": 8}\n{\"input_ids\": [1, 2, 3]}", "jsonl", "8 3");
  EXPECT_TEXT(
      "{\"tokens\": [\"a]\", \"b\"]}\n{\"tokens\": 6}\n{\"tokens\":[], \"length\":4}\n{\"length\":8,\"tokens\":[1]}",
      "jsonl", "2 6 4 8");
  const char *named = "{\"n\": [0, 0], \"length\": 9}\n{\"n\": 3}\n";
  expect_lengths(named, strlen(named), &column, "jsonl", "2 3", __LINE__);
}

Test(trace_read, histogram) {
  const char *text = "length,weight\n10,1\n20,3\n30,0\n";
  struct trace_options options = {.draws = 40000, .seed = 1}, other = {.draws = 40000, .seed = 2};
  struct trace a, b, c;
  struct err err;
  int64_t count[4] = {0};
  cr_assert_eq(load_text(&a, text, &options, &err), 0, "%s", err.msg);
  cr_assert_eq(load_text(&b, text, &options, &err), 0);
  cr_assert_eq(load_text(&c, text, &other, &err), 0);
  cr_assert(a.n == 40000 && b.n == 40000 && c.n == 40000);
  for (int64_t i = 0; i < a.n; i++)
    count[a.samples[i].a / 10]++;
  cr_expect(count[1] > 9600 && count[1] < 10400, "%lld of 10000", (long long)count[1]); /* deviation 87 */
  cr_expect(count[3] == 0 && count[1] + count[2] == 40000);
  cr_expect_eq(memcmp(a.samples, b.samples, 40000 * sizeof *a.samples), 0);
  cr_expect_neq(memcmp(a.samples, c.samples, 40000 * sizeof *a.samples), 0);
  trace_release(&a);
  cr_assert_eq(load_text(&a, text, NULL, &err), 0);
  cr_expect_eq(a.n, 100000);
  trace_release(&a);
  trace_release(&b);
  trace_release(&c);
}

Test(trace_read, video) {
  EXPECT_TEXT("num_frames,height,width\n1,144,256\n51,240,426\n408,720,1280\n102,360,640\n204,480,854\n", "video_csv",
              "1x144 15x405 120x3600 30x920 60x1590");
  /* other columns, other order, portrait, and sizes between those of the table */
  EXPECT_TEXT("path,width,height,num_frames\na,256,144,51\nb,144,256,51\nc,1920,1080,1000\nd,1024,576,60\ne,90,50,"
              "20\nf,580,340,51\ng,550,330,51\n",
              "video_csv", "15x144 15x144 120x3600 15x1590 1x144 15x920 15x405");
  /* Positions and latent frames, all sizes of the table. */
  static const int64_t size[5][3] = {
      {144, 256, 144}, {240, 426, 405}, {360, 640, 920}, {480, 854, 1590}, {720, 1280, 3600}};
  static const int64_t frames[5][2] = {{1, 1}, {51, 15}, {102, 30}, {204, 60}, {408, 120}};
  for (int r = 0; r < 5; r++)
    for (int f = 0; f < 5; f++) {
      struct sample s = video_sample(frames[f][0], size[r][0], size[r][1]);
      cr_expect(s.a == frames[f][1] && s.b == size[r][2]);
    }
}

/* An .npy file of this version, type, shape and data. */
static size_t npy(unsigned char *file, int version, const char *type, const char *shape, const void *data, size_t n) {
  char header[200];
  int size =
      snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': False, 'shape': %s, }     \n", type, shape);
  size_t at = 6;
  memcpy(file, "\x93NUMPY", at);
  file[at++] = (unsigned char)version;
  file[at++] = 0;
  for (int i = 0; i < (version == 1 ? 2 : 4); i++)
    file[at++] = (unsigned char)(size >> (8 * i));
  memcpy(file + at, header, (size_t)size);
  memcpy(file + at + size, data, n);
  return at + (size_t)size + n;
}

Test(trace_read, npy) {
  unsigned char f[1024];
  static const struct {
    int version;
    const char *type, *shape, *data;
    size_t n;
  } good[] = {
      {1, "'<i8'", "(2,)", "\5\0\0\0\0\0\0\0\7\1\0\0\0\0\0\0", 16},
      {2, "'>i8'", "(2,)", "\0\0\0\0\0\0\0\5\0\0\0\0\0\0\1\7", 16},
      {3, "'<u4'", "(2, 1)", "\5\0\0\0\7\1\0\0", 8},
      {1, "'>u2'", "(2,)", "\0\5\1\7", 4},
      {1, "'<i2'", "(2, 1)", "\5\0\7\1", 4},
      {1, "'<f4'", "(2,)", "\0\0\xa0\x40\0\x80\x83\x43", 8},
      {1, "'>f8'", "(2,)", "\x40\x14\0\0\0\0\0\0\x40\x70\x70\0\0\0\0\0", 16},
      {1, "'<f2'", "(2,)", "\x00\x45\x1c\x5c", 4},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    size_t n = npy(f, good[i].version, good[i].type, good[i].shape, good[i].data, good[i].n);
    expect_lengths(f, n, NULL, "npy", "5 263", (int)i);
  }
  expect_lengths(f, npy(f, 1, "'|u1'", "(3,)", "\5\7\xff", 3), NULL, "npy", "5 7 255", __LINE__);
  expect_lengths(f, npy(f, 1, "'|i1'", "(1,)", "\5", 1), NULL, "npy", "5", __LINE__);

  static const struct {
    const char *type, *shape, *data, *words;
    size_t n;
  } bad[] = {
      {"'|O'", "(2,)", "junk", "Python objects|numpy.int64", 4},
      {"[('length', '<i8')]", "(1,)", "12345678", "structured", 8},
      {"'<U4'", "(1,)", "abcdefghijklmnop", "'<U4'", 16},
      {"'|b1'", "(1,)", "\1", "not read", 1},
      {"'<i2'", "(2, 2)", "\1\0\1\0\1\0\1\0", "shape", 8},
      {"'<i2'", "()", "\1\0", "shape", 2},
      {"'<i2'", "(3,)", "\1\0\1\0\1", "truncated|3|2", 5},
      {"'<i2'", "(1,)", "\1\0\1\0", "data after", 4},
      {"'<i2'", "(2,)", "\1\0\xfe\xff", "element 1|positive|-2", 4},
      {"'<i2'", "(2,)", "\1\0\0\0", "element 1|positive", 4},
      {"'<u8'", "(1,)", "\xff\xff\xff\xff\xff\xff\xff\xff", "element 0|at most", 8},
      {"'<f4'", "(1,)", "\0\0\xc0\x7f", "element 0|nan", 4},
      {"'<f4'", "(1,)", "\0\0\x80\x7f", "element 0|at most", 4},
      {"'<f4'", "(1,)", "\0\0\x20\x40", "element 0|integer|2.5", 4},
      {"'<i2'", "(99999999999999999999,)", "\1\0", "samples", 2},
      {"'<i2'", "(0,)", "", "no lengths", 0},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    expect_refused(f, npy(f, 1, bad[i].type, bad[i].shape, bad[i].data, bad[i].n), NULL, bad[i].words, (int)i);
  expect_refused("\x93NUMPY\1\0v\0{", 11, NULL, "truncated", __LINE__);
  expect_refused("\x93NUMPY\1\0v\0{'descr'", 18, NULL, "truncated", __LINE__);
  expect_refused("\x93NUMPY\7\0v\0{'descr'", 18, NULL, "version 7", __LINE__);
  expect_refused("\x93NUMPY\2\0\xff\xff\xff\x7f{'des", 18, NULL, "header of", __LINE__);
}

static size_t gzip_bytes(unsigned char *out, size_t room, const char *text) {
  z_stream z = {0};
  cr_assert_eq(deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
  z.next_in = (unsigned char *)text;
  z.avail_in = (uInt)strlen(text);
  z.next_out = out;
  z.avail_out = (uInt)room;
  cr_assert_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
  deflateEnd(&z);
  return room - z.avail_out;
}

static size_t zstd_bytes(unsigned char *out, size_t room, const char *text) {
  size_t n = ZSTD_compress(out, room, text, strlen(text), 5);
  cr_assert_not(ZSTD_isError(n));
  return n;
}

Test(trace_read, compressed) {
  static unsigned char f[8192];
  static const char *const texts[][3] = {{"5\n7\n", "text", "5 7"},
                                         {"[5, 7]", "json", "5 7"},
                                         {"{\"length\":5}\n{\"length\":7}", "jsonl", "5 7"},
                                         {"length\n5\n7\n", "csv", "5 7"}};
  size_t (*const compress_bytes[])(unsigned char *, size_t, const char *) = {gzip_bytes, zstd_bytes};
  for (int c = 0; c < 2; c++) {
    size_t n, m;
    for (int i = 0; i < 4; i++) {
      n = compress_bytes[c](f, sizeof f, texts[i][0]);
      expect_lengths(f, n, NULL, texts[i][1], texts[i][2], __LINE__);
      for (size_t cut = 4; cut < n; cut++)
        expect_refused(f, cut, NULL, "truncated", (int)cut);
    }
    n = compress_bytes[c](f, sizeof f, "5\n7\n");
    m = compress_bytes[c](f + n, sizeof f - n, "9\n11\n"); /* two members, or frames */
    expect_lengths(f, n + m, NULL, "text", "5 7 9 11", __LINE__);
    expect_refused(f, n + m - 3, NULL, "truncated", __LINE__);
    memcpy(f + n, "garbage!", 8);
    expect_refused(f, n + 8, NULL, "damaged", __LINE__);
    n = compress_bytes[c](f, sizeof f, "5\nx\n");
    expect_refused(f, n, NULL, "line 2|'x'", __LINE__);
    n = compress_bytes[c](f, sizeof f, "");
    expect_refused(f, n, NULL, "empty", __LINE__);
  }
}

/* Lines, numbers and values that lie across the window's edges, and lines longer than the window. */
Test(trace_read, windows) {
  enum { N = 200000 };
  char *text = malloc(N * 20), *p;
  struct trace t;
  struct err err;
  static const char *const item[] = {"%d\n", "%d,\n", "{\"length\":%d}\n"};
  static const char *const format[] = {"text", "json", "jsonl"};
  for (int kind = 0; kind < 3; kind++) {
    p = text;
    p += sprintf(p, "%s", kind == 1 ? "[" : "");
    for (int i = 1; i <= N; i++)
      p += kind < 2 || i % 2 ? sprintf(p, item[kind], i) : sprintf(p, "{\"length\":%d}\n", i);
    p += sprintf(p, "%s", kind == 1 ? "7]" : "");
    cr_assert_eq(load_text(&t, text, NULL, &err), 0, "%s", err.msg);
    cr_expect_str_eq(t.format, format[kind]);
    cr_expect_eq(t.n, kind == 1 ? N + 1 : N);
    for (int i = 0; i < N; i++)
      if (t.samples[i].a != (uint32_t)i + 1)
        cr_assert_fail("%s: sample %d is %u", format[kind], i, t.samples[i].a);
    trace_release(&t);
  }
  p = text + sprintf(text, "{\"input_ids\": [0");
  for (int i = 1; i < N; i++)
    p += sprintf(p, ", %d", i % 1000);
  sprintf(p, "]}\n{\"length\": 3}\n");
  expect_lengths(text, strlen(text), NULL, "jsonl", "200000 3", __LINE__);
  memmove(text + 1, text, strlen(text) + 1);
  text[0] = '[';
  strcpy(strstr(text, "\n{"), ",\n4]");
  expect_lengths(text, strlen(text), NULL, "json", "200000 4", __LINE__);
  free(text);
}

Test(trace_read, shipped) {
  /* samples, tokens, min, p1, p5, p10, p25, p50, p75, p90, p95, p99, p99.9, max, all computed independently */
  static const struct {
    const char *name, *format;
    int64_t n, tokens;
    uint64_t q[12];
  } want[] = {
      {"wikipedia", "text", 1000000, 1013648780, {1, 39, 67, 87, 146, 347, 862, 2112, 3720, 10919, 37353, 1823777}},
      {"prolong", "json", 77932, 237840913, {575, 678, 801, 919, 1237, 1914, 3467, 6051, 8378, 16273, 47390, 340149}},
      {"sharegpt", "csv", 30731, 85393559, {11, 99, 313, 512, 997, 2202, 4198, 6164, 7038, 7863, 8083, 8149}},
      {"azure_code_2023", "csv", 8819, 18059974, {3, 17, 75, 147, 578, 1469, 2745, 5186, 7302, 7436, 7437, 7437}},
  };
  static const double percent[12] = {0, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9, 100};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    struct trace t;
    struct err err = {.set = false};
    cr_assert_eq(trace_load(&t, want[i].name, NULL, &err), 0, "%s", err.msg);
    cr_expect_str_eq(t.name, want[i].name);
    cr_expect_str_eq(t.format, want[i].format);
    cr_expect(t.n == want[i].n && !t.is_2d && t.skipped_bad == 0);
    cr_expect_eq(trace_tokens(&t), want[i].tokens);
    uint64_t *sorted = trace_sorted_tokens(t.samples, t.n);
    for (int q = 0; q < 12; q++)
      cr_expect_eq(trace_quantile(sorted, t.n, percent[q]), want[i].q[q], "%s p%g: %llu", t.name, percent[q],
                   (unsigned long long)trace_quantile(sorted, t.n, percent[q]));
    free(sorted);
    trace_release(&t);
  }
}

Test(trace_read, sorted_tokens) {
  struct sample s[] = {{5, 1}, {1000000000, 1}, {2047, 1}, {2048, 1}, {1, 1}, {120, 3600}, {5, 1}};
  uint64_t want[] = {1, 5, 5, 2047, 2048, 432000, 1000000000};
  uint64_t *sorted = trace_sorted_tokens(s, 7);
  cr_expect_eq(memcmp(sorted, want, sizeof want), 0);
  cr_expect_eq(trace_quantile(sorted, 7, 50), 2047);
  cr_expect_eq(trace_quantile(sorted, 7, 0), 1);
  cr_expect_eq(trace_quantile(sorted, 7, 100), 1000000000);
  cr_expect_eq(trace_quantile(sorted, 7, 9), 5); /* index floor(0.54 + 0.5) */
  cr_expect_eq(trace_quantile(sorted, 7, 8), 1); /* index floor(0.48 + 0.5) */
  free(sorted);
}
