/* Length traces: by content, then as each format in turn, whatever they are. */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "traces/format.h"
#include "traces/trace.h"

static void load(const char *path, const struct trace_options *options) {
  struct trace t;
  struct err err = {0};
  int status = trace_load(&t, path, options, &err);
  fuzz_check(status, &err);
  if (status)
    return;
  ASSERT(t.n > 0);
  for (int64_t i = 0; i < t.n; i++)
    ASSERT(sample_tokens(t.samples[i]) >= 1 && sample_tokens(t.samples[i]) <= TRACE_MAX_LENGTH);
  for (int64_t i = 1; t.batch && i < t.n; i++)
    ASSERT(t.batch[i] >= t.batch[i - 1]);
  trace_release(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const formats[] = {"npy",       "megatron_idx", "batches", "json", "jsonl",
                                        "histogram", "video_csv",    "csv",     "text"};
  const char *path = fuzz_file(data, size), *format = formats[size % (sizeof formats / sizeof *formats)];
  load(path, &(struct trace_options){.draws = 10});
  load(path, &(struct trace_options){.draws = 10, .skip_bad = true});
  load(path, &(struct trace_options){.draws = 10, .skip_bad = true, .format = format});
  load(path, &(struct trace_options){.draws = 10, .column = "document"});
  return 0;
}
