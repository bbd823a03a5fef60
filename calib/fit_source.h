/* fit_source.h: the measured rows that parameters are fitted to, and which of them take part. */
#ifndef CALIB_FIT_SOURCE_H
#define CALIB_FIT_SOURCE_H
#include <stdbool.h>

#include "calib/rows.h"
#include "sim/base/json.h"

/* Rows to fit on. `skip[f][i]` leaves row i of file f out; `skip` or `skip[f]` may be NULL. */
struct fit_rows {
  const struct rows *files;
  size_t n_files;
  const bool *const *skip;
};

struct fit_source {
  const char *device; /* "h200_sxm": the name of the parameter file; rows whose column used_for lacks it are ignored */
  struct fit_rows own;
  /* Rows of a device with the same compute units and ports and another memory (H100 for H200): gemm rows, as ratios to
   * their own device's formula, show which kernel is picked for shapes that `own` lacks; rows of collectives how a
   * curve bends at sizes that `own` lacks. */
  struct fit_rows sibling;
  /* A parameter file (root object) that gives what has no rows: whole sections, attention masks, backward over forward.
   * NULL: rows of every operation are needed. */
  const json_t *defaults;
  /* Set by fit_source_describe. */
  bool measured;     /* rows of calibrate run: sections of fit_measured.c, which knows no kernels */
  int element_bytes; /* 4: rows of fp32 (a CPU); else 2 */
};

/* Finds out whether the own rows are of calibrate run. Error: only some are, or their data types differ. */
int fit_source_describe(struct fit_source *source, struct err *err);

/* Rows that test a rule of the models, how groups share the network and what uneven exchanges cost, or have no model.
 */
bool fit_is_test(enum row_op op, bool at_once);

/* Whether row i of file f takes part: not skipped, meant for the device, and no test. */
bool fit_uses(const struct fit_source *source, const struct fit_rows *rows, size_t f, size_t i);

#endif
