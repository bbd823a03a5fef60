/* Results: drawn, and made into a page (gnuplot does not run: see CMakeLists.txt). */
#include <stdio.h>

#include "sim/report/page.h"
#include "sim/report/plot_kinds.h"
#include "tests/fuzz/fuzz.h"

static void draw(const struct plot *plot, const char *path) {
  struct plot_input in = {.path = path, .paths = &path, .n_paths = 1};
  struct gnuplot g;
  struct err err = {0};
  gnuplot_begin(&g, "svg");
  fuzz_check(plot->draw(&in, &g, &err), &err);
  gnuplot_release(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct plot *const kinds[] = {&plot_speedup, &plot_imbalance, &plot_imbalance_gpus, &plot_sp_histogram};
  const char *path = fuzz_file(data, size), *twice[] = {path, path};
  struct err err = {0};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    draw(kinds[i], path);
  fuzz_check(page_write(twice, 1 + (int)(size % 2), "/dev/null", &err), &err);
  return 0;
}
