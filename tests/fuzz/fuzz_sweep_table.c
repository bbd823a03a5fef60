/* Tables of sweeps: continued by a sweep of one specification (corpus/sweep_table/own is its table, of one version of
 * dcpsim), drawn, and made into a page. */
#include "sim/report/page.h"
#include "sim/report/plot_kinds.h"
#include "sim/report/sweep_view.h"
#include "sim/sweep/sweep_table.h"
#include "tests/fuzz/fuzz.h"

static const char spec_text[] =
    "{\"schema\": \"dcpsim.sweep/1\", \"base\": {\"trace\": \"t\", \"model\": \"tiny-1d\", \"cluster\": \"h200_8x1\"},"
    " \"grid\": {\"seed\": [0, 1], \"max_length\": [100, 200]}}";

static void draw(const struct plot *plot, const char *path) {
  struct plot_input in = {.path = path, .paths = &path, .n_paths = 1};
  struct gnuplot g;
  struct err err = {0};
  gnuplot_begin(&g, "svg");
  fuzz_check(plot->draw(&in, &g, &err), &err);
  gnuplot_release(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct sweep_spec spec;
  struct sweep_table table;
  struct err err = {0};
  if (!spec.n_points)
    ASSERT(sweep_spec_parse(&spec, "spec", spec_text, &err) == 0);
  const char *path = fuzz_file(data, size);
  draw(&plot_sweep_curves, path);
  draw(&plot_sweep_heatmap, path);
  draw(&plot_imbalance_gpus, path);
  fuzz_check(page_write(&path, 1, "/dev/null", &err), &err);
  err = (struct err){0};
  int status = sweep_table_open(&table, path, &spec, &err);
  fuzz_check(status, &err);
  if (status)
    return 0;
  ASSERT(table.n_done >= 0 && table.n_done <= spec.n_points);
  sweep_table_release(&table);
  return 0;
}
