/* warning.h: where a reader puts its warnings: the caller prints, collects or drops them. */
#ifndef CALIB_WARNING_H
#define CALIB_WARNING_H

struct warning_sink {
  void (*put)(void *to, const char *message); /* NULL: warnings are dropped */
  void *to;
};

/* One complete line without its newline; cut at 1000 characters. `sink` may be NULL. */
void warning_put(const struct warning_sink *sink, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
