#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/plan/timeline.h"
#include "sim/report/plot.h"

#define HOSTILE "a\"; system(\"touch x\").csv"
#define RESULT_HEAD "{\"schema\":\"dcpsim.result/1\",\"trace\":{\"name\":"
#define RESULT_TAIL                                                                                                    \
  ",\"samples\":5,\"tokens\":10},\"model\":\"m\",\"cluster\":\"h200_8x4\",\"gpus\":32,\"policies\":["                  \
  "{\"name\":\"'`touch x`%n%s\",\"tokens_per_s\":1234.5,\"speedup\":1,\"speedup_interval\":null,\"padding_frac\":0.1," \
  "\"imbalance_frac\":0.3,\"sp_histogram\":{\"8\":1.0},\"share\":{\"compute\":0.4,\"padding\":0.1,\"recompute\":0.1,"  \
  "\"sp_exchange\":0.1,"                                                                                               \
  "\"grad_sync\":0.1,\"optimizer\":0,\"host\":0.1,\"idle\":0.1}},"                                                     \
  "{\"name\":\"dcp\",\"tokens_per_s\":2500,\"speedup\":2.0,\"speedup_interval\":[1.9,2.2],\"padding_frac\":0,"         \
  "\"imbalance_frac\":0,\"share\":{\"compute\":1,\"padding\":0,\"recompute\":0,\"sp_exchange\":0,"                     \
  "\"grad_sync\":0,\"optimizer\":0,\"host\":0,\"idle\":0}}]}"

static char folder[64], in_path[96], out_path[96];

/* Tests run inside an empty folder, so that anything a script were tricked into creating is seen. */
static void setup(void) {
  snprintf(folder, sizeof folder, "/tmp/test_plot_XXXXXX");
  cr_assert(mkdtemp(folder));
  cr_assert_eq(chdir(folder), 0);
  snprintf(in_path, sizeof in_path, "%s/in.json", folder);
  snprintf(out_path, sizeof out_path, "%s/out.svg", folder);
}

static void teardown(void) {
  unlink(in_path);
  unlink(out_path);
  cr_assert_eq(rmdir(folder), 0, "files were left behind");
}

TestSuite(plot, .init = setup, .fini = teardown);

static void write_file(const char *text) {
  FILE *f = fopen(in_path, "w");
  cr_assert(f);
  fputs(text, f);
  fclose(f);
}

static char *read_out(void) {
  FILE *f = fopen(out_path, "r");
  cr_assert(f, "no picture");
  char *text = xcalloc(1, 1 << 20);
  size_t n = fread(text, 1, (1 << 20) - 1, f);
  fclose(f);
  text[n] = '\0';
  return text;
}

/* A little XML: tags nest and close, '<' and '&' stand only where they may. */
static void expect_xml(const char *text) {
  int depth = 0, elements = 0;
  const char *p = text;
  cr_assert(strncmp(text, "<?xml", 5) == 0);
  for (; (p = strchr(p, '<')) != NULL; p++) {
    const char *end = strncmp(p, "<!--", 4) == 0 ? strstr(p, "-->") : strchr(p, '>');
    cr_assert(end, "a tag is not closed");
    if (p[1] == '/')
      depth--;
    else if (p[1] != '?' && p[1] != '!') {
      elements++;
      depth += end[-1] != '/';
    }
    cr_assert_geq(depth, 0);
  }
  cr_assert_eq(depth, 0);
  cr_assert_gt(elements, 20);
  for (p = text; (p = strchr(p, '&')) != NULL; p++)
    cr_assert(strchr(p, ';') && strchr(p, ';') - p < 9, "a bare ampersand: %.20s", p);
}

static void quoted(const char *text, int max_chars, const char *expected) {
  char *out;
  size_t size;
  FILE *f = open_memstream(&out, &size);
  gnuplot_text(f, text, max_chars);
  fclose(f);
  cr_assert_str_eq(out, expected);
  free(out);
}

Test(plot, text_is_quoted) {
  quoted("plain", 0, "'plain'");
  quoted("it's", 0, "'it\xe2\x80\x99s'");
  quoted(HOSTILE, 0, "'a\"; system(\"touch x\").csv'");
  quoted("a\nsystem('x')\\", 0, "'a?system(\xe2\x80\x99x\xe2\x80\x99)\\'");
  quoted("\xc3\xa9\xff\xed\xa0\x80\x1b", 0,
         "'\xc3\xa9"
         "?"
         "?"
         "?"
         "?"
         "?"
         "'");
  quoted("abcdef", 4, "'abc\xe2\x80\xa6'");
  quoted("abcd", 4, "'abcd'");
  quoted("", 0, "''");
}

static void draw(const char *kind, const struct plot_input *in) {
  struct err err = {0};
  const struct plot *plot = plot_find(kind, &err);
  cr_assert(plot);
  cr_assert_eq(plot_draw(plot, in, out_path, &err), 0, "%s: %s", kind, err.msg);
}

Test(plot, result_plots_of_a_hostile_trace_are_harmless) {
  static const char *const kinds[] = {"speedup", "imbalance", "sp_histogram"};
  struct plot_input in = {.path = in_path};
  write_file(RESULT_HEAD "\"a\\\"; system(\\\"touch x\\\").csv <&>\"" RESULT_TAIL);
  for (int i = 0; i < 3; i++) {
    draw(kinds[i], &in);
    char *text = read_out();
    expect_xml(text);
    cr_assert(strstr(text, "touch x") && strstr(text, "`touch x`%n%s") && strstr(text, "h200_8x4 (32 GPUs)"));
    free(text);
  }
}

