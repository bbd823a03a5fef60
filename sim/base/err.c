#include "sim/base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void message_flatten(char *s) {
  for (; *s; s++)
    if ((unsigned char)*s < 0x20 || *s == 0x7f)
      *s = ' ';
}

static int set_message(struct err *err, bool usage, const char *fmt, va_list ap) {
  if (err) {
    err->set = true;
    err->usage = usage;
    vsnprintf(err->msg, sizeof err->msg, fmt, ap);
    message_flatten(err->msg);
  }
  return -1;
}

int err_set(struct err *err, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  set_message(err, false, fmt, ap);
  va_end(ap);
  return -1;
}

int err_usage(struct err *err, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  set_message(err, true, fmt, ap);
  va_end(ap);
  return -1;
}

int err_prefix(struct err *err, const char *fmt, ...) {
  if (!err)
    return -1;
  struct err old = *err;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(err->msg, sizeof err->msg, fmt, ap);
  va_end(ap);
  message_flatten(err->msg);
  size_t n = strlen(err->msg);
  snprintf(err->msg + n, sizeof err->msg - n, ": %s", old.msg);
  return -1;
}

_Noreturn void err_assert_failed(const char *cond, const char *file, int line) {
  fprintf(stderr, "dcpsim: internal error at %s:%d: %s\n", file, line, cond);
  abort();
}
