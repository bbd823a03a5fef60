/* The small ones: errors, units, SHA-256, the share path. */
#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/err.h"
#include "sim/base/progress.h"
#include "sim/base/sha256.h"
#include "sim/base/share.h"
#include "sim/base/text_stream.h"
#include "sim/base/units.h"

Test(base_err, messages) {
  struct err err = {0};
  cr_assert_eq(err_set(&err, "a %d", 1), -1);
  cr_assert(err.set && !err.usage);
  cr_assert_str_eq(err.msg, "a 1");
  cr_assert_eq(err_usage(&err, "b"), -1);
  cr_assert(err.usage);
  cr_assert_eq(err_prefix(&err, "line %d", 3), -1);
  cr_assert_str_eq(err.msg, "line 3: b");
  cr_assert_eq(err_set(NULL, "c"), -1);
  cr_assert_eq(err_prefix(NULL, "c"), -1);
  char text[3000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  err_set(&err, "%s", text);
  cr_assert_eq(strlen(err.msg), sizeof err.msg - 1, "long messages are cut, not overrun");
  err_prefix(&err, "%s", "p");
  cr_assert_eq(strlen(err.msg), sizeof err.msg - 1);
}

Test(base_units, conversions) {
  cr_assert_eq(ns_from_s(1.5e-9), 2);
  cr_assert_eq(ns_from_s(0), 0);
  cr_assert_eq(ns_from_s(4e9), INT64_C(4000000000000000000));
  cr_assert_eq(s_from_ns(2500000000), 2.5);
  cr_assert_eq(size_mul(3, 5), 15);
  cr_assert_eq(ceil_div(9, 4), 3);
  cr_assert_eq(ceil_div(8, 4), 2);
  int *v = NULL;
  size_t n = 0, cap = 0;
  for (int i = 0; i < 100; i++)
    VEC_PUSH(v, n, cap, i);
  cr_assert(n == 100 && cap >= 100 && v[0] == 0 && v[99] == 99);
  free(v);
}

Test(base_units, overflow_aborts, .signal = SIGABRT) { size_mul(SIZE_MAX, 2); }

Test(base_sha256, fips_vectors) {
  static const struct {
    const char *text, *digest;
  } cases[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
  };
  char hex[65];
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    sha256_hex(cases[i].text, strlen(cases[i].text), hex);
    cr_assert_str_eq(hex, cases[i].digest);
  }
  char *million = xmalloc(1000000);
  memset(million, 'a', 1000000);
  sha256_hex(million, 1000000, hex);
  cr_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  free(million);
}

#ifndef __SANITIZE_ADDRESS__ /* whose malloc ends the program itself */
static int ask_for_too_much(void *context, struct err *err) {
  volatile size_t bytes = SIZE_MAX / 2;
  return err ? xmalloc(bytes) == context : -1;
}

static int give_seven(void *context, struct err *err) { return err ? *(int *)context : -1; }

static int guard_inside(void *context, struct err *err) {
  struct err inner = {.set = false};
  cr_assert_eq(memory_guard(ask_for_too_much, NULL, &inner), -1);
  return give_seven(context, err);
}

Test(base_units, running_out_of_memory_ends_the_guarded_work_alone) {
  struct err err = {.set = false};
  int seven = 7;
  cr_assert_eq(memory_guard(ask_for_too_much, NULL, &err), -1);
  cr_assert(strncmp(err.msg, "out of memory (asked for ", 25) == 0, "%s", err.msg);
  cr_assert_eq(memory_guard(give_seven, &seven, &err), 7);
  cr_assert_eq(memory_guard(guard_inside, &seven, &err), 7, "guards nest");
}
#endif

Test(base_share, finds_files) {
  char path[PATH_MAX];
  unsetenv("DCPSIM_SHARE");
  cr_assert_eq(share_path(path, sizeof path, "sim/base/share.h"), 0);
  cr_assert_str_eq(path, DCPSIM_SOURCE_DIR "/sim/base/share.h");
  cr_assert_eq(share_path(path, sizeof path, "models/none.json"), -1);
  cr_assert_str_eq(path, "");
  cr_assert_eq(share_path(path, 10, "sim/base/share.h"), -1, "a short buffer");

  char folder[] = "/tmp/dcpsim_share_XXXXXX", file[100];
  cr_assert(mkdtemp(folder));
  snprintf(file, sizeof file, "%s/CMakeLists.txt", folder);
  fclose(fopen(file, "w"));
  setenv("DCPSIM_SHARE", folder, 1);
  cr_assert_eq(share_path(path, sizeof path, "CMakeLists.txt"), 0);
  cr_assert_str_eq(path, file, "the environment comes first");
  cr_assert_eq(share_path(path, sizeof path, "sim/base/share.h"), 0, "and does not hide the rest");
  unlink(file);
  rmdir(folder);
}

Test(base_progress, silent_without_a_terminal) {
  cr_assert_eq(isatty(STDERR_FILENO), 0, "test programs run with stderr in a file");
  struct progress p;
  progress_start(&p, "work", 10);
  cr_assert(!p.enabled);
  progress_update(&p, 5);
  cr_assert_eq(p.done, 5);
  progress_finish(&p);
  int64_t t = wall_clock_ns();
  cr_assert(t > 0 && wall_clock_ns() >= t);
}

Test(err, messages_are_one_plain_line) {
  struct err err = {0};
  err_set(&err, "cannot open '%s'", "a\nb\033[31m\177");
  cr_expect_str_eq(err.msg, "cannot open 'a b [31m '");
  err_prefix(&err, "%s", "x\ty");
  cr_expect_str_eq(err.msg, "x y: cannot open 'a b [31m '");
}

Test(text_stream, grows_and_ends_with_nul) {
  char *text;
  size_t size;
  FILE *stream = text_stream_begin(&text, &size);
  for (int i = 0; i < 100000; i++)
    fprintf(stream, "%d ", i % 10);
  text_stream_end(stream);
  cr_assert_eq(size, 200000);
  cr_expect(strncmp(text, "0 1 2 3 ", 8) == 0 && strcmp(text + size - 4, "8 9 ") == 0);
  free(text);
  text_stream_end(text_stream_begin(&text, &size));
  cr_expect(size == 0 && text[0] == '\0');
  free(text);
}
