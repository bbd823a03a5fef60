/* check.h: how far a parameter file's predictions are from measured rows.
 *
 * Each row is predicted by models/operation.h or models/collective.h, alone on its device, and compared with its
 * time_s: the absolute relative error is |predicted - measured| / measured. Median and p90 are the sorted value at
 * 0-based index floor((n-1)*p/100 + 0.5), as everywhere.
 * - attention_forward: rows with a `library` are kernels as training runs them; rows without are what the shipped
 * tables measured, which includes the write of keys and values into a paged cache (attention_forward_row_time_s).
 * - attention_forward_backward: the sum of both.
 * - attention_varlen_*: the pack of rows.h. gemm_wgrad: as a weight gradient.
 * - what memory bounds: one pass of the operation's class and values (row_memory_traffic), 2 bytes each.
 * - all_to_all_uneven: an all_to_all of what the busiest rank receives.
 * - collectives: on `cluster`, as many GPUs and nodes as the row says; data type does not matter, bytes do. Under
 *   parameters for 4-byte elements they are halved, as the models count 2 bytes an element. Several groups at once
 *   share the network as models/flow.h says: each rank has ports of its own, all share an oversubscribed core. They are
 *   scored apart.
 * Not predicted, and counted: gemm, attention and norms of a data type other than bf16 or fp16 (fp32 under
 * parameters for 4-byte elements); barrier, broadcast, reduce,
 * gather and scatter; ranks that do not fill their nodes evenly. */
#ifndef CALIB_CHECK_H
#define CALIB_CHECK_H
#include <stddef.h>

#include "calib/rows.h"
#include "calib/warning.h"
#include "models/hardware.h"
#include "models/operation.h"
#include "models/params.h"

struct row_predictor {
  const struct params *params;
  const struct cluster *cluster;
};

/* Seconds of row `i`, or 0 and *why_not: a static reason. */
double row_predict_s(const struct row_predictor *p, const struct rows *rows, size_t i, const char **why_not);

/* What one of its m x n outputs moves: values of 2 bytes, read and written. adamw: 15 (gradient, master, two moments in
 * fp32, the weight). */
struct memory_traffic {
  enum memory_class class;
  double values;
};
struct memory_traffic row_memory_traffic(enum row_op op);

struct check_group {
  enum row_op op;
  bool at_once;      /* rows of several groups at once */
  const char *value; /* of the --by column (into the rows), or NULL */
  size_t rows;
  double median, p90, max, mean;
};

struct check {
  size_t rows, rows_left_out;
  struct check_group *groups; /* by operation in the order of enum row_op, alone and at once, then by value: numbers by
                                size, else text */
  size_t n_groups;
};

struct check_options {
  const char *by; /* a column of every file to split the groups by, or NULL */
  const struct warning_sink *warnings;
};

/* Scores all rows of n_files. Warns of the rows left out, by reason. A file without column `by`, or no row that could
 * be predicted, is an error. The result refers to `files`; check_release. */
int check_run(struct check *out, const struct row_predictor *p, const struct rows *files, size_t n_files,
              const struct check_options *options, struct err *err);
void check_release(struct check *check);

/* One CSV line per row: file, line, op, dtype, all shape columns, `by` if any, time_s, predicted_time_s, rel_error
 * (predicted / measured - 1); the last two are empty for rows that were not predicted. */
void check_write_rows(FILE *out, const struct row_predictor *p, const struct rows *files, size_t n_files,
                      const char *by);

#endif
