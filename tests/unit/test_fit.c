/* calibrate fit: known constants come back in spite of outliers, tables rise, the same rows give the same bytes, and
 * each value of a column is left out once. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/boosted.h"
#include "calib/fit_params.h"
#include "calib/leave_out.h"
#include "calib/monotone.h"
#include "calib/nonlinear.h"
#include "models/operation.h"
#include "sim/base/share.h"

static struct err error;

/* floor + work / rate, one row in ten three times too slow. */
struct line {
  size_t n;
  double work[200], log_s[200];
};

static void line_residuals(const double *c, const void *context, double *out) {
  const struct line *l = context;
  for (size_t i = 0; i < l->n; i++)
    out[i] = log(c[0] + l->work[i] / c[1]) - l->log_s[i];
}

Test(fit, constants_in_spite_of_outliers) {
  struct line l = {.n = 200};
  double c[2] = {1, 1};
  for (size_t i = 0; i < l.n; i++) {
    l.work[i] = exp(0.06 * (double)i);
    l.log_s[i] = log((2.5 + l.work[i] / 40) * (i % 10 == 3 ? 3 : 1) * (1 + 0.01 * sin((double)i)));
  }
  struct nonlinear problem = {l.n, 2, line_residuals, &l, 0.01, 6, 20};
  nonlinear_fit(&problem, c);
  cr_expect(fabs(c[0] / 2.5 - 1) < 0.02 && fabs(c[1] / 40 - 1) < 0.02, "%g %g", c[0], c[1]);
}

Test(fit, tables_rise) {
  static const size_t axes[3] = {4, 5, 6};
  double v[120], line[5] = {1, 3, 2, 4, 4};
  for (int i = 0; i < 120; i++)
    v[i] = i / 30 + i / 6 % 5 + i % 6 + 2 * sin(7.0 * i);
  monotone_table(v, axes, 3, 12);
  for (int i = 0; i < 120; i++)
    cr_assert((i < 30 || v[i] >= v[i - 30]) && (i / 6 % 5 == 0 || v[i] >= v[i - 6]) &&
              (i % 6 == 0 || v[i] >= v[i - 1]));
  cr_expect_float_eq(monotone_line(line, 5, 1), 0.5, 1e-12);
  cr_expect(line[1] == 2.5 && line[2] == 2.5 && line[0] == 1 && line[3] == 4);
}

Test(fit, trees_follow_steps) {
  double x[800], y[400], miss = 0;
  for (int i = 0; i < 400; i++) {
    x[2 * i] = i % 20;
    x[2 * i + 1] = i / 20;
    y[i] = (x[2 * i] < 7 ? 0.3 : -0.1) + (x[2 * i + 1] < 11 ? 0 : 0.2) + (i % 37 == 5 ? 5 : 0);
  }
  const struct boosted_options options = {.trees = 100, .depth = 3, .rate = 0.2, .min_rows = 5};
  struct boosted *b = boosted_fit(x, y, 400, 2, &options);
  for (int i = 0; i < 400; i++)
    if (i % 37 != 5)
      miss = fmax(miss, fabs(boosted_predict(b, x + 2 * i) - y[i]));
  cr_expect(miss < 0.05, "%g", miss); /* outliers of 5 have not pulled */
  boosted_free(b);
}

/* Every `step`-th row of a shipped file, so that tests are quick. */
static void read_thinned(struct rows *rows, const char *relative, int step) {
  char path[4096], line[512];
  char *text = NULL;
  size_t size;
  cr_assert_eq(share_path(path, sizeof path, relative), 0);
  FILE *in = fopen(path, "r"), *out = open_memstream(&text, &size);
  for (int i = 0; fgets(line, sizeof line, in); i++)
    if (i == 0 || i % step == 1 % step)
      fputs(line, out);
  fclose(in);
  fclose(out);
  cr_assert_eq(rows_parse(rows, relative, text, &error), 0, "%s", error.msg);
  free(text);
}

enum { FILES = 5 };
static struct rows files[FILES];
static struct fit_source source;
static struct json_doc constants;

static void setup(void) {
  static const char *const names[FILES] = {"h200_sxm/gemm_bf16.csv", "h200_sxm/attention_causal_fwd_bf16.csv",
                                           "h200_sxm/attention_full_fwd_bf16.csv", "h200_sxm/nccl_intranode.csv",
                                           "attention_pairs.csv"};
  static const int steps[FILES] = {31, 7, 7, 1, 1};
  for (int f = 0; f < FILES; f++) {
    char relative[128];
    snprintf(relative, sizeof relative, "calib/data/%s", names[f]);
    read_thinned(&files[f], relative, steps[f]);
  }
  source = (struct fit_source){.device = "h200_sxm", .own = {files, FILES, NULL}};
  cr_assert_eq(fit_constants_read(&constants, "h200_sxm", NULL, &error), 0, "%s", error.msg);
}

