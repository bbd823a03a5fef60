/* Experiment files: read, described, written as in results. */
#include <stdio.h>
#include <stdlib.h>

#include "sim/experiment/options.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct experiment_options o;
  struct err err = {0};
  options_init(&o);
  int status = options_read_file(&o, fuzz_file(data, size), &err);
  fuzz_check(status, &err);
  char *text = NULL, buf[256];
  size_t written;
  struct json_writer w = {.file = open_memstream(&text, &written)};
  ASSERT(w.file);
  options_write_json(&w, &o);
  ASSERT(fclose(w.file) == 0);
  json_t *object = json_loadb(text, written, JSON_REJECT_DUPLICATES, NULL);
  ASSERT(object);
  json_decref(object);
  free(text);
  options_differences(&o, buf, sizeof buf);
  options_release(&o);
  return 0;
}
