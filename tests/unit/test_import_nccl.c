/* Logs of nccl-tests in the forms people keep them, whole and damaged. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/import_nccl_tests.h"

#define TABLE                                                                                                          \
  "#                                                              out-of-place                       in-place\n"       \
  "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "     \
  "#wrong\n"                                                                                                           \
  "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
#define FOOT "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 439.369\n#\n"
/* 8 ranks: busbw = 1.75 algbw. */
#define ROW_8                                                                                                          \
  "   134217728      33554432     float     sum      -1    613.3  218.85  382.99      0    614.3  218.48  382.34     " \
  " 0\n"

static char warned[8192];
static void collect(void *to, const char *message) {
  (void)to;
  size_t n = strlen(warned);
  snprintf(warned + n, sizeof warned - n, "%s\n", message);
}
static const struct warning_sink sink = {collect, NULL};

static struct err error;
static int parse(struct nccl_rows *rows, const char *name, const char *text) {
  struct nccl_options options = {.warnings = &sink};
  warned[0] = '\0';
  error = (struct err){.set = false};
  *rows = (struct nccl_rows){.v = NULL};
  return import_nccl_parse(rows, name, text, &options, &error);
}

static void expect_row(const struct nccl_row *row, const char *op, const char *dtype, int ranks, int nodes,
                       int64_t bytes) {
  cr_expect_str_eq(row->op, op);
  cr_expect_str_eq(row->dtype, dtype);
  cr_expect(row->ranks == ranks && row->nodes == nodes, "%d ranks on %d nodes", row->ranks, row->nodes);
  cr_expect_eq(row->bytes, bytes);
}

Test(import_nccl, device_list) {
  struct nccl_rows rows;
  cr_assert_eq(parse(&rows, "log.txt",
                     "# nccl-tests version 2.18.3 nccl-headers=23004\n"
                     "# Collective test starting: all_gather_perf\n"
                     "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor)\n#\n# Using devices\n"
                     "#  Rank  0 Group  0 Pid   1000 on    node-a device  0 [0000:1b:00] NVIDIA H200\n"
                     "[node-a:1000] 15 more processes have sent help message\n"
                     "#  Rank  1 Group  0 Pid   1001 on    node-a device  1 [0000:3c:00] NVIDIA H200\n"
                     "#  Rank  2 Group  0 Pid   1002 on    node-b device  0 [0000:1b:00] NVIDIA H200\n"
                     "#  Rank  3 Group  0 Pid   1003 on    node-b device  1 [0000:3c:00] NVIDIA H200\n"
                     "NCCL version 2.30.4+cuda13.2\n#\n" TABLE
                     "     1048576        131072  bfloat16    none      -1    20.00   52.43   39.32      0    20.00   "
                     "52.43   39.32    N/A\n" FOOT "# Collective test concluded: all_gather_perf\n"),
               0);
  cr_expect_str_eq(warned, "");
  cr_assert_eq(rows.n, 2);
  expect_row(&rows.v[0], "all_gather", "bf16", 4, 2, 1048576);
  cr_expect(!rows.v[0].in_place && rows.v[1].in_place);
  cr_expect_eq(rows.v[0].time_s, 20e-6);
  cr_expect_eq(rows.v[0].busbw_bytes_per_s, 39.32e9);
  nccl_rows_release(&rows);
}

/* Prefixes: mpirun --tag-output, srun --label, none; a size that ran into its prefix. */
Test(import_nccl, prefixes) {
  const char *const prefixes[] = {"[1,0]<stdout>:",
                                  " 0: ",
                                  "0:",
                                  "worker-0: ",
                                  "2025-05-22T07:36:17Z stdout F ",
                                  "Mon May 26 10:00:00 2025[1,0]<stdout>:",
                                  "> | ",
                                  "\x1b[32m\x1b[0m "};
  for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
    char text[2000];
    struct nccl_rows rows;
    snprintf(text, sizeof text, "%s# nThread 1 nGpus 8 minBytes 8\n%s%s%s\n", prefixes[i], prefixes[i], ROW_8,
             prefixes[i]);
    cr_assert_eq(parse(&rows, "x/h100_all_reduce.txt", text), 0, "%s: %s", prefixes[i], error.msg);
    cr_assert_eq(rows.n, 2, "'%s' gives %zu rows", prefixes[i], rows.n);
    expect_row(&rows.v[1], "all_reduce", "fp32", 8, 1, 134217728); /* ranks from busbw / algbw, one process */
    cr_expect_eq(rows.v[0].time_s, 613.3e-6);
    nccl_rows_release(&rows);
  }
}

