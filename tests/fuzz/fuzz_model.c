/* Model files. */
#include <math.h>

#include "models/transformer.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct transformer m;
  struct err err = {0};
  int status = transformer_load(&m, fuzz_file(data, size), &err);
  fuzz_check(status, &err);
  if (status)
    return 0;
  ASSERT(transformer_params(&m) > 0);
  ASSERT(isfinite(transformer_sample_flops(&m, 1000000000, 1)));
  return 0;
}
