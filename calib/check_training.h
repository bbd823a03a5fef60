/* check_training.h: predicted against published training runs: step time and peak memory, by source.
 *
 * A case (training_case.h) is lowered and played as everything else is: lower_micro_batch, engine_step. All its data
 * parallel groups are alike, so one group is played; ranks without a group join collectives without delay, which is the
 * same step. */
#ifndef CALIB_CHECK_TRAINING_H
#define CALIB_CHECK_TRAINING_H
#include <stdio.h>

#include "calib/training_case.h"

/* What one kind of operation of a step takes on a rank, by name: all micro-batches, alone, without overlap. */
struct training_op {
  const char *name;
  double seconds;
};

struct training_prediction {
  double step_s; /* 0 where the case has no time; infinite where it takes longer than engine_step allows */
  int64_t peak_bytes;
  int recomputed;                                                              /* blocks */
  double work_s, recompute_s, exchange_s, sync_s, optimizer_s, host_s, idle_s; /* of a rank; their sum is step_s */
};

/* `scalars`: NULL, or used instead of the parameter file's. */
void training_predict(const struct training_case *c, const struct params *params, const struct in_step_scalars *scalars,
                      struct training_prediction *out);

/* Seconds of a step by operation, longest first; *n of them; the caller frees the array. */
struct training_op *training_ops(const struct training_case *c, const struct params *params, size_t *n);

/* Parameter files by GPU: "h200_sxm", "h100_sxm". */
struct training_params {
  struct params *h100, *h200;
};
/* The shipped files; one of them replaced by `file` (of that GPU) unless it is NULL. */
int training_params_load(struct training_params *p, const char *file, struct err *err);
void training_params_release(struct training_params *p);
const struct params *training_params_of(const struct training_params *p, const struct training_case *c);

struct training_check_row {
  struct training_case c;
  struct training_prediction p;
  const struct table *table;
  size_t index; /* row of the table */
};

/* Relative errors are predicted / measured - 1. */
struct training_group {
  const char *source;
  size_t rows, left_out;               /* predicted, and not */
  double median, p90, max, mean, bias; /* of the absolute errors; bias: mean with its sign */
  /* Kendall's tau of predicted and measured tokens/s/GPU over pairs whose measured values differ by more than 2 %
   * (runs repeat no better); pairs: their number. */
  double tau;
  size_t pairs;
};

struct training_check {
  struct training_check_row *rows;
  size_t n_rows, cap_rows, predicted, memory_rows;
  struct training_group *groups; /* by source, in the order of the files */
  size_t n_groups, cap_groups;
  double mean; /* absolute error over all predicted rows */
  const struct training_params *params;
};

/* Tables and parameters must outlive the check. Release after failure, too. */
int training_check_run(struct training_check *out, const struct table *tables, size_t n_tables,
                       const struct training_params *params, struct err *err);
void training_check_release(struct training_check *check);

/* One line per row: id, source, what it is used for, model, configuration, measured, predicted, error, parts of the
 * step, why not. */
void training_check_write_csv(FILE *out, const struct training_check *check);
/* dcpsim.check_training/1. */
void training_check_write_json(FILE *out, const struct training_check *check);
void training_check_write_table(FILE *out, const struct training_check *check);

/* "mosaicml/llm-foundry H100 80GB BF16": what a source string is about, for tables; without commas. */
void training_source_label(const char *source, char *buf, size_t size);

#endif
