/* Cluster files, and names of presets. */
#include <stdlib.h>
#include <string.h>

#include "models/hardware.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct cluster c;
  struct err err = {0};
  int status = cluster_load(&c, fuzz_file(data, size), &err);
  fuzz_check(status, &err);
  ASSERT(status || cluster_gpus(&c) > 0);
  char *name = fuzz_text(data, size);
  err = (struct err){0};
  if (!strchr(name, '/') && !strstr(name, ".json")) {
    status = cluster_load(&c, name, &err);
    ASSERT(err.set == (status < 0));
    ASSERT(status || cluster_gpus(&c) > 0);
  }
  free(name);
  return 0;
}
