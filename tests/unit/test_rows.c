/* Measured rows, the CSV tables they come in, and tables of others converted to them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calib/import_csv.h"
#include "calib/rows.h"

static struct err error;

Test(table, forms) {
  struct table t;
  cr_assert_eq(
      table_parse(&t, "table", "t.csv",
                  "\xEF\xBB\xBF# comment\r\n\r\n a , \"b \"\"c\"\"\" ,d\r\n1,\" two, \nlines\",\r\n\n#x\n 3 ,4,5",
                  &error),
      0, "%s", error.msg);
  cr_assert(t.n_columns == 3 && t.n_rows == 2);
  cr_expect_str_eq(t.columns[0], "a");
  cr_expect_str_eq(t.columns[1], "b \"c\"");
  cr_expect_str_eq(table_field(&t, 0, 1), " two, \nlines");
  cr_expect_str_eq(table_field(&t, 0, 2), "");
  cr_expect_str_eq(table_field(&t, 1, 0), "3");
  cr_expect_str_eq(table_field(&t, 1, -1), "");
  cr_expect(t.lines[0] == 4 && t.lines[1] == 8);
  cr_expect(table_column(&t, "d") == 2 && table_column(&t, "e") == -1);
  table_release(&t);
  cr_assert_eq(table_parse(&t, "table", "t.csv", "a;b\n1,5;2\n", &error), 0);
  cr_expect_str_eq(table_field(&t, 0, 0), "1,5");
  table_release(&t);
  cr_assert_eq(table_parse(&t, "table", "t.csv", "a\tb\n\t2\n", &error), 0);
  cr_expect_str_eq(table_field(&t, 0, 0), "");
  table_release(&t);
}

Test(table, refusals) {
  static const char *const cases[][2] = {
      {"", "table 't' is empty: a CSV header is needed"},
      {"# only\n\n", "table 't' is empty: a CSV header is needed"},
      {"a,a\n", "table 't' line 1: two columns are named 'a'"},
      {"a,,b\n", "table 't' line 1: column 2 has no name"},
      {"a,b\n1,2\n\n1\n", "table 't' line 4: 1 field, but the header has 2"},
      {"a,b\n1,2,3\n", "table 't' line 2: 3 fields, but the header has 2"},
      {"a,b\n1,\"2\n3\n", "table 't' line 2: a quoted field is not closed"},
      {"a,b\n1,\"2\"x\n", "table 't' line 2: text after a closing quote"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct table t;
    cr_assert_eq(table_parse(&t, "table", "t", cases[i][0], &error), -1);
    cr_expect_str_eq(error.msg, cases[i][1], "%s", error.msg);
  }
}

Test(table, quoting) {
  char *text;
  size_t n;
  FILE *out = open_memstream(&text, &n);
  table_put_field(out, "plain 1");
  fputc(',', out);
  table_put_field(out, "a \"b\", c");
  fputc(',', out);
  table_put_field(out, " x");
  fclose(out);
  cr_expect_str_eq(text, "plain 1,\"a \"\"b\"\", c\",\" x\"");
  free(text);
}

Test(rows, all_classes_in_one_file) {
  struct rows rows;
  cr_assert_eq(rows_parse(&rows, "r.csv",
                          "op,dtype,causal,batch,seqlen,heads,kv_heads,head_dim,m,n,k,ranks,nodes,bytes,time_s,note\n"
                          "attention_forward,bf16,1,2,2048,32,8,128,,,,,,,1.5e-4,a\n"
                          "gemm,bf16,,,,,,,4096,1024,512,,,,2e-05,\n"
                          "all_reduce,fp32,,,,,,,,,,16,2,1073741824,0.005,\n"
                          "rmsnorm,bf16,,,,,,,8192,4096,,,,,3.5e-05,\n",
                          &error),
               0, "%s", error.msg);
  cr_assert_eq(rows.table.n_rows, 4);
  cr_expect(rows.v[0].op == ROW_OP_ATTENTION_FORWARD && rows.v[0].shape[SHAPE_CAUSAL] == 1);
  cr_expect(rows.v[0].shape[SHAPE_SEQLEN] == 2048 && rows.v[0].shape[SHAPE_HEAD_DIM] == 128);
  cr_expect_eq(rows.v[0].time_s, 1.5e-4);
  cr_expect(rows.v[1].shape[SHAPE_M] == 4096 && rows.v[1].shape[SHAPE_K] == 512);
  cr_expect(rows.v[2].shape[SHAPE_RANKS] == 16 && rows.v[2].shape[SHAPE_BYTES] == 1 << 30);
  cr_expect_str_eq(rows.v[2].dtype, "fp32");
  cr_expect(rows.v[3].op == ROW_OP_RMSNORM && rows.v[3].shape[SHAPE_HIDDEN] == 4096);
  rows_release(&rows);
}

Test(rows, groups_at_once) {
  struct rows rows;
  cr_assert_eq(rows_parse(&rows, "r.csv",
                          "op,dtype,ranks,nodes,bytes,groups,time_s\nall_reduce,fp32,4,2,8,,1\n"
                          "all_to_all_uneven,fp32,4,4,32,2,1\nbarrier,fp32,4,4,0,1,1\n",
                          &error),
               0, "%s", error.msg);
  cr_expect(rows.v[0].shape[SHAPE_GROUPS] == 1 && !row_is_at_once(&rows.v[0]));
  cr_expect(rows.v[1].shape[SHAPE_GROUPS] == 2 && row_is_at_once(&rows.v[1]));
  cr_expect(rows.v[2].shape[SHAPE_GROUPS] == 1 && rows.v[2].shape[SHAPE_BYTES] == 0);
  rows_release(&rows);
  cr_assert_eq(rows_parse(&rows, "r.csv", "op,dtype,ranks,nodes,bytes,time_s\nall_reduce,fp32,4,2,8,1\n", &error), 0);
  cr_expect_eq(rows.v[0].shape[SHAPE_GROUPS], 1); /* a file from before the column */
  rows_release(&rows);
}

