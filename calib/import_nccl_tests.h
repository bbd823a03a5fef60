/* import_nccl_tests.h: reads logs of nccl-tests, as people keep them, into measured rows of collectives.
 *
 * What a log measured is found, in this order:
 *   op     --op; "# @op: NAME"; "# Collective test starting: NAME_perf"; the command line (NAME_perf); the file's name
 *   ranks  --ranks; the device list ("#  Rank  0 Group ..."); "# @ranks: N"; busbw / algbw, which only the number of
 *          ranks makes; the command line and "# nThread T nGpus G" (processes x T x G); "2n16g" in the file's name
 *   nodes  --nodes; host names in the device list; "# @nodes: N"; one process (it has one node); "# @conditions: 2
 *          nodes ..." or "single ..."; "2n16g" or "4n" in the file's name
 *   type   its column; else -d of the command line; else what nccl-tests takes then (float); else "unknown"
 * A log may hold several runs one after the other. `bytes` is what nccl-tests prints as size; times and bus bandwidths
 * are as printed (of a table without times: bytes / algbw).
 *
 * Warned of, with line numbers: lines inside a table that are no row, halves of rows that are cut, contradict
 * themselves or report wrong results (left out); a device list with gaps; ranks that the bandwidths contradict. Rows of
 * 0 bytes are left out. A log without any row is an error. */
#ifndef CALIB_IMPORT_NCCL_TESTS_H
#define CALIB_IMPORT_NCCL_TESTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "calib/warning.h"
#include "sim/base/err.h"

struct nccl_row {
  const char *op, *dtype; /* static */
  int ranks, nodes;
  int64_t bytes;
  double time_s, busbw_bytes_per_s, algbw_bytes_per_s; /* bandwidths -1 where the log has none */
  bool in_place;
  int64_t line;
};

struct nccl_rows {
  struct nccl_row *v;
  size_t n, cap;
};

struct nccl_options {
  const char *op;   /* one of import_nccl_ops, or NULL: from the log */
  int ranks, nodes; /* 0: from the log */
  const struct warning_sink *warnings;
};

/* Appends the rows of one log ("-" is stdin). On failure `rows` keeps what it had. */
int import_nccl_read(struct nccl_rows *rows, const char *path, const struct nccl_options *options, struct err *err);
/* The same from text in memory; `name` is its file name, for messages and as a last resort. */
int import_nccl_parse(struct nccl_rows *rows, const char *name, const char *text, const struct nccl_options *options,
                      struct err *err);
void nccl_rows_release(struct nccl_rows *rows);

/* op,dtype,ranks,nodes,bytes,time_s,busbw_bytes_per_s,in_place */
void import_nccl_write(FILE *out, const struct nccl_rows *rows);

/* The operation of this name or of a nccl-tests program ("alltoall", "all_to_all", "alltoall_perf"), or NULL. */
const char *import_nccl_op(const char *name);
/* "a, b, c". */
void import_nccl_list_ops(char *buf, size_t size);

#endif
