/* Schedules: checked, and drawn. */
#include <string.h>

#include "sim/plan/schedule.h"
#include "sim/report/plot_kinds.h"
#include "tests/fuzz/fuzz.h"

static void finding(void *context, const struct schedule_finding *f) {
  ASSERT(f->rule[0] && f->message[0] && !strchr(f->message, '\n'));
  ++*(int64_t *)context;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct schedule_check summary;
  struct err err = {0};
  int64_t told = 0;
  const char *path = fuzz_file(data, size);
  int64_t findings = schedule_check(path, &summary, finding, &told, &err);
  fuzz_check(findings < 0 ? -1 : 0, &err);
  ASSERT(findings < 0 || findings == told);

  struct plot_input in = {.path = path, .paths = &path, .n_paths = 1};
  struct gnuplot g;
  err = (struct err){0};
  gnuplot_begin(&g, "svg");
  fuzz_check(plot_step_times.draw(&in, &g, &err), &err);
  gnuplot_release(&g);
  return 0;
}