static void teardown(void) {
  for (int f = 0; f < FILES; f++)
    rows_release(&files[f]);
  json_doc_release(&constants);
}

Test(fit, same_rows_same_bytes, .init = setup, .fini = teardown) {
  struct fit_sections a = {NULL, NULL, NULL}, b = {NULL, NULL, NULL};
  struct params *params = NULL;
  cr_assert_eq(fit_update(&a, SECTION_ALL, &source, &constants, &error), 0, "%s", error.msg);
  cr_assert_eq(fit_update(&b, SECTION_ALL, &source, &constants, &error), 0);
  char *first = fit_text(&a, &source, &constants, "{}"), *second = fit_text(&b, &source, &constants, "{}");
  cr_expect_str_eq(first, second);
  cr_assert_eq(params_parse(&params, "fitted", first, &error), 0, "%s", error.msg);
  const double t = gemm_time_s(params, 4096, 4096, 4096);
  cr_expect(t > 1.5e-4 && t < 2.6e-4, "%g", t);
  char text[256];
  cr_expect_not(params_range_warning(params, text, sizeof text));
  cr_expect(gemm_is_measured(params, 4096, 4096, 1 << 20), "saturated: in proportion");
  cr_expect_not(gemm_is_measured(params, 4096, 4096, 8));
  attention_forward_time_s(params, &(struct attention_shape){true, 1, 512, 512, 8, 8, 128});
  cr_expect_not(params_range_warning(params, text, sizeof text));
  attention_forward_time_s(params, &(struct attention_shape){true, 1, 512, 512, 8, 8, 16});
  cr_expect(params_range_warning(params, text, sizeof text));
  cr_expect_str_eq(text, "parameters 'fitted' were used outside their measured range: attention with a head dim beyond "
                         "those measured");
  params_free(params);
  free(first);
  free(second);
  fit_sections_release(&a);
  fit_sections_release(&b);
}

Test(fit, leaves_each_value_out_once, .init = setup, .fini = teardown) {
  struct leave_out_options options = {.column = "bytes", .threads = 2};
  struct leave_out out;
  size_t interior = 0, scored = 0, at = 0;
  cr_assert_eq(leave_out_run(&out, &source, &constants, &options, &error), 0, "%s", error.msg);
  for (size_t f = 0; f < FILES; f++)
    for (size_t i = 0; i < files[f].table.n_rows; i++, at++) {
      const int64_t bytes = files[f].v[i].shape[SHAPE_BYTES];
      const bool is = row_op_class(files[f].v[i].op) == ROW_COLLECTIVE && bytes > 512 && bytes < 536870912;
      cr_assert_eq(out.predicted_s[at] > 0, is);
      interior += is;
      scored += out.predicted_s[at] > 0;
    }
  cr_assert_eq(out.n_groups, 2);
  cr_expect(out.groups[0].rows == interior && scored == interior && out.groups[0].values == 19 && out.refits == 20);
  cr_expect(out.groups[1].largest && out.groups[1].rows == 41 && out.groups[0].median < 0.05);
  leave_out_release(&out);
  options.column = "dtype";
  cr_expect_eq(leave_out_run(&out, &source, &constants, &options, &error), -1);
  cr_expect(error.usage && strstr(error.msg, "no column 'dtype' to leave out (valid: m, n, k, seqlen"), "%s",
            error.msg);
}

Test(fit, too_few_rows, .init = setup, .fini = teardown) {
  struct fit_sections sections = {NULL, NULL, NULL};
  struct json_doc none = {0};
  source.own.n_files = 1;
  cr_expect_eq(fit_update(&sections, SECTION_ATTENTION, &source, &constants, &error), -1);
  cr_expect(strstr(error.msg, "no causal attention_forward rows to fit h200_sxm") ||
                strstr(error.msg, "no full attention_forward rows"),
            "%s", error.msg);
  cr_expect_eq(fit_update(&sections, SECTION_NETWORK, &source, &constants, &error), -1);
  cr_expect(strstr(error.msg, "no all_reduce rows of 2 ranks"), "%s", error.msg);
  source.own.files = files + 4;
  cr_expect_eq(fit_update(&sections, SECTION_GEMM, &source, &constants, &error), -1);
  cr_expect(strstr(error.msg, "0 gemm rows are too few to fit"), "%s", error.msg);
  cr_expect_eq(fit_constants_read(&none, "b300", NULL, &error), -1);
  cr_expect(error.usage && strstr(error.msg, "--constants"), "%s", error.msg);
  fit_sections_release(&sections);
}
