/* Specifications of generated traces. */
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"
#include "traces/generate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *spec = fuzz_text(data, size);
  struct trace t;
  struct err err = {0};
  int status = trace_generate(&t, spec, 20, 1, &err);
  fuzz_check(status, &err);
  for (int64_t i = 0; status == 0 && i < t.n; i++)
    ASSERT(sample_tokens(t.samples[i]) >= 1 && sample_tokens(t.samples[i]) <= TRACE_MAX_LENGTH);
  if (status == 0)
    trace_release(&t);
  free(spec);
  return 0;
}
