/* measured_op.h: which operator of kernels/ a row's operation is, and its arrays: what calibration measures and checks.
 */
#ifndef CALIB_MEASURED_OP_H
#define CALIB_MEASURED_OP_H
#include <stdint.h>

#include "calib/rows.h"
#include "kernels/device.h"

enum array_kind {
  ARRAY_IN,       /* elements, read */
  ARRAY_OUT,      /* elements, overwritten */
  ARRAY_ADD,      /* elements, read and written */
  ARRAY_IN_FP32,  /* fp32, read; above 0 */
  ARRAY_OUT_FP32, /* fp32, overwritten */
  ARRAY_ADD_FP32, /* fp32, read and written; above 0 */
  ARRAY_SCRATCH,  /* fp32, overwritten, of no interest */
  ARRAY_INT32,    /* read: measured_op.integers */
};

struct array {
  enum array_kind kind;
  int64_t n;
};
#define MEASURED_ARRAYS_MAX 12

struct measured_op {
  enum row_op op;
  enum operator_kind kind;
  int (*arrays)(const int64_t *shape, struct array *out); /* their number */
  /* The call on arrays p[], element or double ones. */
  void (*bind)(const int64_t *shape, void *const *p, struct operator_call *call);
  void (*integers)(const int64_t *shape, int32_t *out); /* contents of its ARRAY_INT32, if it has one */
  /* A small shape of the same kernel (mask, head dim, group of heads), for a check. */
  void (*small)(const int64_t *shape, int64_t *out);
  /* The forward that makes what a backward reads: its ARRAY_OUT and ARRAY_OUT_FP32 arrays in `made`, a bit each; 0: no
   * forward is needed. */
  enum operator_kind before;
  unsigned made;
};

/* NULL for operations that no operator of a device computes (collectives). */
const struct measured_op *measured_op_find(enum row_op op);

/* Bytes of all arrays of a shape on a device with elements of `element_bytes` (shapes are of plans: no overflow).
 */
int64_t measured_op_bytes(const struct measured_op *op, const int64_t *shape, int64_t element_bytes);
int64_t array_value_bytes(enum array_kind kind, int64_t element_bytes);

#endif
