#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/sweep/sweep.h"
#include "sim/sweep/sweep_spec.h"
#include "sim/sweep/sweep_table.h"

#define BASE "\"base\":{\"trace\":\"t\",\"model\":\"tiny-1d\",\"cluster\":\"h200_8x1\",\"policy\":\"bucket,dcp\"}"

static void spec_of(struct sweep_spec *s, const char *rest) {
  char text[2000];
  struct err err = {.set = false};
  snprintf(text, sizeof text, "{\"schema\":\"dcpsim.sweep/1\"," BASE ",%s}", rest);
  cr_assert_eq(sweep_spec_parse(s, "s.json", text, &err), 0, "%s", err.msg);
}

static double number_at(const struct sweep_spec *s, int field, int64_t point) {
  return json_number_value(sweep_spec_value(s, field, point));
}

/* The first field of the grid varies slowest, the zipped ones quickest. */
Test(sweep, points_are_numbered) {
  struct sweep_spec s;
  spec_of(&s, "\"grid\":{\"seed\":[7,8],\"zero\":[0,1,2]},\"zip\":{\"max_gas\":[3,4],\"min_gas\":[1,2]}");
  cr_assert_eq(s.n_points, 12);
  for (int64_t p = 0; p < 12; p++) {
    cr_expect_eq(number_at(&s, 0, p), 7 + (double)(p / 6));
    cr_expect_eq(number_at(&s, 1, p), (double)(p / 2 % 3));
    cr_expect_eq(number_at(&s, 2, p), 3 + (double)(p % 2));
    cr_expect_eq(number_at(&s, 3, p), 1 + (double)(p % 2));
    struct experiment_options o;
    cr_assert_eq(sweep_spec_options(&s, p, &o, NULL), 0);
    cr_expect_eq(o.seed, 7 + p / 6);
    cr_expect_eq(o.zero, p / 2 % 3);
    cr_expect_eq(o.min_gas, 1 + p % 2);
    cr_expect_str_eq(o.model, "tiny-1d");
    options_release(&o);
  }
  sweep_spec_release(&s);
}

static void expect_range(const char *range, const double *wanted, int n) {
  struct sweep_spec s;
  char rest[200];
  snprintf(rest, sizeof rest, "\"grid\":{\"%s\":%s}", strstr(range, "0.1") ? "memory_cap_frac" : "max_length", range);
  spec_of(&s, rest);
  cr_assert_eq(s.n_points, n, "%s: %lld", range, (long long)s.n_points);
  for (int i = 0; i < n; i++)
    cr_expect_eq(number_at(&s, 0, i), wanted[i], "%s: %.17g", range, number_at(&s, 0, i));
  sweep_spec_release(&s);
}

Test(sweep, ranges_have_both_ends) {
  expect_range("{\"from\":2,\"to\":8,\"step\":3}", (double[]){2, 5, 8}, 3);
  expect_range("{\"from\":2,\"to\":9,\"step\":3}", (double[]){2, 5, 8}, 3);
  expect_range("{\"from\":9,\"to\":2,\"step\":-3}", (double[]){9, 6, 3}, 3);
  expect_range("{\"from\":4096,\"to\":32768,\"factor\":2}", (double[]){4096, 8192, 16384, 32768}, 4);
  expect_range("{\"from\":8,\"to\":1,\"factor\":0.5}", (double[]){8, 4, 2, 1}, 4);
  expect_range("{\"from\":5,\"to\":5,\"step\":1}", (double[]){5}, 1);
  expect_range("{\"from\":0.1,\"to\":0.7,\"step\":0.1}", (double[]){0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}, 7);
}

Test(sweep, the_hash_tells_specs_apart) {
  struct sweep_spec a, b, c;
  spec_of(&a, "\"grid\":{\"seed\":[1,2]}");
  spec_of(&b, "\"grid\" : {\"seed\" :\n [1, 2]}");
  spec_of(&c, "\"grid\":{\"seed\":[2,1]}");
  cr_expect_str_eq(a.hash, b.hash);
  cr_expect_str_neq(a.hash, c.hash);
  sweep_spec_release(&a);
  sweep_spec_release(&b);
  sweep_spec_release(&c);
}

Test(sweep, policies_are_counted) {
  struct sweep_spec s;
  spec_of(&s, "\"grid\":{\"seed\":[1]}");
  cr_expect_eq(sweep_spec_policies(&s, 0), 2);
  sweep_spec_release(&s);
  struct err err = {.set = false};
  cr_assert_eq(sweep_spec_parse(&s, "s.json",
                                "{\"schema\":\"dcpsim.sweep/1\",\"base\":{\"trace\":\"t\",\"model\":\"m\",\"cluster\":"
                                "\"c\"},\"grid\":{\"policy\":[\"dcp\",\"bucket,dcp\",[\"a\",\"b\",\"c\"]]}}",
                                &err),
               0, "%s", err.msg);
  for (int i = 0; i < 3; i++)
    cr_expect_eq(sweep_spec_policies(&s, i), i + 1);
  sweep_spec_release(&s);
}

/* ---- The table ---- */

static char path[64];

static void setup(void) {
  snprintf(path, sizeof path, "/tmp/test_sweep_XXXXXX");
  int fd = mkstemp(path);
  cr_assert(fd >= 0);
  close(fd);
}

static void teardown(void) { unlink(path); }

TestSuite(sweep_table, .init = setup, .fini = teardown);