Test(import_nccl, command_line) {
  struct nccl_rows rows;
  cr_assert_eq(parse(&rows, "-",
                     "[user@node0 ~]# ./build/sendrecv_perf -b 8 -e 8 -d half -t 1 -g 4\n" TABLE
                     "        1024           512      half     sum      -1    10.00    0.10    0.10      0    10.00    "
                     "0.10    0.10    N/A\n" FOOT),
               0);
  expect_row(&rows.v[0], "send_recv", "fp16", 4, 1, 1024);
  nccl_rows_release(&rows);
  cr_assert_eq(parse(&rows, "-",
                     "# @conditions: 2 nodes, 8xH100\n"
                     "mpirun -np 16 -N 8 ./build/alltoall_perf -b 8 -g 1\n" TABLE
                     "        1024           512     float     sum      -1    10.00    0.10    0.10      0    10.00    "
                     "0.10    0.10    N/A\n" FOOT),
               0, "%s", error.msg);
  expect_row(&rows.v[0], "all_to_all", "fp32", 16, 2, 1024);
  nccl_rows_release(&rows);
}

Test(import_nccl, annotations_and_names) {
  struct nccl_rows rows;
  cr_assert_eq(parse(&rows, "a.txt",
                     "# @op: reduce_scatter\n# @ranks: 16\n# @nodes: 4\n" TABLE
                     "        1024           512     float     sum      -1    10.00    0.10    0.09      0    10.00    "
                     "0.10    0.09      0\n" FOOT),
               0);
  expect_row(&rows.v[0], "reduce_scatter", "fp32", 16, 4, 1024);
  nccl_rows_release(&rows);
  cr_assert_eq(parse(&rows, "/logs/h100_2n16g_broadcast_a.txt",
                     "        1024           512     float    none       0    10.00    0.10    0.10      0    10.00    "
                     "0.10    0.10      0\n"),
               0);
  expect_row(&rows.v[0], "broadcast", "fp32", 16, 2, 1024); /* nothing but its name */
  nccl_rows_release(&rows);
}

/* Tables that people cut: columns gone, thousands separators, one half; Markdown of a PyTorch benchmark. */
Test(import_nccl, shortened_tables) {
  struct nccl_rows rows;
  cr_assert_eq(parse(&rows, "x.txt",
                     "$ ./build/all_reduce_perf -b 32k -e 16G -f 2 -g 8 -n 50\n[...]\n"
                     "           size    time   algbw   busbw\n            (B)    (us)  (GB/s)  (GB/s)\n"
                     "  2_147_483_648   16240  132.23  231.41\n"),
               0);
  cr_assert_eq(rows.n, 1);
  expect_row(&rows.v[0], "all_reduce", "fp32", 8, 1, INT64_C(2147483648));
  nccl_rows_release(&rows);
  cr_assert_eq(parse(&rows, "all_reduce_4n.txt",
                     "| payload |    busbw   |    algbw   |\n| ------: | ---------: | ---------: |\n"
                     "|   32KiB |   0.92GBps |   0.48GBps |\n|    1GiB |  94.15GBps |  48.59GBps |\n"),
               0);
  cr_expect_str_eq(warned, "");
  cr_assert_eq(rows.n, 2);
  expect_row(&rows.v[1], "all_reduce", "unknown", 32, 4, INT64_C(1) << 30);
  cr_expect_float_eq(rows.v[1].time_s, 1073741824 / 48.59e9, 1e-12);
  nccl_rows_release(&rows);
}

/* Rows of nccl-tests before 2.13 have no root; what NCCL says may stand before a row on its line; colours may end one.
 */
Test(import_nccl, older_and_interleaved) {
  struct nccl_rows rows;
  cr_assert_eq(
      parse(&rows, "h100_1n8g_all_reduce.txt",
            "   134217728      33554432     float     sum    613.3  218.85  382.99  0e+00    614.3  218.48  "
            "382.34  0e+00\n"
            "node0:100:101 [0] NCCL INFO comm 0x55 rank 0 nranks 8 " ROW_8
            "node0:100:101 [0] NCCL WARN Call to connect failed 134217728 33554432 float\n"
            "\x1b[1m   134217728      33554432     float     sum      -1    613.3  218.85  382.99      0    "
            "614.3  218.48  382.34      0\x1b[0m\n"
            "   134217728      33554432     float     sum      -1    613.3  218.85  382.99    N/A      N/A     "
            "N/A     N/A    N/A\n"),
      0, "%s", error.msg);
  cr_expect_eq(rows.n, 7, "%zu rows: %s", rows.n, warned);
  for (size_t i = 0; i < rows.n; i++)
    cr_expect_eq(rows.v[i].time_s, rows.v[i].in_place ? 614.3e-6 : 613.3e-6);
  cr_expect(rows.n == 7 && rows.v[6].line == 5);
  nccl_rows_release(&rows);
}

