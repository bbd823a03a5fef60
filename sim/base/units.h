/* units.h: base units, the one conversion from model seconds to clock nanoseconds, checked size products. */
#ifndef SIM_BASE_UNITS_H
#define SIM_BASE_UNITS_H
#include <stddef.h>
#include <stdint.h>

#include "sim/base/err.h"

#define GIB_BYTES (1024.0 * 1024.0 * 1024.0)

/* Models return double seconds; the clock counts int64 nanoseconds. Rounds to nearest; asserts 0 <= s < 2^62 ns. */
int64_t ns_from_s(double seconds);
double s_from_ns(int64_t ns);

/* a*b and a+b for sizes; abort on overflow (our own mistake: inputs are limited where they are read). */
size_t size_mul(size_t a, size_t b);
size_t size_add(size_t a, size_t b);

/* The end of a program whose memory is exhausted: one clear line, exit code 1, temporary files removed; inside
 * memory_guard the end of its `work` alone. `bytes`: asked for, 0: unknown. */
_Noreturn void out_of_memory(size_t bytes);
/* malloc/calloc/realloc that end so. */
void *xmalloc(size_t bytes);
void *xcalloc(size_t count, size_t bytes);
void *xrealloc(void *p, size_t bytes);
char *xstrdup(const char *s);

/* Returns work(context, err), or -1 with err set when it ran out of memory on this thread: what it held is then lost.
 * For a library, which may not end the program of others. */
int memory_guard(int (*work)(void *context, struct err *err), void *context, struct err *err);

/* Appends to a growing array: VEC_PUSH(v, n, cap, value), all lvalues of the caller, n and cap of type size_t. */
#define VEC_PUSH(v, n, cap, value)                                                                                     \
  do {                                                                                                                 \
    if ((n) == (cap)) {                                                                                                \
      (cap) = (cap) ? (cap)*2 : 8;                                                                                     \
      (v) = xrealloc((v), size_mul((cap), sizeof *(v)));                                                               \
    }                                                                                                                  \
    (v)[(n)++] = (value);                                                                                              \
  } while (0)

/* Room for n elements in an array that only grows, before they are set: VEC_RESERVE(v, cap, n), likewise. */
#define VEC_RESERVE(v, cap, n)                                                                                         \
  do {                                                                                                                 \
    if ((n) > (cap)) {                                                                                                 \
      (cap) = size_mul((n), 2);                                                                                        \
      (v) = xrealloc((v), size_mul((cap), sizeof *(v)));                                                               \
    }                                                                                                                  \
  } while (0)

static inline int64_t int64_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t int64_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
