#include "traces/sink.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

static int fail_at(const struct trace_sink *sink, int64_t at, struct err *err, const char *fmt, va_list ap) {
  char text[512];
  vsnprintf(text, sizeof text, fmt, ap);
  return err_set(err, "trace '%s' %s %lld: %s", sink->path, sink->place, (long long)at, text);
}

int trace_sink_bad(struct trace_sink *sink, int64_t at, struct err *err, const char *fmt, ...) {
  if (sink->skip_bad) {
    sink->skipped_bad++;
    return 0;
  }
  va_list ap;
  va_start(ap, fmt);
  fail_at(sink, at, err, fmt, ap);
  va_end(ap);
  return -1;
}

int trace_sink_broken(const struct trace_sink *sink, int64_t at, struct err *err, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fail_at(sink, at, err, fmt, ap);
  va_end(ap);
  return -1;
}

struct excerpt excerpt_make(const char *s, size_t n) {
  struct excerpt e;
  size_t limit = sizeof e.text - 4, shown = n < limit ? n : limit;
  for (size_t i = 0; i < shown; i++)
    e.text[i] = s[i] >= ' ' && s[i] < 127 ? s[i] : '?';
  strcpy(e.text + shown, n > limit ? "..." : "");
  return e;
}

/* Signs, fractions and exponents. Only characters of decimal numbers reach strtod, which otherwise takes "nan" and
 * "0x10" as well. */
static enum length_verdict parse_slowly(const char *s, size_t n, uint32_t *out) {
  char copy[64], *end;
  if (n >= sizeof copy) {
    size_t digits = strspn(s, "0123456789");
    return digits >= n ? LENGTH_TOO_LARGE : LENGTH_NOT_NUMBER;
  }
  memcpy(copy, s, n);
  copy[n] = 0;
  if (strspn(copy, "0123456789+-.eE") != n)
    return LENGTH_NOT_NUMBER;
  double v = strtod(copy, &end);
  if (end == copy || *end)
    return LENGTH_NOT_NUMBER;
  if (v <= 0)
    return LENGTH_NOT_POSITIVE;
  if (v > TRACE_MAX_LENGTH)
    return LENGTH_TOO_LARGE;
  if (v != floor(v))
    return LENGTH_NOT_INTEGRAL;
  *out = (uint32_t)v;
  return LENGTH_OK;
}

enum length_verdict length_parse(const char *s, size_t n, uint32_t *out) {
  uint64_t v = 0;
  if (n == 0)
    return LENGTH_MISSING;
  if (n > 10)
    return parse_slowly(s, n, out);
  for (size_t i = 0; i < n; i++) {
    unsigned digit = (unsigned char)s[i] - (unsigned)'0';
    if (digit > 9)
      return parse_slowly(s, n, out);
    v = v * 10 + digit;
  }
  if (v == 0)
    return LENGTH_NOT_POSITIVE;
  if (v > TRACE_MAX_LENGTH)
    return LENGTH_TOO_LARGE;
  *out = (uint32_t)v;
  return LENGTH_OK;
}

_Static_assert(TRACE_MAX_LENGTH == 1000000000u, "the text below says so");

const char *length_verdict_text(enum length_verdict verdict) {
  static const char *const text[] = {
      [LENGTH_OK] = "is fine",
      [LENGTH_MISSING] = "is missing",
      [LENGTH_NOT_NUMBER] = "must be a positive integer",
      [LENGTH_NOT_INTEGRAL] = "must be an integer",
      [LENGTH_NOT_POSITIVE] = "must be positive",
      [LENGTH_TOO_LARGE] = "must be at most 1000000000",
  };
  return text[verdict];
}

int trace_sink_add(struct trace_sink *sink, int64_t at, struct sample s, struct err *err) {
  if (sink->n >= TRACE_MAX_SAMPLES)
    return trace_sink_broken(sink, at, err, "more than %u samples", TRACE_MAX_SAMPLES);
  VEC_PUSH(sink->samples, sink->n, sink->cap, s);
  if (sink->has_batches)
    VEC_PUSH(sink->batch, sink->n_batch, sink->batch_cap, (uint32_t)sink->batch_number);
  return 0;
}

int trace_sink_text(struct trace_sink *sink, int64_t at, const char *label, const char *s, size_t n, struct err *err) {
  struct sample one = {0, 1};
  enum length_verdict verdict = length_parse(s, n, &one.a);
  if (verdict == LENGTH_OK)
    return trace_sink_add(sink, at, one, err);
  if (verdict == LENGTH_MISSING)
    return trace_sink_bad(sink, at, err, "%s is missing", label);
  struct excerpt e = excerpt_make(s, n);
  return trace_sink_bad(sink, at, err, "%s %s, got '%s'", label, length_verdict_text(verdict), e.text);
}

int trace_sink_int(struct trace_sink *sink, int64_t at, const char *label, int64_t v, struct err *err) {
  if (v >= 1 && v <= TRACE_MAX_LENGTH)
    return trace_sink_add(sink, at, (struct sample){(uint32_t)v, 1}, err);
  return trace_sink_bad(sink, at, err, "%s %s, got %lld", label,
                        length_verdict_text(v < 1 ? LENGTH_NOT_POSITIVE : LENGTH_TOO_LARGE), (long long)v);
}

int trace_sink_double(struct trace_sink *sink, int64_t at, const char *label, double v, struct err *err) {
  if (v >= 1 && v <= TRACE_MAX_LENGTH && v == floor(v))
    return trace_sink_add(sink, at, (struct sample){(uint32_t)v, 1}, err);
  enum length_verdict verdict = isnan(v)               ? LENGTH_NOT_NUMBER
                                : v <= 0               ? LENGTH_NOT_POSITIVE
                                : v > TRACE_MAX_LENGTH ? LENGTH_TOO_LARGE
                                                       : LENGTH_NOT_INTEGRAL;
  return trace_sink_bad(sink, at, err, "%s %s, got %g", label, length_verdict_text(verdict), v);
}
