#include "calib/worst.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "sim/base/units.h"

static const struct row *row_of(const struct worst_row *w) { return &w->rows->v[w->i]; }

void worst_add(struct worst *w, const struct rows *rows, size_t i, double predicted_s) {
  struct worst_row row = {rows, i, predicted_s, predicted_s / rows->v[i].time_s - 1};
  VEC_PUSH(w->v, w->n, w->cap, row);
}

static int compare_rows(const void *a, const void *b) {
  const struct worst_row *x = a, *y = b;
  const double x_error = fabs(x->rel_error), y_error = fabs(y->rel_error);
  if (row_of(x)->op != row_of(y)->op)
    return row_of(x)->op < row_of(y)->op ? -1 : 1;
  if (x_error != y_error)
    return x_error > y_error ? -1 : 1;
  if (x->rows != y->rows) /* in one array, in the order of the files */
    return x->rows < y->rows ? -1 : 1;
  return (x->i > y->i) - (x->i < y->i);
}

void worst_keep(struct worst *w, size_t most) {
  size_t kept = 0, of_op = 0;
  if (w->n > 0)
    qsort(w->v, w->n, sizeof *w->v, compare_rows);
  for (size_t i = 0; i < w->n; i++) {
    if (i > 0 && row_of(&w->v[i])->op != row_of(&w->v[kept - 1])->op)
      of_op = 0;
    if (of_op++ < most)
      w->v[kept++] = w->v[i];
  }
  w->n = kept;
}

void worst_release(struct worst *w) {
  free(w->v);
  *w = (struct worst){0};
}

void worst_table(FILE *out, const struct worst *w) {
  fprintf(out, "\nfurthest off: measured and predicted in us, error in %%\n%-27s %12s %12s %8s  shape\n", "operation",
          "measured", "predicted", "error");
  for (size_t i = 0; i < w->n; i++) {
    const struct worst_row *worst = &w->v[i];
    const struct row *row = row_of(worst);
    const char *const *columns = row_shape_columns(row_op_class(row->op));
    fprintf(out, "%-27s %12.3f %12.3f %+8.2f ", row_op_name(row->op), 1e6 * row->time_s, 1e6 * worst->predicted_s,
            100 * worst->rel_error);
    for (int c = 0; columns[c]; c++)
      if (!row_shape_is_optional(row_op_class(row->op), c) || row->shape[c] != 1)
        fprintf(out, " %s %" PRId64, columns[c], row->shape[c]);
    fprintf(out, " %s\n", row->dtype);
  }
}

void worst_json(struct json_writer *out, const struct worst *w) {
  json_key(out, "worst");
  json_begin_array(out);
  for (size_t i = 0; i < w->n; i++) {
    const struct worst_row *worst = &w->v[i];
    const struct row *row = row_of(worst);
    const char *const *columns = row_shape_columns(row_op_class(row->op));
    json_begin_object(out);
    json_key_str(out, "op", row_op_name(row->op));
    json_key_str(out, "file", worst->rows->table.path);
    json_key_int(out, "line", worst->rows->table.lines[worst->i]);
    json_key_str(out, "dtype", row->dtype);
    json_key(out, "shape");
    json_begin_object(out);
    for (int c = 0; columns[c]; c++)
      json_key_int(out, columns[c], row->shape[c]);
    json_end_object(out);
    json_key_double(out, "time_s", row->time_s);
    json_key_double(out, "predicted_time_s", worst->predicted_s);
    json_key_double(out, "rel_error", worst->rel_error);
    json_end_object(out);
  }
  json_end_array(out);
}
