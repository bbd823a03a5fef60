/* err.h: the error object every fallible function fills, and ASSERT for our own mistakes.
 *
 * What the outside world can break returns int (0 ok, -1 failed) and takes `struct err *err` last. The object is the
 * caller's, may be NULL and is untouched on success. The message is one complete line (control characters in names and
 * values become blanks): what, which file, which place. `usage` tells a usage error (exit code 2) from a failure (exit
 * code 1). */
#ifndef SIM_BASE_ERR_H
#define SIM_BASE_ERR_H
#include <stdbool.h>

struct err {
  bool set;
  bool usage;
  char msg[1024];
};

/* Both fill *err (if not NULL) and return -1, so that `return err_set(err, ...)` reads well. */
int err_set(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int err_usage(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "text: " before the message of an error already set; returns -1. */
int err_prefix(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Makes a message one line, and harmless on a terminal, whatever names and files hold: control characters become
 * blanks. The functions above do it. */
void message_flatten(char *s);

/* Always on: a broken invariant is our bug; prints the place and aborts. */
#define ASSERT(cond) ((cond) ? (void)0 : err_assert_failed(#cond, __FILE__, __LINE__))
_Noreturn void err_assert_failed(const char *cond, const char *file, int line);

#endif