static void append_point(struct sweep_table *t, const struct sweep_spec *s, int64_t point, const char *error) {
  struct policy_result results[2] = {{.name = "bucket"}, {.name = "dcp"}};
  char *rows = sweep_table_rows(s, point, results, error ? 0 : 2, error);
  cr_assert_eq(sweep_table_append(t, rows, NULL), 0);
  free(rows);
}

/* A table with points 2 (two rows), 0 (failed) and 5 (two rows). */
static void make_table(const struct sweep_spec *s) {
  struct sweep_table t;
  struct err err = {.set = false};
  cr_assert_eq(sweep_table_open(&t, path, s, &err), 0, "%s", err.msg);
  cr_expect_eq(t.n_done, 0);
  append_point(&t, s, 2, NULL);
  append_point(&t, s, 0, "a, \"b\"\nc");
  append_point(&t, s, 5, NULL);
  cr_assert_eq(sweep_table_close(&t, &err), 0);
  sweep_table_release(&t);
}

static off_t file_size(void) {
  struct stat st;
  cr_assert_eq(stat(path, &st), 0);
  return st.st_size;
}

/* Cut anywhere, the table goes on with the whole points before the cut, and ends as if it had never been cut. */
Test(sweep_table, is_resumed_from_any_length) {
  struct sweep_spec s;
  spec_of(&s, "\"grid\":{\"seed\":[1,2,3,4,5,6]}");
  char *header = sweep_table_header(&s);
  make_table(&s);
  off_t whole = file_size(), ends[4] = {(off_t)strlen(header)};
  struct policy_result results[2] = {{.name = "bucket"}, {.name = "dcp"}};
  char *rows[3] = {sweep_table_rows(&s, 2, results, 2, NULL), sweep_table_rows(&s, 0, NULL, 0, "a, \"b\"\nc"),
                   sweep_table_rows(&s, 5, results, 2, NULL)};
  cr_expect(strstr(rows[1], ",\"a, \"\"b\"\" c\"\n"), "%s", rows[1]);
  for (int i = 0; i < 3; i++)
    ends[i + 1] = ends[i] + (off_t)strlen(rows[i]);
  cr_assert_eq(ends[3], whole);
  for (off_t cut = 0; cut <= whole; cut += cut < whole && whole - cut < 7 ? whole - cut : 7) {
    struct sweep_table t;
    struct err err = {.set = false};
    unlink(path);
    make_table(&s);
    cr_assert_eq(truncate(path, cut), 0);
    cr_assert_eq(sweep_table_open(&t, path, &s, &err), 0, "cut at %ld: %s", (long)cut, err.msg);
    int kept = 0;
    while (kept < 3 && ends[kept + 1] <= cut)
      kept++;
    cr_assert_eq(t.n_done, kept, "cut at %ld: %ld", (long)cut, (long)t.n_done);
    cr_assert_eq(t.size, ends[kept]);
    cr_assert_eq(t.n_failed, kept >= 2);
    cr_assert_eq(t.done[2], kept >= 1);
    cr_assert_eq(t.done[0], kept >= 2);
    cr_assert_eq(t.done[5], kept >= 3);
    for (int i = kept; i < 3; i++)
      cr_assert_eq(sweep_table_append(&t, rows[i], NULL), 0);
    cr_assert_eq(sweep_table_close(&t, NULL), 0);
    sweep_table_release(&t);
    cr_assert_eq(file_size(), whole);
    if (cut == whole)
      break;
  }
  for (int i = 0; i < 3; i++)
    free(rows[i]);
  free(header);
  sweep_spec_release(&s);
}

static void expect_refused(const struct sweep_spec *s, const char *message) {
  struct sweep_table t;
  struct err err = {.set = false};
  off_t before = file_size();
  cr_assert_eq(sweep_table_open(&t, path, s, &err), -1, "not refused: %s", message);
  cr_assert(strstr(err.msg, message), "%s", err.msg);
  cr_assert_eq(file_size(), before, "the file was touched");
}

static void append_text(const char *text) {
  int fd = open(path, O_WRONLY | O_APPEND);
  cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
}

Test(sweep_table, others_tables_are_left_alone) {
  struct sweep_spec s, other, fields;
  spec_of(&s, "\"grid\":{\"seed\":[1,2,3,4,5,6]}");
  spec_of(&other, "\"grid\":{\"seed\":[1,2,3,4,5,7]}");
  spec_of(&fields, "\"grid\":{\"zero\":[1,2,3]}");
  make_table(&s);
  expect_refused(&other, "line 2: it was written from another spec");
  expect_refused(&fields, "line 1: not the table of this sweep");
  struct policy_result results[2] = {{.name = "bucket"}, {.name = "dcp"}};
  char *rows = sweep_table_rows(&s, 2, results, 2, NULL);
  append_text(rows);
  expect_refused(&s, "line 7: a point is there twice");
  free(rows);
  unlink(path);
  make_table(&s);
  append_text("hello\n");
  expect_refused(&s, "line 7: not a row of a sweep");
  unlink(path);
  make_table(&s);
  char line[80];
  snprintf(line, sizeof line, "99,%s,1,bucket\n", s.hash);
  append_text(line);
  expect_refused(&s, "line 7: the spec has no such point");
  sweep_spec_release(&s);
  sweep_spec_release(&other);
  sweep_spec_release(&fields);
}

Test(sweep_table, has_one_writer) {
  struct sweep_spec s;
  struct sweep_table t;
  spec_of(&s, "\"grid\":{\"seed\":[1,2]}");
  cr_assert_eq(sweep_table_open(&t, path, &s, NULL), 0);
  expect_refused(&s, "another sweep is writing it");
  sweep_table_release(&t);
  sweep_spec_release(&s);
}
