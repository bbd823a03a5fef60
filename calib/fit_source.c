#include "calib/fit_source.h"

#include <string.h>

#include "calib/run_file.h"

int fit_source_describe(struct fit_source *s, struct err *err) {
  size_t made = 0;
  const char *dtype = NULL;
  for (size_t f = 0; f < s->own.n_files; f++)
    made += run_file_made(&s->own.files[f]);
  s->element_bytes = 2;
  s->measured = made > 0;
  if (made == 0)
    return 0;
  for (size_t f = 0; f < s->own.n_files; f++) {
    const struct rows *rows = &s->own.files[f];
    if (!run_file_made(rows))
      return err_set(err, "rows '%s' are not of calibrate run, others are: fit them apart", rows->table.path);
    for (size_t i = 0; i < rows->table.n_rows; i++) {
      if (dtype && strcmp(dtype, rows->v[i].dtype) != 0)
        return table_error(&rows->table, i, err, "%s beside %s: rows of calibrate run are of one device",
                           rows->v[i].dtype, dtype);
      dtype = rows->v[i].dtype;
    }
  }
  s->element_bytes = strcmp(dtype, "fp32") == 0 ? 4 : 2;
  return 0;
}

bool fit_is_test(enum row_op op, bool at_once) {
  return at_once || op == ROW_OP_ALL_TO_ALL_UNEVEN || op == ROW_OP_BARRIER;
}

bool fit_uses(const struct fit_source *source, const struct fit_rows *rows, size_t f, size_t i) {
  const struct rows *file = &rows->files[f];
  const int column = table_column(&file->table, "used_for");
  const char *dtype = file->v[i].dtype;
  const bool collective = row_op_class(file->v[i].op) == ROW_COLLECTIVE;
  if ((rows->skip && rows->skip[f] && rows->skip[f][i]) || fit_is_test(file->v[i].op, row_is_at_once(&file->v[i])))
    return false;
  const bool is_element = source->element_bytes == 4 ? strcmp(dtype, "fp32") == 0
                                                     : strcmp(dtype, "bf16") == 0 || strcmp(dtype, "fp16") == 0;
  if (!collective && !is_element)
    return false;
  return column < 0 || strstr(table_field(&file->table, i, column), source->device);
}
