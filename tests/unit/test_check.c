/* calibrate check: predictions of single rows, statistics worked out by hand, what is left out. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/check.h"
#include "calib/worst.h"
#include "models/collective.h"
#include "models/operation.h"

static struct params *params;
static struct cluster cluster;
static struct row_predictor predictor;
static struct err error;
static char warned[4096];

static void collect(void *to, const char *message) {
  (void)to;
  size_t n = strlen(warned);
  snprintf(warned + n, sizeof warned - n, "%s\n", message);
}
static const struct warning_sink sink = {collect, NULL};

static void setup(void) {
  cr_assert_eq(params_load(&params, "h200_sxm", &error), 0, "%s", error.msg);
  cr_assert_eq(cluster_load(&cluster, "h200_8x1", &error), 0);
  predictor = (struct row_predictor){params, &cluster};
}
static void teardown(void) { params_free(params); }
TestSuite(check, .init = setup, .fini = teardown);

/* Rows of gemm 512 x 1024 x k whose time is the prediction divided by 1 + error: the error comes out as given. */
static void gemm_row(char *text, size_t size, int k, const char *device, double rel_error) {
  size_t n = strlen(text);
  snprintf(text + n, size - n, "gemm,bf16,512,1024,%d,%.17g,%s\n", k,
           gemm_time_s(params, 512, 1024, k) / (1 + rel_error), device);
}

Test(check, statistics) {
  char text[2000] = "op,dtype,m,n,k,time_s,device\n";
  static const double errors[] = {0.10, -0.20, 0.05, 0.40, -0.01};
  struct check check;
  struct check_options options = {.warnings = &sink};
  struct rows rows;
  for (int i = 0; i < 5; i++)
    gemm_row(text, sizeof text, 512 << i, i % 2 ? "b" : "a", errors[i]);
  cr_assert_eq(rows_parse(&rows, "r.csv", text, &error), 0, "%s", error.msg);
  cr_assert_eq(check_run(&check, &predictor, &rows, 1, &options, &error), 0);
  cr_assert_eq(check.n_groups, 1);
  cr_expect(check.rows == 5 && check.rows_left_out == 0 && check.groups[0].rows == 5);
  cr_expect_float_eq(check.groups[0].median, 0.10, 1e-12);
  cr_expect_float_eq(check.groups[0].p90, 0.40, 1e-12); /* index floor(4 * 0.9 + 0.5) = 4 */
  cr_expect_float_eq(check.groups[0].max, 0.40, 1e-12);
  cr_expect_float_eq(check.groups[0].mean, 0.76 / 5, 1e-12);
  check_release(&check);
  options.by = "device";
  cr_assert_eq(check_run(&check, &predictor, &rows, 1, &options, &error), 0);
  cr_assert_eq(check.n_groups, 2);
  cr_expect_str_eq(check.groups[0].value, "a");
  cr_expect_float_eq(check.groups[0].median, 0.05, 1e-12);
  cr_expect_float_eq(check.groups[1].max, 0.40, 1e-12);
  check_release(&check);
  options.by = "k"; /* numbers by size: 512, 1024, ..., 8192 */
  cr_assert_eq(check_run(&check, &predictor, &rows, 1, &options, &error), 0);
  cr_assert_eq(check.n_groups, 5);
  cr_expect_str_eq(check.groups[0].value, "512");
  cr_expect_str_eq(check.groups[1].value, "1024");
  check_release(&check);
  options.by = "nope";
  cr_assert_eq(check_run(&check, &predictor, &rows, 1, &options, &error), -1);
  cr_expect(error.usage && strstr(error.msg, "no such column (there are op, dtype, m, n, k, time_s, device)"), "%s",
            error.msg);
  rows_release(&rows);
}

static double predict(const char *header, const char *line, const char **why_not) {
  char text[600];
  struct rows rows;
  snprintf(text, sizeof text, "%s\n%s\n", header, line);
  cr_assert_eq(rows_parse(&rows, "r.csv", text, &error), 0, "%s", error.msg);
  double time_s = row_predict_s(&predictor, &rows, 0, why_not);
  rows_release(&rows);
  return time_s;
}

