/* leave_out.h: what a fit says of rows it has not seen: refits once per value of a column and scores the rows left out.
 *
 * Columns: gemm m, n, k; attention seqlen, batch, heads; collectives bytes (scored on one node). A value is interior if
 * rows of the same operation and mask have smaller and larger ones. Apart, the two largest values of each are left out
 * together: extrapolation. Rows of training kernels (those that name a library or device) and of other operations take
 * part in every fit and are not scored. */
#ifndef CALIB_LEAVE_OUT_H
#define CALIB_LEAVE_OUT_H
#include "calib/fit_params.h"

struct leave_out_group {
  const char *op;      /* "gemm", "attention_forward causal", "attention_forward full", "collectives on one node" */
  bool largest;        /* of the two largest values, else interior */
  size_t rows, values; /* values: left out one at a time (2 at once if largest) */
  double median, p90, max, mean;
};

#define LEAVE_OUT_GROUPS_MAX 4

struct leave_out {
  size_t refits, n_groups;
  struct leave_out_group groups[LEAVE_OUT_GROUPS_MAX];
  double
      *predicted_s; /* by row of all own files in turn: of the refit that left it out for an interior value, else 0 */
};

struct leave_out_options {
  const char *column;
  int threads;
  void (*progress)(void *to, size_t done, size_t total); /* NULL: none; from the calling thread */
  void *to;
};

/* `source` must not skip rows of its own. A column that is not one of those above is a usage error. leave_out_release.
 */
int leave_out_run(struct leave_out *out, const struct fit_source *source, const struct json_doc *constants,
                  const struct leave_out_options *options, struct err *err);
void leave_out_release(struct leave_out *out);

#endif