Test(plot, lengths_of_a_hostile_trace_are_harmless) {
  struct sample samples[] = {{1, 1}, {100, 1}, {3000, 1}, {1823777, 1}};
  struct plot_input in = {.trace_name = HOSTILE, .samples = samples, .n = 4};
  draw("lengths", &in);
  char *text = read_out();
  expect_xml(text);
  cr_assert(strstr(text, "4 samples, 1,826,878 tokens, longest 1,823,777"));
  free(text);
}

Test(plot, lengths_of_a_video_trace) {
  struct sample samples[] = {{1, 144}, {15, 3600}};
  struct plot_input in = {.trace_name = "v", .samples = samples, .n = 2, .is_2d = true};
  draw("lengths", &in);
  char *text = read_out();
  expect_xml(text);
  free(text);
}

Test(plot, timeline_of_many_spans) {
  struct timeline t = {.policy = "dcp", .run = HOSTILE};
  for (int i = 0; i < 20000; i++) /* a million to a pixel must not matter */
    timeline_add(&t, (struct timeline_span){i * 1000, i * 1000 + 900, "op", (uint8_t)(i % 2), (uint8_t)(i % 6),
                                            i / 9000, (i % 3) * 4, 4, 0});
  struct plot_input in = {.path = in_path};
  cr_assert_eq(timeline_write(&t, in_path, NULL), 0);
  draw("timeline", &in);
  char *text = read_out();
  expect_xml(text);
  cr_assert(strstr(text, "iterations 0 to 2") && strstr(text, "12 ranks"));
  free(text);
  timeline_release(&t);
}

/* What rank `rank` of four wrote: 0 and 1 run by themselves, 2 and 3 as a group; then all reduce. */
static void write_rank(int rank) {
  struct timeline t = {.policy = "dcp", .run = "x"};
  char path[32];
  snprintf(path, sizeof path, "%d.json", rank);
  timeline_add(&t, (struct timeline_span){0, 9000, "op", TIMELINE_COMPUTE, TIMELINE_CAT_COMPUTE, 0,
                                          rank == 3 ? 2 : rank, rank < 2 ? 1 : 2, 0});
  timeline_add(&t, (struct timeline_span){9000, 9900, "norm", TIMELINE_SYNC, TIMELINE_CAT_GRAD_SYNC, 0, 0, 4, -1});
  cr_assert_eq(timeline_write(&t, path, NULL), 0);
  timeline_release(&t);
}

static int count(const char *text, const char *word) {
  int n = 0;
  for (; (text = strstr(text, word)); text++)
    n++;
  return n;
}

Test(plot, timeline_of_all_ranks) {
  struct plot_input in = {.path = "{rank}.json"};
  struct err err = {0};
  for (int rank = 0; rank < 4; rank++)
    write_rank(rank);
  draw("timeline", &in);
  char *text = read_out();
  expect_xml(text);
  cr_expect(count(text, ">SP 2<") > 0 && count(text, ">SP 1<") == 2 * count(text, ">SP 2<")); /* boxed: written twice */
  free(text);
  unlink(out_path);
  unlink("2.json");
  cr_expect_eq(plot_draw(plot_find("timeline", NULL), &in, out_path, &err), -1);
  cr_expect(strstr(err.msg, "2.json"), "%s", err.msg);
  unlink("0.json");
  unlink("1.json");
  unlink("3.json");
}

Test(plot, png_and_pdf) {
  struct err err = {0};
  struct plot_input in = {.path = in_path};
  write_file(RESULT_HEAD "\"wikipedia\"" RESULT_TAIL);
  strcpy(strrchr(out_path, '.'), ".png");
  cr_assert_eq(plot_draw(plot_find("speedup", NULL), &in, out_path, &err), 0, "%s", err.msg);
  char *text = read_out();
  cr_assert(memcmp(text, "\x89PNG", 4) == 0);
  free(text);
  unlink(out_path);
  strcpy(strrchr(out_path, '.'), ".pdf");
  cr_assert_eq(plot_draw(plot_find("speedup", NULL), &in, out_path, &err), 0, "%s", err.msg);
  text = read_out();
  cr_assert(memcmp(text, "%PDF", 4) == 0);
  free(text);
}

Test(plot, refusals_leave_no_file) {
  struct err err = {0};
  struct plot_input in = {.path = in_path};
  cr_assert_null(plot_find("speedups", &err));
  cr_assert(err.usage && strstr(err.msg, "speedup, imbalance, imbalance_gpus, step_times"), "%s", err.msg);
  err = (struct err){0};
  cr_assert_eq(plot_draw(plot_find("speedup", NULL), &in, "/tmp/x.jpeg", &err), -1);
  cr_assert(err.usage && strstr(err.msg, ".svg, .png or .pdf"), "%s", err.msg);
  write_file("{\"schema\":\"dcpsim.result/1\"}");
  cr_assert_eq(plot_draw(plot_find("speedup", NULL), &in, out_path, &err), -1);
  cr_assert(strstr(err.msg, "'trace' is missing"), "%s", err.msg);
  cr_assert_neq(access(out_path, F_OK), 0);
}

Test(plot, without_gnuplot_one_clear_line) {
  struct err err = {0};
  struct plot_input in = {.path = in_path};
  write_file(RESULT_HEAD "\"wikipedia\"" RESULT_TAIL);
  setenv("PATH", "/nonexistent", 1);
  cr_assert_eq(plot_draw(plot_find("speedup", NULL), &in, out_path, &err), -1);
  cr_assert(strstr(err.msg, "gnuplot is not installed"), "%s", err.msg);
  cr_assert_neq(access(out_path, F_OK), 0);
}
