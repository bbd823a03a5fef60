/* Listings of training sets: Megatron-LM .idx, MosaicML MDS and Open-Sora CSV, as other programs wrote them
 * (tests/golden/formats), and damaged in every part. */
#include <sys/stat.h>

#include "sim/base/rng.h"
#include "tests/unit/test_trace_files.h"

#define GOLDEN DCPSIM_SOURCE_DIR "/tests/golden/formats/"

static void expect_file(const char *path, const char *column, const char *format, const char *lengths) {
  struct trace_options options = {.column = column};
  struct trace t = {0};
  struct err err = {.set = false};
  char got[256] = "";
  cr_assert_eq(trace_load(&t, path, &options, &err), 0, "%s", err.msg);
  cr_expect_str_eq(t.format, format);
  for (int64_t i = 0; i < t.n && strlen(got) < sizeof got - 32; i++)
    sprintf(got + strlen(got), "%s%u", i ? " " : "", t.samples[i].a);
  cr_expect_str_eq(got, lengths, "%s: %s", path, got);
  trace_release(&t);
}

Test(trace_index, megatron) {
  expect_file(GOLDEN "uint16.idx", NULL, "megatron_idx", "512 7 1 65536 300");
  expect_file(GOLDEN "uint16.idx", "sequence", "megatron_idx", "512 7 1 65536 300");
  expect_file(GOLDEN "uint16.idx", "document", "megatron_idx", "519 65837");
  expect_file(GOLDEN "int32_modes.idx", NULL, "megatron_idx", "9 10 11");
  expect_file(GOLDEN "int32_modes.idx", "document", "megatron_idx", "9 10 11");
}

Test(trace_index, mds) {
  expect_file(GOLDEN "mds_dynamic/index.json", NULL, "mds", "5 1 300 17 128 2 9");
  expect_file(GOLDEN "mds_bytes/index.json", NULL, "mds", "3 1 40 7");
  expect_file(GOLDEN "mds_bytes/index.json", "z", "mds", "3 1 40 7");
  expect_file(GOLDEN "mds_untyped/index.json", NULL, "mds", "4 260 6");
  expect_file(GOLDEN "mds_untyped/index.json", "a", "mds", "1 1 1");
  expect_file(GOLDEN "mds_fixed/index.json", NULL, "mds", "6 6 6");
  expect_file(GOLDEN "mds_scalar/index.json", NULL, "mds", "10 20 1000000");
}

/* A listing as video data sets publish it: quoted captions with commas, quotes and newlines, spaces after commas, no
 * frame rate for images, frames as floats. */
Test(trace_index, open_sora) {
  struct trace t = {0};
  struct err err = {.set = false};
  cr_assert_eq(trace_load(&t, GOLDEN "open_sora.csv", NULL, &err), 0, "%s", err.msg);
  cr_expect_str_eq(t.format, "video_csv");
  cr_assert(t.is_2d && t.n == 3);
  const uint32_t frames[3] = {15, 1, 30}, positions[3] = {405, 3600, 3600};
  for (int i = 0; i < 3; i++)
    cr_expect(t.samples[i].a == frames[i] && t.samples[i].b == positions[i], "%d: %u x %u", i, t.samples[i].a,
              t.samples[i].b);
  trace_release(&t);
}

static size_t slurp(const char *path, unsigned char *out, size_t cap) {
  FILE *f = fopen(path, "rb");
  cr_assert(f != NULL, "%s", path);
  size_t n = fread(out, 1, cap, f);
  fclose(f);
  cr_assert(n > 0 && n < cap);
  return n;
}

/* The golden index with one byte set. */
static void refuse_idx(size_t at, int byte, const char *words, int line) {
  unsigned char b[1024];
  size_t n = slurp(GOLDEN "uint16.idx", b, sizeof b);
  b[at] = (unsigned char)byte;
  expect_refused(b, n, NULL, words, line);
}

