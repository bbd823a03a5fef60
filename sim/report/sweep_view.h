/* sweep_view.h: what plots need of the table of a sweep (docs/FORMATS.md): swept fields, policies and a few
 * numbers a row. */
#ifndef SIM_REPORT_SWEEP_VIEW_H
#define SIM_REPORT_SWEEP_VIEW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/base/err.h"

#define SWEEP_VIEW_FIELDS 32
#define SWEEP_VIEW_POLICIES 16

/* A swept field and its different values: in ascending order where all are numbers, else as they appear by point. */
struct swept_field {
  char *name;
  char **values;
  double *numbers; /* of the values; NULL: not all are numbers */
  size_t n, cap;
};

struct sweep_row {
  int64_t point;
  size_t line; /* of the rows in the file */
  int policy;
  int value[SWEEP_VIEW_FIELDS]; /* index into the field's values */
  double speedup, tokens_per_s;
  double imbalance_frac; /* -1: the table has no such column */
  int64_t gpus;          /* tokens/s over tokens/s per GPU; 0: the table does not tell */
};

struct sweep_view {
  struct swept_field fields[SWEEP_VIEW_FIELDS];
  int n_fields;
  char *policies[SWEEP_VIEW_POLICIES]; /* as they appear by point */
  int n_policies;
  struct sweep_row *rows; /* by point; failed points and runs without a step are left out */
  size_t n_rows, cap;
  int64_t failed;
};

int sweep_view_read(struct sweep_view *v, const char *path, struct err *err);
void sweep_view_release(struct sweep_view *v);

/* The fields with most values, most first: which[0], which[1]; -1 where there is no other with two values or more. */
void sweep_view_axes(const struct sweep_view *v, int which[2]);

#endif
