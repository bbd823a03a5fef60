/* Parameter files: read, and asked for times. */
#include <math.h>
#include <stdlib.h>

#include "models/operation.h"
#include "models/params.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct params *p = NULL;
  struct err err = {0};
  char *text = fuzz_text(data, size);
  int status = params_parse(&p, "input", text, &err);
  free(text);
  fuzz_check(status, &err);
  if (status)
    return 0;
  struct attention_shape a = {true, 3, 777, 777, 8, 4, 96};
  ASSERT(gemm_time_s(p, 100, 100, 100) > 0);
  ASSERT(gemm_wgrad_time_s(p, INT64_C(1) << 31, 1, 77777) > 0);
  ASSERT(attention_forward_time_s(p, &a) > 0 && attention_backward_time_s(p, &a) > 0);
  ASSERT(attention_varlen_forward_time_s(p, true, (const uint32_t[]){7, 777, 1}, 3, 8, 4, 96) > 0);
  ASSERT(attention_varlen_backward_time_s(p, false, (const uint32_t[]){7, 777, 1}, 3, 8, 4, 96) > 0);
  ASSERT(!isnan(memory_time_s(p, MEMORY_MIXED, 1e9)));
  params_move(p, 7);
  ASSERT(gemm_time_s(p, 100, 100, 100) > 0);
  params_free(p);
  return 0;
}
