/* Measured rows, other people's tables of kernel times, and tables of training runs: all CSV. */
#include <stdio.h>
#include <stdlib.h>

#include "calib/import_csv.h"
#include "calib/rows.h"
#include "calib/training_case.h"
#include "tests/fuzz/fuzz.h"

static void put_nothing(void *to, const char *line) {
  (void)to;
  (void)line;
}

static void import(const char *path, FILE *nowhere) {
  struct warning_sink warnings = {put_nothing, NULL};
  struct import_csv_options options = {.warnings = &warnings};
  struct import_csv_result result;
  struct err err = {0};
  int status = import_csv(path, nowhere, &options, &result, &err);
  ASSERT(err.set == (status < 0));
}

static void read_training(const char *path) {
  struct table t;
  struct training_case c;
  struct err err = {0};
  if (table_read(&t, "table", path, &err))
    return;
  for (size_t i = 0; i < t.n_rows; i++) {
    err = (struct err){0};
    int status = training_case_read(&c, &t, i, &err);
    ASSERT(err.set == (status < 0));
  }
  table_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static FILE *nowhere;
  struct rows rows;
  struct err err = {0};
  if (!nowhere)
    nowhere = fopen("/dev/null", "w");
  const char *path = fuzz_file(data, size);
  int status = rows_read(&rows, path, &err);
  fuzz_check(status, &err);
  if (status == 0)
    rows_release(&rows);
  import(path, nowhere);
  read_training(path);
  return 0;
}
