#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sim/base/units.h"
#include "sim/report/gnuplot.h"

const char *fuzz_file(const uint8_t *data, size_t size) {
  static int fd = -1;
  static char path[64];
  if (fd < 0) {
    fd = memfd_create("input", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  }
  ASSERT(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size);
  return path;
}

char *fuzz_text(const uint8_t *data, size_t size) {
  char *text = xmalloc(size + 1);
  if (size)
    memcpy(text, data, size);
  text[size] = '\0';
  return text;
}

void fuzz_check(int status, const struct err *err) {
  ASSERT(err->set == (status < 0));
  ASSERT(!err->set || (err->msg[0] && !strchr(err->msg, '\n')));
}

/* In the place of gnuplot_run where CMakeLists.txt says so. */
int __wrap_gnuplot_run(struct gnuplot *g, FILE *out, struct err *err);
int __wrap_gnuplot_run(struct gnuplot *g, FILE *out, struct err *err) {
  (void)g;
  (void)err;
  fputs("<svg><desc></desc><g id=\"a\"></g></svg>", out);
  return 0;
}
