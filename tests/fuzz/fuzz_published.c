/* Published values beside a result, and rows of `calibrate check --csv`: the CSV files that plots take. */
#include "sim/report/plot_kinds.h"
#include "sim/report/published.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct result_view v = {.policies = {{.name = "bucket"}, {.name = "dcp"}}, .n = 2};
  struct published published[PUBLISHED_MAX];
  struct plot_input in = {.path = fuzz_file(data, size)};
  struct gnuplot g;
  struct err err = {0};
  int n;
  fuzz_check(published_read(published, &n, in.path, &v, &err), &err);
  err = (struct err){0};
  gnuplot_begin(&g, "svg");
  fuzz_check(plot_residuals.draw(&in, &g, &err), &err);
  gnuplot_release(&g);
  return 0;
}