Test(trace_index, megatron_refused) {
  enum { LENGTHS = 34, OFFSETS = LENGTHS + 5 * 4, DOCUMENTS = OFFSETS + 5 * 8, END = DOCUMENTS + 3 * 8 };
  unsigned char b[1024];
  size_t n = slurp(GOLDEN "uint16.idx", b, sizeof b);
  struct trace_options token = {.column = "token"}, skip = {.skip_bad = true};
  cr_assert_eq(n, END);
  refuse_idx(9, 2, "version 2", __LINE__);
  refuse_idx(17, 0, "type code 0", __LINE__);
  refuse_idx(17, 9, "type code 9", __LINE__);
  refuse_idx(17, 4, "sequence 1|begins at byte 1024|end at 2048", __LINE__);
  refuse_idx(18 + 7, 1, "sequences", __LINE__);
  refuse_idx(18, 200, "truncated", __LINE__);
  refuse_idx(26, 7, "document starts", __LINE__);
  refuse_idx(26, 2, "document 1|begins at sequence 2 of 5", __LINE__);
  refuse_idx(LENGTHS + 3, 0x80, "sequence 0|length of -2147483136", __LINE__);
  refuse_idx(LENGTHS, 1, "sequence 1", __LINE__);
  refuse_idx(OFFSETS, 1, "sequence 0", __LINE__);
  refuse_idx(DOCUMENTS, 1, "document 0", __LINE__);
  refuse_idx(DOCUMENTS + 8, 6, "document 1", __LINE__);
  refuse_idx(DOCUMENTS + 16, 4, "document 2", __LINE__);
  for (size_t cut = 7; cut < n; cut++)
    expect_refused(b, cut, cut % 2 ? NULL : &skip, "truncated", __LINE__);
  b[n] = 0;
  expect_refused(b, n + 1, NULL, "1 bytes after", __LINE__);
  expect_refused(b, n, &token, "sequence (default) or document|'token'", __LINE__);
}

/* A copy of one golden data set in a folder of its own, of which files can be damaged. */
static char folder[64];

static void copy_file(const char *set, const char *file, const unsigned char *bytes, size_t n) {
  unsigned char own[4096];
  char path[512];
  if (!bytes) {
    snprintf(path, sizeof path, GOLDEN "%s/%s", set, file);
    n = slurp(path, own, sizeof own);
    bytes = own;
  }
  snprintf(path, sizeof path, "%s/%s", folder, file);
  FILE *f = fopen(path, "wb");
  cr_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void refuse_folder(const struct trace_options *options, const char *words, int line) {
  struct trace t;
  struct err err = {.set = false};
  char path[512], copy[512];
  snprintf(path, sizeof path, "%s/index.json", folder);
  cr_expect_eq(trace_load(&t, path, options, &err), -1, "line %d: accepted", line);
  snprintf(copy, sizeof copy, "%s", words);
  for (char *rest = copy, *word; (word = strsep(&rest, "|")) != NULL;)
    cr_expect(strstr(err.msg, word) != NULL, "line %d: no '%s' in: %s", line, word, err.msg);
}

/* The index of mds_bytes with `from` replaced by `to`. */
static void refuse_edit(const char *from, const char *to, const char *words, int line) {
  unsigned char b[4096];
  char text[5000];
  size_t n = slurp(GOLDEN "mds_bytes/index.json", b, sizeof b);
  b[n] = 0;
  const char *at = strstr((const char *)b, from);
  cr_assert(at != NULL, "line %d: no %s in %s", line, from, (const char *)b);
  int m = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - (const char *)b), (const char *)b, to, at + strlen(from));
  copy_file("mds_bytes", "index.json", (const unsigned char *)text, (size_t)m);
  refuse_folder(NULL, words, line);
}

static void folder_make(void) {
  strcpy(folder, "/tmp/dcpsim_mds_XXXXXX");
  cr_assert(mkdtemp(folder) != NULL);
}

static void folder_remove(void) {
  char path[512];
  static const char *const files[] = {"index.json", "shard.00000.mds"};
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, files[i]);
    unlink(path);
  }
  cr_assert_eq(rmdir(folder), 0);
}

