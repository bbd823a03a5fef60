#include "calib/warning.h"

#include <stdarg.h>
#include <stdio.h>

#include "sim/base/err.h"

void warning_put(const struct warning_sink *sink, const char *fmt, ...) {
  char message[1000];
  va_list ap;
  if (!sink || !sink->put)
    return;
  va_start(ap, fmt);
  vsnprintf(message, sizeof message, fmt, ap);
  va_end(ap);
  message_flatten(message);
  sink->put(sink->to, message);
}
