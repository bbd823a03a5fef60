/* Logs of nccl-tests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/import_nccl_tests.h"
#include "tests/fuzz/fuzz.h"

static void put_nothing(void *to, const char *line) {
  (void)to;
  (void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static FILE *nowhere;
  struct warning_sink warnings = {put_nothing, NULL};
  struct nccl_rows rows = {0};
  struct nccl_options options = {.warnings = &warnings};
  struct err err = {0};
  if (!nowhere)
    nowhere = fopen("/dev/null", "w");
  int status = import_nccl_read(&rows, fuzz_file(data, size), &options, &err);
  fuzz_check(status, &err);
  for (size_t i = 0; i < rows.n; i++)
    ASSERT(rows.v[i].ranks > 0 && rows.v[i].nodes > 0 && rows.v[i].bytes > 0 && rows.v[i].time_s > 0);
  import_nccl_write(nowhere, &rows);
  nccl_rows_release(&rows);
  return 0;
}
