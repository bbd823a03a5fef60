/* worst.h: the rows that a prediction is furthest from, by operation. */
#ifndef CALIB_WORST_H
#define CALIB_WORST_H
#include <stdio.h>

#include "calib/rows.h"
#include "sim/base/json.h"

struct worst_row {
  const struct rows *rows; /* row `i` of these */
  size_t i;
  double predicted_s, rel_error; /* predicted / measured - 1 */
};

struct worst {
  struct worst_row *v;
  size_t n, cap;
};

/* `rows` must stay. worst_release. */
void worst_add(struct worst *w, const struct rows *rows, size_t i, double predicted_s);
/* Sorts by operation (order of enum row_op), then the largest absolute error first, equal ones as they were added, and
 * keeps `most` of each operation. */
void worst_keep(struct worst *w, size_t most);
void worst_release(struct worst *w);

/* One line a row: operation, measured, predicted, error, shape. */
void worst_table(FILE *out, const struct worst *w);
/* Key "worst": array of {"op","file","line","dtype","shape":{column: value},"time_s","predicted_time_s","rel_error"}.
 */
void worst_json(struct json_writer *out, const struct worst *w);

#endif
