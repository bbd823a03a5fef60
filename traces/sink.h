/* sink.h: where readers put lengths: checks, counts what --skip-bad leaves out, and words the errors, so that every
 * format complains alike: "trace 'a.jsonl' line 7: 'length' must be positive, got -4". */
#ifndef TRACES_SINK_H
#define TRACES_SINK_H
#include <stddef.h>

#include "traces/trace.h"

struct trace_sink {
  const char *path;  /* for messages; not owned */
  const char *place; /* what positions count: "line", "element", "row"; static */
  bool skip_bad;
  bool is_2d;
  struct sample *samples;
  size_t n, cap;
  bool has_batches; /* samples are noted as of batch `batch_number` */
  int64_t batch_number;
  uint32_t *batch; /* of each sample */
  size_t n_batch, batch_cap;
  int64_t skipped_bad;
};

/* A bad value at this position: -1 with the message, or 0 (counted) if bad values are to be skipped. */
int trace_sink_bad(struct trace_sink *sink, int64_t at, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The file itself is broken at this position: always -1. */
int trace_sink_broken(const struct trace_sink *sink, int64_t at, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

int trace_sink_add(struct trace_sink *sink, int64_t at, struct sample s, struct err *err);
/* A length given as text, as an integer in 64 bits, or as a double that must be integral. `label` names it. */
int trace_sink_text(struct trace_sink *sink, int64_t at, const char *label, const char *s, size_t n, struct err *err);
int trace_sink_int(struct trace_sink *sink, int64_t at, const char *label, int64_t v, struct err *err);
int trace_sink_double(struct trace_sink *sink, int64_t at, const char *label, double v, struct err *err);

enum length_verdict {
  LENGTH_OK,
  LENGTH_MISSING,
  LENGTH_NOT_NUMBER,
  LENGTH_NOT_INTEGRAL,
  LENGTH_NOT_POSITIVE,
  LENGTH_TOO_LARGE
};

/* A positive integer of at most TRACE_MAX_LENGTH: "512", "+512", "512.0", "5.12e2"; not "0x200", "nan", "1,000". */
enum length_verdict length_parse(const char *s, size_t n, uint32_t *out);
/* What is wrong, for messages: "must be positive". */
const char *length_verdict_text(enum length_verdict verdict);

/* A printable, shortened copy of foreign text for messages. */
struct excerpt {
  char text[52];
};
struct excerpt excerpt_make(const char *s, size_t n);

#endif
