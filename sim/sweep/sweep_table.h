/* sweep_table.h: the table that a sweep writes: CSV, a row per point and policy, appended as points finish, in any
 * order.
 *
 * Columns: point, spec (hash of the spec), swept_FIELD per swept field, the columns of `simulate --csv` but plan_time_s
 * (two runs of a sweep are alike), error. A failed point has one row with an empty policy and its error. No cell holds
 * a line break, so a row is a line, and all rows of a point are written at once: what a killed sweep leaves is whole
 * points and at most one torn one at the end, which is cut off when the sweep goes on. */
#ifndef SIM_SWEEP_SWEEP_TABLE_H
#define SIM_SWEEP_SWEEP_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/experiment/experiment.h"
#include "sim/sweep/sweep_spec.h"

/* Text; the caller frees it. */
char *sweep_table_header(const struct sweep_spec *s);
/* The rows of one point: its results, or with n_results 0 its error. */
char *sweep_table_rows(const struct sweep_spec *s, int64_t point, const struct policy_result *results, int n_results,
                       const char *error);

struct sweep_table {
  char *path;
  int fd;
  bool resumable; /* a regular file: anything else is only written to */
  int64_t size;
  uint8_t *done; /* per point */
  int64_t n_done, n_failed;
  bool torn; /* a torn point was cut off */
};

/* Opens and locks the file, reads what is done already, cuts off a torn end, writes the header into an empty one. "-":
 * stdout. A table of another spec is an error, and is left as it is. On failure nothing is left open. */
int sweep_table_open(struct sweep_table *t, const char *path, const struct sweep_spec *s, struct err *err);
/* Appends rows whole; after a failed write (disk full) what it left of them is cut off. */
int sweep_table_append(struct sweep_table *t, const char *rows, struct err *err);
/* Syncs. */
int sweep_table_close(struct sweep_table *t, struct err *err);
void sweep_table_release(struct sweep_table *t);

#endif
