/* fuzz.h: what the fuzz targets share. A target is a file fuzz_NAME.c with one LLVMFuzzerTestOneInput: it hands its
 * bytes to the readers of one kind of input and uses what they accept. tests/fuzz/run.sh runs them. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H
#include <stddef.h>
#include <stdint.h>

#include "sim/base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The path of a file in memory that holds these bytes, until the next call. It names a folder, as readers of names or
 * paths want it. */
const char *fuzz_file(const uint8_t *data, size_t size);
/* The bytes as a string; the caller frees it. */
char *fuzz_text(const uint8_t *data, size_t size);

/* What a reader returned: aborts unless a failure came with one complete line, and success with none. */
void fuzz_check(int status, const struct err *err);

#endif