Test(rows, refusals) {
  static const char *const cases[][2] = {
      {"op,m\n", "rows 'r.csv': no column 'dtype' (its columns: op, m)"},
      {"op,dtype,time_s\n", "rows 'r.csv' has a header and no rows"},
      {"op,dtype,m,n,time_s\ngemm,bf16,1,2,1\n", "rows 'r.csv' line 2: no column 'k', which gemm rows need"},
      {"op,dtype,m,n,k,time_s\ngemm,bf16,1,2,3,1\ngemm,bf16,1,,3,1\n",
       "rows 'r.csv' line 3: 'n' must be an integer from 1 to 2147483647, got ''"},
      {"op,dtype,m,n,k,time_s\ngemm,bf16,1,0,3,1\n",
       "rows 'r.csv' line 2: 'n' must be an integer from 1 to 2147483647, got '0'"},
      {"op,dtype,m,n,k,time_s\ngemm,bf16,1,99999999999999999999,3,1\n",
       "rows 'r.csv' line 2: 'n' must be an integer from 1 to 2147483647, got '99999999999999999999'"},
      {"op,dtype,m,n,k,time_s\ngemm,,1,2,3,1\n", "rows 'r.csv' line 2: 'dtype' is empty"},
      {"op,dtype,m,n,k,time_s\ngemm,bf16,1,2,3,-1\n",
       "rows 'r.csv' line 2: 'time_s' must be a number of seconds above 0 and at most 1e+06, got '-1'"},
      {"op,dtype,m,n,k,time_s\ngemm,bf16,1,2,3,nan\n",
       "rows 'r.csv' line 2: 'time_s' must be a number of seconds above 0 and at most 1e+06, got 'nan'"},
      {"op,dtype,causal,batch,seqlen,heads,kv_heads,head_dim,time_s\nattention_forward,bf16,2,1,1,1,1,1,1\n",
       "rows 'r.csv' line 2: 'causal' must be an integer from 0 to 1, got '2'"},
      {"op,dtype,causal,batch,seqlen,heads,kv_heads,head_dim,time_s\nattention_forward,bf16,1,1,1,6,4,64,1\n",
       "rows 'r.csv' line 2: heads (6) must be a multiple of kv_heads (4)"},
      {"op,dtype,ranks,nodes,bytes,time_s\nall_reduce,fp32,2,4,8,1\n",
       "rows 'r.csv' line 2: 2 ranks cannot span 4 nodes"},
      {"op,dtype,ranks,nodes,bytes,groups,time_s\nall_reduce,fp32,4,2,8,0,1\n",
       "rows 'r.csv' line 2: 'groups' must be an integer from 1 to 16777216, got '0'"},
      {"op,dtype,ranks,nodes,bytes,time_s\nall_reduce,fp32,4,2,0,1\n",
       "rows 'r.csv' line 2: 'bytes' must be an integer from 1 to 1125899906842624, got '0'"},
      {"op,dtype,ranks,nodes,bytes,time_s\nallreduce,fp32,2,1,8,1\n",
       "rows 'r.csv' line 2: unknown op 'allreduce'; valid: attention_forward, attention_backward, "
       "attention_forward_backward, attention_varlen_forward, attention_varlen_backward, gemm, gemm_wgrad, rmsnorm, "
       "rmsnorm_backward, layernorm, layernorm_backward, residual, swiglu, swiglu_backward, gelu, gelu_backward, "
       "modulate, permute, bias_backward, permute_add, adamw, rope, silu, silu_backward, bias, modulate_backward, "
       "gate, gate_backward, embedding, embedding_backward, cross_entropy, cross_entropy_backward, all_reduce, "
       "all_gather, reduce_scatter, all_to_all, send_recv, all_to_all_uneven, barrier, broadcast, reduce, gather, "
       "scatter"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct rows rows;
    cr_assert_eq(rows_parse(&rows, "r.csv", cases[i][0], &error), -1);
    cr_expect_str_eq(error.msg, cases[i][1], "%s", error.msg);
  }
  struct rows rows;
  cr_expect_eq(rows_read(&rows, "/nonexistent/r.csv", &error), -1);
  cr_expect_str_eq(error.msg, "cannot open rows '/nonexistent/r.csv': No such file or directory");
}

/* ---- import csv ---- */

static char warned[4096], *written;
static void collect(void *to, const char *message) {
  (void)to;
  size_t n = strlen(warned);
  snprintf(warned + n, sizeof warned - n, "%s\n", message);
}

static int convert(const char *text, const char *map, struct import_csv_result *result) {
  static const struct warning_sink sink = {collect, NULL};
  struct import_csv_options options = {.map = map, .warnings = &sink};
  char path[] = "/tmp/dcpsim_rows_XXXXXX";
  int fd = mkstemp(path);
  size_t n;
  cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
  warned[0] = '\0';
  error = (struct err){.set = false};
  FILE *out = open_memstream(&written, &n);
  int rc = import_csv(path, out, &options, result, &error);
  fclose(out);
  unlink(path);
  return rc;
}

Test(import_csv, attention_by_flops) {
  struct import_csv_result result;
  cr_assert_eq(
      convert("op,causal,dtype,device,batch,seqlen,heads,kv_heads,head_dim_qk,head_dim_vo,time_s,tflops_as_reported,"
              "read_method\n"
              "attention_forward,1,bf16,X,1,8192,64,8,128,128,0.001708,644.000,file\n"    /* both agree */
              "attention_forward,0,bf16,X,2,1000,10,10,100,100,,8,eye\n"                  /* 8e9 FLOPs */
              "attention_backward,1,bf16,X,2,1000,10,10,100,100,,1,eye\n"                 /* 10e9 */
              "attention_forward_backward,0,fp16,X,2,1000,10,10,100,100,,28,\n"           /* 28e9 */
              "attention_forward,1,bf16,X,2,32768,64,8,64,64,0.003021,358.000,file\n"     /* a window */
              "attention_forward,1,bf16,X,1,8192,128,128,192,128,0.004278,643.000,file\n" /* two head dims */
              "attention_forward,unknown,bf16,X,1,8192,128,128,64,64,,643.000,file\n"
              "attention_forward,1,bf16,X,1,8192,128,128,64,64,,700-800,file\n",
              NULL, &result),
      0, "%s", error.msg);
  cr_expect(result.rows == 4 && result.rows_from_flops == 3 && result.rows_left_out == 4);
  cr_expect_str_eq(written,
                   "op,dtype,causal,batch,seqlen,heads,kv_heads,head_dim,time_s,device,check\n"
                   "attention_forward,bf16,1,1,8192,64,8,128,0.001708,X,file\n"
                   "attention_forward,bf16,0,2,1000,10,10,100,0.001,X,eye; time from TFLOP/s\n"
                   "attention_backward,bf16,1,2,1000,10,10,100,0.01,X,eye; time from TFLOP/s\n"
                   "attention_forward_backward,fp16,0,2,1000,10,10,100,0.001,X,time from TFLOP/s\n",
                   "%s", written);
  cr_expect(strstr(warned, "1 row left out (first: line 6): time and TFLOP/s disagree"), "%s", warned);
  cr_expect(strstr(warned, "1 row left out (first: line 7): no head_dim, or"));
  cr_expect(strstr(warned, "1 row left out (first: line 8): the mask is unknown"));
  cr_expect(strstr(warned, "1 row left out (first: line 9): the TFLOP/s are not one number"));
  free(written);
}

Test(import_csv, other_kinds) {
  struct import_csv_result result;
  cr_assert_eq(convert("kind,op,gpu,library,dtype,pass,m,n,k,time_ms,tflops,gb_per_s\n"
                       "gemm,torch.mm,H100,cuBLAS,bf16,fwd,1000,2000,500,,200,\n"
                       "norm,rms_norm llama,H200,cudnn,bf16,bwd,8192,4096,,0.058,,3499.9\n"
                       "norm,layer_norm gpt,H200,cudnn,bf16,fwd,1024,12288,,0.003,,3227\n"
                       "membound,BabelStream copy,H200,,fp64,,,,,,,4010\n",
                       NULL, &result),
               0, "%s", error.msg);
  cr_expect_str_eq(written,
                   "op,dtype,m,n,k,time_s,device,library,check\n"
                   "gemm,bf16,1000,2000,500,1e-05,H100,cuBLAS,time from TFLOP/s\n"
                   "rmsnorm_backward,bf16,8192,4096,,5.8e-05,H200,cudnn,\n",
                   "%s", written);
  cr_expect(strstr(warned, "line 4): the time is printed too coarsely"), "%s", warned);
  cr_expect(strstr(warned, "line 5): the operation is none of measured rows"));
  free(written);
}

Test(import_csv, mapping) {
  struct import_csv_result result;
  const char *table = "name,type,rows,cols,inner,usec\ngemm,bf16,1,2,3,12.5\n";
  cr_assert_eq(convert(table, "name=op,type=dtype,rows=m,cols=n,inner=k,usec=time_us", &result), 0, "%s", error.msg);
  cr_expect_str_eq(written, "op,dtype,m,n,k,time_s\ngemm,bf16,1,2,3,1.25e-05\n", "%s", written);
  free(written);
  static const char *const cases[][2] = {{"name=op,x=m", "has no such column (there are name, type, rows"},
                                         {"name=opp", "--map name=opp: no such name; valid: op, dtype"},
                                         {"name", "--map takes COLUMN=NAME"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    cr_expect_eq(convert(table, cases[i][0], &result), -1);
    cr_expect(error.usage && strstr(error.msg, cases[i][1]), "%s", error.msg);
    free(written);
  }
  cr_expect_eq(convert(table, NULL, &result), -1);
  cr_expect(strstr(error.msg, "no column 'op'"), "%s", error.msg);
  free(written);
  cr_expect_eq(convert(table, "name=op", &result), -1);
  cr_expect(strstr(error.msg, "no column time_s, time_ms"), "%s", error.msg);
  free(written);
  cr_expect_eq(convert("op,dtype,m,n,k,time_s\nconv,bf16,1,2,3,1\n", NULL, &result), -1);
  cr_expect(strstr(error.msg, "none of 1 rows can be converted: the operation"), "%s", error.msg);
  cr_expect_str_eq(written, "");
  free(written);
}