Test(import_nccl, several_runs) {
  struct nccl_rows rows;
  cr_assert_eq(parse(&rows, "x.txt",
                     "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 8 minBytes\n" TABLE ROW_8 FOOT
                     "# Collective test starting: all_gather_perf\n# nThread 1 nGpus 2 minBytes\n" TABLE
                     "     1048576        131072      half    none      -1    20.00   52.43   26.21      0    20.00   "
                     "52.43   26.21      0\n" FOOT),
               0);
  cr_assert_eq(rows.n, 4);
  expect_row(&rows.v[0], "all_reduce", "fp32", 8, 1, 134217728);
  expect_row(&rows.v[3], "all_gather", "fp16", 2, 1, 1048576);
  nccl_rows_release(&rows);
}

Test(import_nccl, damaged_lines) {
  struct nccl_rows rows;
  cr_assert_eq(
      parse(&rows, "h100_1n8g_all_reduce.txt",
            TABLE ROW_8
            "           0             0     float     sum      -1    15.51    0.00    0.00      0    15.52    0.00    "
            "0.00 "
            "     0\n"
            "...\n"
            "   268435456      67108864     float     sum      -1   1139.2  235.63  412.35      0   1134.8  23\n"
            "   536870912     134217728     float     sum      -1   2175.8  246.75  431.81      0   218.4  246.11  "
            "430.69 "
            "     0\n"
            "  1073741824     268435456     float     sum      -1   4038.8  265.85  465.25      7   4043.6  265.54  "
            "464.70 "
            "     0 node0: NCCL WARN\n"
            "  21474836\n"
            "node0:1000:1001 [0] NCCL INFO comm destroyed\n"),
      0);
  cr_assert_eq(rows.n, 5); /* both halves of the first row; one each of three damaged ones */
  cr_expect_eq(rows.v[2].bytes, 268435456);
  cr_expect(!rows.v[2].in_place && !rows.v[3].in_place && rows.v[4].in_place);
  const char *const expected =
      "log 'h100_1n8g_all_reduce.txt' line 6: not a row of the table\n"
      "log 'h100_1n8g_all_reduce.txt' line 7: in-place half left out: the line is cut\n"
      "log 'h100_1n8g_all_reduce.txt' line 8: in-place half left out: time and algbw disagree\n"
      "log 'h100_1n8g_all_reduce.txt' line 9: there is more on the line than the columns of the table\n"
      "log 'h100_1n8g_all_reduce.txt' line 9: out-of-place half left out: it reports wrong results\n"
      "log 'h100_1n8g_all_reduce.txt' line 10: not a row of the table\n"
      "log 'h100_1n8g_all_reduce.txt' line 11: the log ends inside its table: it may be cut\n"
      "log 'h100_1n8g_all_reduce.txt': 1 row of 0 bytes left out\n";
  cr_expect_str_eq(warned, expected, "%s", warned);
  nccl_rows_release(&rows);
}

/* A table header with a damaged word is none: its columns would be taken for others. */
Test(import_nccl, damaged_header) {
  struct nccl_rows rows;
  cr_assert_eq(parse(&rows, "h100_1n8g_all_reduce.txt",
                     "# size count type redop root \"time algbw busbw #wrong time algbw busbw #wrong\n" ROW_8),
               0);
  cr_assert_eq(rows.n, 2);
  cr_expect_eq(rows.v[0].time_s, 613.3e-6);
  cr_expect_eq(rows.v[1].time_s, 614.3e-6);
  nccl_rows_release(&rows);
}

Test(import_nccl, contradictions) {
  struct nccl_rows rows;
  cr_assert_eq(parse(&rows, "all_reduce.txt",
                     "#  Rank  0 Group  0 Pid   1000 on    a device  0 [0x18] X\n"
                     "#  Rank  5 Group  0 Pid   1000 on    a device  5 [0x18] X\n"
                     "#  Rank  x\n" TABLE ROW_8 FOOT),
               0);
  cr_expect_str_eq(warned,
                   "log 'all_reduce.txt' line 3: a line of the device list could not be read\n"
                   "log 'all_reduce.txt' line 7: the device list above names 2 of 6 ranks\n"
                   "log 'all_reduce.txt' line 7: busbw / algbw of all_reduce is that of 8 ranks, not of 6\n",
                   "%s", warned);
  expect_row(&rows.v[0], "all_reduce", "fp32", 6, 1, 134217728);
  nccl_rows_release(&rows);
}