Test(check, each_operation) {
  const char *attention = "op,dtype,causal,batch,seqlen,heads,kv_heads,head_dim,time_s,library";
  const char *collective = "op,dtype,ranks,nodes,bytes,time_s";
  const struct attention_shape shape = {true, 2, 4096, 4096, 32, 8, 128};
  const char *why_not;
  double forward = attention_forward_time_s(params, &shape), backward = attention_backward_time_s(params, &shape);
  cr_expect_eq(predict(attention, "attention_forward,bf16,1,2,4096,32,8,128,1,cudnn", &why_not), forward);
  cr_expect_eq(predict(attention, "attention_forward,bf16,1,2,4096,32,8,128,1,", &why_not),
               attention_forward_row_time_s(params, &shape));
  cr_expect_eq(predict(attention, "attention_backward,fp16,1,2,4096,32,8,128,1,", &why_not), backward);
  cr_expect_eq(predict(attention, "attention_forward_backward,fp16,1,2,4096,32,8,128,1,", &why_not),
               forward + backward);
  cr_expect_eq(predict("op,dtype,m,n,time_s", "rmsnorm_backward,bf16,8192,4096,1", &why_not),
               memory_time_s(params, MEMORY_CONTIGUOUS, 6.0 * 8192 * 4096));
  cr_expect_eq(predict(collective, "reduce_scatter,fp32,16,2,1048576,1", &why_not),
               collective_cost(params, &cluster, COLLECTIVE_REDUCE_SCATTER, 16, 2, 1048576).time_s);
  cr_expect_eq(predict(collective, "all_to_all_uneven,bf16,16,2,1048576,1", &why_not),
               collective_cost(params, &cluster, COLLECTIVE_ALL_TO_ALL, 16, 2, 1048576).time_s);
  cr_expect_null(why_not);
}

/* Groups have ports of their own; what the core of an oversubscribed network carries they share. */
Test(check, groups_at_once) {
  const char *header = "op,dtype,ranks,nodes,bytes,groups,time_s", *why_not;
  const double alone = predict(header, "all_to_all,bf16,4,4,67108864,1,1", &why_not);
  cr_expect_eq(predict(header, "all_to_all,bf16,4,4,67108864,,1", &why_not), alone);
  cr_expect_eq(predict(header, "all_to_all,bf16,4,4,67108864,8,1", &why_not), alone);
  struct cluster narrow = cluster;
  struct rows rows;
  const struct row_predictor of_narrow = {params, &narrow};
  struct check check;
  const struct check_options options = {.warnings = &sink};
  narrow.nodes = 4;
  narrow.oversubscription = 4;
  cr_assert_eq(rows_parse(&rows, "r.csv",
                          "op,dtype,ranks,nodes,bytes,groups,time_s\nall_to_all,bf16,4,4,67108864,1,1\n"
                          "all_to_all,bf16,4,4,67108864,8,1\n",
                          &error),
               0, "%s", error.msg);
  const double one = row_predict_s(&of_narrow, &rows, 0, &why_not),
               eight = row_predict_s(&of_narrow, &rows, 1, &why_not);
  /* What each group needs of the core: 8 of them fill it for as long as all bytes take. */
  const double core_s = 8 * 4 * 0.75 * 67108864 * 4 / (32 * narrow.nic_bytes_per_s);
  cr_expect(one >= alone && fabs(eight / core_s - 1) < 1e-9, "%g %g %g", one, eight, core_s);
  cr_assert_eq(check_run(&check, &predictor, &rows, 1, &options, &error), 0);
  cr_expect(check.n_groups == 2 && !check.groups[0].at_once && check.groups[1].at_once);
  check_release(&check);
  rows_release(&rows);
}

Test(check, left_out) {
  const char *collective = "op,dtype,ranks,nodes,bytes,time_s";
  const char *const lines[] = {"broadcast,fp32,8,1,1024,1", "all_reduce,fp32,1,1,1024,1", "all_reduce,fp32,9,1,1024,1",
                               "all_reduce,fp32,5,2,1024,1"};
  const char *why_not;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    cr_expect_eq(predict(collective, lines[i], &why_not), 0);
    cr_expect_not_null(why_not, "%s", lines[i]);
  }
  struct rows rows;
  struct check check;
  struct check_options options = {.warnings = &sink};
  warned[0] = '\0';
  cr_assert_eq(rows_parse(&rows, "r.csv",
                          "op,dtype,m,n,k,time_s\ngemm,fp8,1,2,3,1\ngemm,bf16,1,2,3,1\ngemm,fp8,1,2,3,1\n", &error),
               0);
  cr_assert_eq(check_run(&check, &predictor, &rows, 1, &options, &error), 0);
  cr_expect(check.rows == 1 && check.rows_left_out == 2);
  cr_expect_str_eq(warned, "2 gemm rows not predicted (first: 'r.csv' line 2): only bf16 and fp16 are modelled\n", "%s",
                   warned);
  check_release(&check);
  rows_release(&rows);
  cr_assert_eq(rows_parse(&rows, "r.csv", "op,dtype,m,n,k,time_s\ngemm,fp8,1,2,3,1\n", &error), 0);
  cr_assert_eq(check_run(&check, &predictor, &rows, 1, &options, &error), -1);
  cr_expect_str_eq(error.msg, "none of the 1 rows can be predicted: only bf16 and fp16 are modelled");
  rows_release(&rows);
}

