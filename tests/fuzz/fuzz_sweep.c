/* Specifications of sweeps, and the points that they make. */
#include <stdlib.h>

#include "sim/sweep/sweep_spec.h"
#include "sim/sweep/sweep_table.h"
#include "tests/fuzz/fuzz.h"

static void try_point(const struct sweep_spec *s, int64_t point) {
  struct experiment_options o;
  struct err err = {0};
  fuzz_check(sweep_spec_options(s, point, &o, &err), &err);
  options_release(&o);
  ASSERT(sweep_spec_policies(s, point) >= 0);
  free(sweep_table_rows(s, point, NULL, 0, "an \"error\", of\ntwo lines"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct sweep_spec s;
  struct err err = {0};
  int status = sweep_spec_read(&s, fuzz_file(data, size), &err);
  fuzz_check(status, &err);
  if (status)
    return 0;
  ASSERT(s.n_points >= 1 && s.n_points <= SWEEP_MAX_POINTS);
  for (int i = 0; i < 4; i++)
    try_point(&s, (s.n_points - 1) * i / 3);
  free(sweep_table_header(&s));
  sweep_spec_release(&s);
  return 0;
}