Test(import_nccl, options_override) {
  struct nccl_rows rows = {.v = NULL};
  struct nccl_options options = {.op = import_nccl_op("alltoall"), .ranks = 4, .nodes = 2, .warnings = &sink};
  warned[0] = '\0';
  cr_assert_eq(import_nccl_parse(&rows, "h100_1n8g_all_reduce.txt", ROW_8, &options, &error), 0);
  expect_row(&rows.v[0], "all_to_all", "fp32", 4, 2, 134217728);
  cr_assert_eq(import_nccl_parse(&rows, "b.txt", ROW_8, &options, &error), 0);
  cr_expect_eq(rows.n, 4, "logs are appended");
  nccl_rows_release(&rows);
  cr_expect_str_eq(import_nccl_op("reduce_scatter_perf"), "reduce_scatter");
  cr_expect_null(import_nccl_op("reduce_"));
}

Test(import_nccl, refusals) {
  static const struct {
    const char *name, *text, *message;
  } cases[] = {
      {"a.txt", "", "log 'a.txt': no row of a nccl-tests table found"},
      {"a.txt", "hello\n# world\n" TABLE FOOT, "log 'a.txt': no row of a nccl-tests table found"},
      {"a.txt", ROW_8,
       "log 'a.txt' line 1: which collective is this? --op NAME says it (all_reduce, all_gather, reduce_scatter, "
       "all_to_all, send_recv, broadcast, scatter, gather, reduce)"},
      {"reduce.txt", ROW_8, "log 'reduce.txt' line 1: of how many ranks is this? --ranks N says it"},
      {"all_reduce.txt", ROW_8, "log 'all_reduce.txt' line 1: of how many nodes is this? --nodes N says it"},
      {"all_reduce_16n.txt", ROW_8,
       "log 'all_reduce_16n.txt' line 1: 8 ranks cannot span 16 nodes; --ranks and --nodes override the log"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct nccl_rows rows;
    cr_assert_eq(parse(&rows, cases[i].name, cases[i].text), -1);
    cr_expect_str_eq(error.msg, cases[i].message, "%s", error.msg);
    cr_expect_eq(rows.n, 0);
    nccl_rows_release(&rows);
  }
}

Test(import_nccl, csv) {
  struct nccl_rows rows;
  char *text;
  size_t n;
  cr_assert_eq(parse(&rows, "h100_1n8g_all_reduce.txt", ROW_8), 0);
  FILE *out = open_memstream(&text, &n);
  import_nccl_write(out, &rows);
  fclose(out);
  cr_expect_str_eq(text,
                   "op,dtype,ranks,nodes,bytes,time_s,busbw_bytes_per_s,in_place\n"
                   "all_reduce,fp32,8,1,134217728,0.0006133,382990000000,0\n"
                   "all_reduce,fp32,8,1,134217728,0.0006143,382340000000,1\n",
                   "%s", text);
  free(text);
  nccl_rows_release(&rows);
}

/* Every prefix of a log, and every log with one byte changed: no crash, and never a row of a time that is not its own.
 */
Test(import_nccl, broken_everywhere) {
  static const char whole[] = "#  Rank  0 Group  0 Pid   1000 on    a device  0 [0x18] X\n" TABLE ROW_8 ROW_8 FOOT;
  static const char bytes[] = {'#', '\n', ' ', '9', '.', ':', '|', '-', '\xff', '\t', '@', 'N'};
  for (size_t i = 0; i < sizeof whole; i++)
    for (size_t b = 0; b <= sizeof bytes; b++) {
      char text[sizeof whole];
      struct nccl_rows rows;
      memcpy(text, whole, sizeof whole);
      text[i] = b < sizeof bytes && i + 1 < sizeof whole ? bytes[b] : '\0';
      if (parse(&rows, "all_reduce_1n8g.txt", text) == 0)
        for (size_t k = 0; k < rows.n; k++)
          cr_assert(rows.v[k].time_s > 0 && rows.v[k].bytes > 0 && rows.v[k].op && rows.v[k].ranks > 0);
      nccl_rows_release(&rows);
    }
}