/* The largest shapes that rows may have still give a finite time. */
Test(check, extremes) {
  const char *attention = "op,dtype,causal,batch,seqlen,heads,kv_heads,head_dim,time_s";
  const char *why_not;
  double times[] = {
      predict(attention, "attention_forward,bf16,1,1048576,268435456,4096,4096,4096,1", &why_not),
      predict(attention, "attention_backward,bf16,0,1048576,268435456,4096,1,4096,1", &why_not),
      predict(attention, "attention_forward,bf16,1,1,1,1,1,1,1", &why_not),
      predict("op,dtype,m,n,k,time_s", "gemm,bf16,2147483647,2147483647,2147483647,1", &why_not),
      predict("op,dtype,m,n,k,time_s", "gemm,bf16,1,1,1,1", &why_not),
      predict("op,dtype,m,n,time_s", "layernorm,bf16,2147483647,2147483647,1", &why_not),
      predict("op,dtype,ranks,nodes,bytes,time_s", "all_to_all,bf16,8388608,1048576,1125899906842624,1", &why_not),
  };
  for (size_t i = 0; i < sizeof times / sizeof *times; i++)
    cr_expect(isfinite(times[i]) && times[i] > 0, "%zu: %g", i, times[i]);
}

Test(check, rows_written) {
  struct rows files[2];
  char *text, expected[600];
  size_t n;
  double gemm = gemm_time_s(params, 512, 1024, 512);
  cr_assert_eq(rows_parse(&files[0], "a.csv", "op,dtype,m,n,k,time_s,device\ngemm,bf16,512,1024,512,1,x\n", &error), 0);
  cr_assert_eq(
      rows_parse(&files[1], "b.csv", "device,op,dtype,ranks,nodes,bytes,time_s\ny,gather,bf16,8,1,64,2\n", &error), 0);
  FILE *out = open_memstream(&text, &n);
  check_write_rows(out, &predictor, files, 2, "device");
  fclose(out);
  snprintf(expected, sizeof expected, "a.csv,2,gemm,bf16,,,,,,,512,1024,512,,,,,x,1.0,%.6g", gemm);
  char *line = strchr(text, '\n') + 1;
  cr_expect_eq(strncmp(text,
                       "file,line,op,dtype,causal,batch,seqlen,heads,kv_heads,head_dim,m,n,k,ranks,nodes,bytes,"
                       "groups,device,time_s,predicted_time_s,rel_error\n",
                       (size_t)(line - text)),
               0, "%s", text);
  cr_expect_eq(strncmp(line, "a.csv,2,gemm,bf16,,,,,,,512,1024,512,,,,,x,1", 44), 0, "%s", text);
  cr_expect_str_eq(strchr(line, '\n') + 1, "b.csv,2,gather,bf16,,,,,,,,,,8,1,64,,y,2,,\n", "%s", text);
  free(text);
  rows_release(&files[0]);
  rows_release(&files[1]);
}

Test(check, worst_rows_by_operation) {
  static const double errors[] = {0.10, -0.20, 0.05, 0.20};
  char text[2000] = "op,dtype,m,n,k,time_s,device,ranks,nodes,bytes\n", *printed = NULL;
  struct worst worst = {0};
  struct rows rows;
  size_t size;
  for (int i = 0; i < 4; i++)
    gemm_row(text, sizeof text, 512 << i, ",,,", errors[i]);
  strcat(text, "all_reduce,fp16,,,,1e-5,,8,1,1024\n");
  cr_assert_eq(rows_parse(&rows, "r.csv", text, &error), 0, "%s", error.msg);
  for (size_t i = 0; i < 4; i++)
    worst_add(&worst, &rows, i, rows.v[i].time_s * (1 + errors[i]));
  worst_add(&worst, &rows, 4, 1.01e-5);
  worst_keep(&worst, 3);
  cr_assert_eq(worst.n, 4); /* three of gemm, one collective */
  cr_expect(worst.v[0].i == 1 && worst.v[1].i == 3 && worst.v[2].i == 0 && worst.v[3].i == 4);
  FILE *out = open_memstream(&printed, &size);
  worst_table(out, &worst);
  fclose(out);
  const char *first = strstr(printed, "-20.00  m 512 n 1024 k 1024 bf16\n");
  cr_expect(first && strstr(first, "+1.00  ranks 8 nodes 1 bytes 1024 fp16\n"), "%s", printed);
  free(printed);
  worst_release(&worst);
  rows_release(&rows);
}
