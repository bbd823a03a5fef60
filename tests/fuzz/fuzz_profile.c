/* Measured bucket times: read, written, and read again. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/policy/profile.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct profile p;
  struct err err = {0};
  int status = profile_read(&p, fuzz_file(data, size), &err);
  fuzz_check(status, &err);
  if (status)
    return 0;
  char *text = NULL;
  size_t written;
  FILE *out = open_memstream(&text, &written);
  ASSERT(out);
  profile_write(out, &p);
  ASSERT(fclose(out) == 0);
  profile_release(&p);
  ASSERT(profile_read(&p, fuzz_file((const uint8_t *)text, written), &err) == 0);
  profile_release(&p);
  free(text);
  return 0;
}