Test(trace_index, mds_refused) {
  unsigned char shard[4096];
  struct trace_options nope = {.column = "nope"};
  size_t n = slurp(GOLDEN "mds_bytes/shard.00000.mds", shard, sizeof shard);
  folder_make();
  copy_file("mds_bytes", "index.json", NULL, 0);
  refuse_folder(NULL, "line 1|cannot open shard|shard.00000.mds", __LINE__);
  copy_file("mds_bytes", "shard.00000.mds", NULL, 0);
  refuse_folder(&nope, "no column 'nope'|'tokens', 'z'|--column", __LINE__);
  refuse_edit("\"mds\"", "\"json\"", "format 'json'", __LINE__);
  refuse_edit("\"compression\": null", "\"compression\": \"zstd\"", "compressed shards", __LINE__);
  refuse_edit("\"bytes\"", "\"pkl\"", "'tokens' is 'pkl'", __LINE__);
  refuse_edit("\"bytes\"", "\"float32\"", "'tokens' is 'float32'", __LINE__);
  refuse_edit("\"bytes\"", "\"ndarray:int7\"", "'ndarray:int7'", __LINE__);
  refuse_edit("\"bytes\"", "\"ndarray:int8:0\"", "'ndarray:int8:0'", __LINE__);
  refuse_edit("\"samples\": 4", "\"samples\": 5", "holds 4 samples|says 5", __LINE__);
  refuse_edit("\"samples\": 4", "\"samples\": -1", "'samples'", __LINE__);
  refuse_edit("null}], \"version\": 2", "null}], \"version\": 3", "'version'", __LINE__);
  refuse_edit("shard.00000.mds", "../shard.00000.mds", "'basename'", __LINE__);
  refuse_edit("[null, 8]", "[null]", "differ in number", __LINE__);
  refuse_edit("[null, 8]", "[null, 0]", "column_sizes", __LINE__);
  copy_file("mds_bytes", "index.json", NULL, 0);
  for (size_t cut = 0; cut < n; cut += 5) {
    copy_file("mds_bytes", "shard.00000.mds", shard, cut);
    refuse_folder(NULL, "damaged MDS shard", __LINE__);
  }
  shard[4]++; /* the first sample begins a byte late: its size is read off elsewhere */
  copy_file("mds_bytes", "shard.00000.mds", shard, n);
  refuse_folder(NULL, "sample 0", __LINE__);
  folder_remove();
}

Test(trace_index, damaged) {
  unsigned char shard[4096], b[4096];
  struct rng rng;
  char path[512];
  int good = 0, bad = 0;
  size_t n = slurp(GOLDEN "mds_bytes/shard.00000.mds", shard, sizeof shard);
  size_t m = slurp(GOLDEN "uint16.idx", b, sizeof b);
  rng_init(&rng, 1, "trace index fuzz");
  folder_make();
  copy_file("mds_bytes", "index.json", NULL, 0);
  snprintf(path, sizeof path, "%s/index.json", folder);
  for (int i = 0; i < 2000; i++) {
    struct trace_options options = {.skip_bad = i % 3 == 0, .column = i % 2 ? "z" : "tokens"};
    struct trace t;
    struct err err = {.set = false};
    unsigned char damaged[4096];
    memcpy(damaged, i % 2 ? shard : b, i % 2 ? n : m);
    for (uint64_t k = rng_below(&rng, 3) + 1; k > 0; k--)
      damaged[rng_below(&rng, i % 2 ? n : m)] = (unsigned char)rng_below(&rng, 256);
    int rc;
    if (i % 2) {
      copy_file("mds_bytes", "shard.00000.mds", damaged, n);
      rc = trace_load(&t, path, &options, &err);
    } else {
      options.column = i % 4 ? "document" : NULL;
      rc = load_bytes(&t, damaged, m, &options, &err);
    }
    cr_assert(rc == 0 ? t.n > 0 : err.set && !strchr(err.msg, '\n'));
    good += rc == 0;
    bad += rc != 0;
    if (rc == 0)
      trace_release(&t);
  }
  cr_expect(good > 50 && bad > 500, "%d read, %d refused", good, bad);
  rng_release(&rng);
  copy_file("mds_bytes", "shard.00000.mds", NULL, 0);
  folder_remove();
}
