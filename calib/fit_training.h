/* fit_training.h: the in-step scalars of a framework class, compute_derate and host_op_s, from published H100 runs.
 *
 * Rows: training_case.for_fit (H100 of the measured kind, bf16, time predicted). Per class, minimised over both
 * scalars: the sum over repositories of the mean over its rows of Huber's loss (0.10) of log(predicted / measured), so
 * that a repository counts once, however many rows it has, and outliers count linearly. The step is played at a grid of
 * derates (1 to 1.5) and host times (1 to 30 us) and interpolated between derates, in which it is all but linear.
 * host_op_s stays as the parameter file has it unless another value lowers the loss by more than 1 %: steps that never
 * wait for the host say nothing about it but an upper bound, which is reported.
 *
 * Leave one out: the same without one repository (a class of one repository: without one table of it), and the error on
 * the rows left out. */
#ifndef CALIB_FIT_TRAINING_H
#define CALIB_FIT_TRAINING_H
#include <stdio.h>

#include "calib/check_training.h"

#define FIT_SOURCES_MAX 16

struct training_fit_source {
  char name[160]; /* repository or, in a class of one repository, table */
  size_t rows;
  struct in_step_scalars without; /* fitted on the others */
  double mean_with, mean_without; /* absolute error of its rows under the common fit, and under `without` */
};

struct training_fit {
  const char *framework; /* "fused", "eager" */
  size_t rows;           /* 0: nothing to fit on, scalars are the file's */
  struct in_step_scalars before, scalars;
  double mean_before, mean_after; /* absolute relative error of its rows */
  double host_op_max_s;           /* the largest of the grid that raises the loss by no more than 1 % */
  bool host_op_determined;
  int n_sources;
  struct training_fit_source sources[FIT_SOURCES_MAX];
};

/* `params`: the H100 file. */
void training_fit_run(struct training_fit *out, const char *framework, const struct training_check *check,
                      const struct params *params);

void training_fit_write_table(FILE *out, const struct training_fit *fits, int n);
void training_fit_write_json(FILE *out, const struct training_fit *fits, int n);

/* Replaces the "in_step" object of a parameter file by the fitted scalars ("eager_apex" gets those of "eager") with
 * their source: rows, their file's SHA-256, errors. Everything else stays byte for byte. */
int training_fit_update_file(const char *path, const struct training_fit *fits, int n, const char *rows_sha256,
                             struct err *err);

#endif
