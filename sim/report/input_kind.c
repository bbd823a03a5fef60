#include "sim/report/input_kind.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int input_kind_read(enum input_kind *kind, const char *path, struct err *err) {
  static const char table[] = "point,spec,";
  char head[64] = "";
  FILE *file = fopen(path, "r");
  if (!file)
    return err_set(err, "cannot open '%s': %s", path, strerror(errno));
  size_t n = fread(head, 1, sizeof head - 1, file);
  int failed = ferror(file) ? errno : 0;
  fclose(file);
  if (failed)
    return err_set(err, "cannot read '%s': %s", path, strerror(failed));
  const char *first = head + strspn(head, " \t\r\n");
  if (n == 0 || *first == '\0')
    return err_set(err, "'%s' is empty: expected a result of simulate --result or the table of a sweep", path);
  if (*first != '{' && strncmp(head, table, sizeof table - 1) != 0)
    return err_set(err, "'%s' is neither a result of simulate --result nor the table of a sweep", path);
  *kind = *first == '{' ? INPUT_RESULT : INPUT_SWEEP;
  return 0;
}
