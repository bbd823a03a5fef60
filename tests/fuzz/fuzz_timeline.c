/* Timelines, drawn. */
#include "sim/plan/timeline.h"
#include "sim/report/plot_kinds.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *path = fuzz_file(data, size), *twice[] = {path, path};
  struct plot_input in = {.path = path, .paths = twice, .n_paths = 1 + (int)(size % 2)};
  struct timeline t;
  struct gnuplot g;
  struct err err = {0};
  gnuplot_begin(&g, "svg");
  fuzz_check(plot_timeline.draw(&in, &g, &err), &err);
  gnuplot_release(&g);
  err = (struct err){0};
  int status = timeline_read(&t, in.path, &err);
  fuzz_check(status, &err);
  if (status == 0)
    timeline_release(&t);
  return 0;
}
