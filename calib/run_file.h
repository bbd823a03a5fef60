/* run_file.h: a CSV of measured rows that grows while calibration runs: one line per row, written whole and at once, so
 * that a kill loses at most the row in flight. Opened again it is continued: a last line without its end is cut off. */
#ifndef CALIB_RUN_FILE_H
#define CALIB_RUN_FILE_H
#include "calib/machine.h"
#include "calib/repeats.h"
#include "calib/rows.h"

#define RUN_SOURCE "dcpsim calibrate run" /* column `source` begins with this */

struct run_file {
  char *path;
  int fd; /* locked while open */
  enum row_class class;
  struct rows had; /* the rows found; table.n_rows may be 0 */
};

struct run_row {
  enum row_op op;
  const char *dtype;
  const int64_t *shape;
  struct repeats_summary summary;
  const struct machine *machine;
  int64_t ranks_per_node; /* as --ranks-per-node says, which `source` then tells; 0: nodes are hosts */
  const char *check;      /* "exact", or the error of the check */
};

/* Opens or makes DIR/CLASS.csv. *repaired (may be NULL): whether a torn line was cut off. A file with other columns,
 * rows that cannot be read, and a file that another run has open are errors. */
int run_file_open(struct run_file *f, const char *dir, enum row_class class, bool *repaired, struct err *err);
void run_file_close(struct run_file *f); /* harmless on a zeroed struct with fd -1 */

/* Whether the file had the row when it was opened: same operation, data type, shape and device. */
bool run_file_has(const struct run_file *f, enum row_op op, const char *dtype, const int64_t *shape,
                  const char *device);
/* Rows of one device in a file must be of one library: those of another are an error that names the line. */
int run_file_agrees(const struct run_file *f, const struct machine *machine, struct err *err);
int run_file_append(struct run_file *f, const struct run_row *row, struct err *err);

/* How sure a row's median is, from its confidence_frac: 1, falling to a half where that is a tenth; 1 without one. */
double run_file_weight(const struct rows *rows, size_t i);

/* Whether all rows of a file are of calibrate run. */
bool run_file_made(const struct rows *rows);

#endif
