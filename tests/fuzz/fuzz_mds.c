/* MosaicML Streaming: the bytes before the first 0 are the index, those after it the shard beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "traces/trace.h"

static char folder[] = "/tmp/dcpsim-fuzz-XXXXXX", index_path[64], shard_path[64];

static void remove_folder(void) {
  unlink(index_path);
  unlink(shard_path);
  rmdir(folder);
}

static void write_file(const char *path, const uint8_t *data, size_t size) {
  FILE *file = fopen(path, "wb");
  ASSERT(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!index_path[0]) {
    ASSERT(mkdtemp(folder));
    snprintf(index_path, sizeof index_path, "%s/index.json", folder);
    snprintf(shard_path, sizeof shard_path, "%s/shard.00000.mds", folder);
    atexit(remove_folder);
  }
  const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
  size_t n = nul ? (size_t)(nul - data) : size;
  write_file(index_path, data, n);
  write_file(shard_path, nul ? nul + 1 : data, nul ? size - n - 1 : 0);
  struct trace_options options = {.format = "mds", .skip_bad = size % 2};
  struct trace t;
  struct err err = {0};
  int status = trace_load(&t, index_path, &options, &err);
  fuzz_check(status, &err);
  for (int64_t i = 0; status == 0 && i < t.n; i++)
    ASSERT(sample_tokens(t.samples[i]) >= 1 && sample_tokens(t.samples[i]) <= TRACE_MAX_LENGTH);
  if (status == 0)
    trace_release(&t);
  return 0;
}
