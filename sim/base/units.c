#include "sim/base/units.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/err.h"
#include "sim/base/output.h"

int64_t ns_from_s(double seconds) {
  ASSERT(seconds >= 0 && seconds < 4.6e9);
  return llround(seconds * 1e9);
}

double s_from_ns(int64_t ns) { return (double)ns * 1e-9; }

size_t size_mul(size_t a, size_t b) {
  size_t r;
  ASSERT(!__builtin_mul_overflow(a, b, &r));
  return r;
}

size_t size_add(size_t a, size_t b) {
  size_t r;
  ASSERT(!__builtin_add_overflow(a, b, &r));
  return r;
}

/* Where to go when memory is exhausted, and what was asked for then. */
struct guard {
  jmp_buf jump;
  size_t bytes;
};
static _Thread_local struct guard *guard;

int memory_guard(int (*work)(void *context, struct err *err), void *context, struct err *err) {
  struct guard here, *outer = guard;
  int rc = -1;
  guard = &here;
  if (setjmp(here.jump) == 0)
    rc = work(context, err);
  else
    err_set(err, "out of memory (asked for %zu bytes)", here.bytes);
  guard = outer;
  return rc;
}

void out_of_memory(size_t bytes) {
  if (guard) {
    guard->bytes = bytes;
    longjmp(guard->jump, 1);
  }
  if (bytes)
    fprintf(stderr, "dcpsim: out of memory (asked for %zu bytes)\n", bytes);
  else
    fprintf(stderr, "dcpsim: out of memory\n");
  output_remove_temporaries();
  _exit(1); /* no half-written text of open files is flushed, and other threads may be running */
}

static void *checked(void *p, size_t bytes) {
  if (!p && bytes > 0)
    out_of_memory(bytes);
  return p;
}

void *xmalloc(size_t bytes) { return checked(malloc(bytes), bytes); }
void *xcalloc(size_t count, size_t bytes) { return checked(calloc(count, bytes), size_mul(count, bytes)); }
void *xrealloc(void *p, size_t bytes) { return checked(realloc(p, bytes), bytes); }

char *xstrdup(const char *s) {
  size_t n = strlen(s) + 1;
  return memcpy(xmalloc(n), s, n);
}
