/* shipped.h: the traces in traces/data; provenance and licence of each in traces/data/README.md. */
#ifndef TRACES_SHIPPED_H
#define TRACES_SHIPPED_H
#include <stddef.h>
#include <stdint.h>

struct shipped_trace {
  const char *name;
  const char *file; /* relative to the shared folder */
  int64_t samples, tokens;
  const char *help; /* what it is, source and licence, in a line */
};

/* NULL: no shipped trace of that name. */
const struct shipped_trace *shipped_trace_find(const char *name);
const struct shipped_trace *shipped_trace_at(int i); /* i = 0, 1, ...; NULL after the last */
/* "wikipedia, prolong, ..." for messages. */
void shipped_trace_names(char *buf, size_t size);

#endif
