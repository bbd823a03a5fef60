#include "traces/json_array.h"

#include <string.h>

#include "traces/json_length.h"

int json_array_char(struct trace_source *src, char *c, struct err *err) {
  for (;;) {
    while (src->pos < src->len) {
      *c = src->buf[src->pos];
      if (*c == '\n')
        src->line++;
      else if (*c != ' ' && *c != '\t' && *c != '\r')
        return 1;
      src->pos++;
    }
    int64_t got = trace_source_fill(src, err);
    if (got <= 0)
      return (int)got;
  }
}

struct span_state {
  size_t n;
  int depth;
  bool in_string, escaped;
};

/* Takes in one character; true when the value ended before it. */
static bool span_step(struct span_state *st, char c) {
  if (st->in_string) {
    st->in_string = st->escaped || c != '"';
    st->escaped = !st->escaped && c == '\\';
  } else if (st->depth == 0 && st->n > 0 && (c == ',' || c == ']' || c == '}')) {
    return true;
  } else if (c == '"') {
    st->in_string = true;
  } else if (c == '[' || c == '{') {
    st->depth++;
  } else if (c == ']' || c == '}') {
    st->depth--;
  }
  st->n++;
  return false;
}

int json_array_span(struct trace_source *src, size_t *n, struct err *err) {
  struct span_state st = {0};
  for (;;) {
    while (src->pos + st.n < src->len)
      if (span_step(&st, src->buf[src->pos + st.n])) {
        *n = st.n;
        return 1;
      }
    int64_t got = trace_source_fill(src, err);
    if (got <= 0)
      return (int)got;
  }
}

static int ends_early(struct trace_source *src, struct trace_sink *sink, struct err *err) {
  return trace_sink_broken(sink, src->line, err, "the file ends inside the JSON array");
}

static int read_value(struct trace_source *src, const char *column, struct trace_sink *sink, struct err *err) {
  size_t n = 0;
  int rc = json_array_span(src, &n, err);
  if (rc <= 0)
    return rc < 0 ? -1 : ends_early(src, sink, err);
  const char *s = src->buf + src->pos;
  int64_t line = src->line;
  for (const char *p = s; (p = memchr(p, '\n', (size_t)(s + n - p))) != NULL; p++)
    src->line++;
  src->pos += n;
  while (n > 0 && strchr(" \t\r\n", s[n - 1]))
    n--;
  if (*s == '{')
    return json_length_add(sink, line, s, n, column, err);
  if (*s == '"' || *s == '[')
    return trace_sink_bad(sink, line, err, "an element of the array must be a number, got %s", excerpt_make(s, n).text);
  return trace_sink_text(sink, line, "length", s, n, err);
}

/* Plain digits with their terminator in the window, the case that matters. False: not that, nothing consumed. */
static bool read_digits(struct trace_source *src, uint32_t *out) {
  uint64_t v = 0;
  size_t p = src->pos;
  while (p < src->len && p - src->pos < 11 && src->buf[p] >= '0' && src->buf[p] <= '9')
    v = v * 10 + (uint64_t)(src->buf[p++] - '0');
  if (p == src->len || (src->buf[p] != ',' && src->buf[p] != ']') || v == 0 || v > TRACE_MAX_LENGTH)
    return false;
  src->pos = p;
  *out = (uint32_t)v;
  return true;
}

int json_array_lengths(struct trace_source *src, const char *column, struct trace_sink *sink, struct err *err) {
  src->pos++;
  for (bool first = true;; first = false) {
    struct sample one = {0, 1};
    char c;
    int rc = json_array_char(src, &c, err);
    if (rc > 0 && c == ']' && first) {
      src->pos++;
      return 0;
    }
    if (rc > 0 && (c == ',' || c == ']'))
      return trace_sink_broken(sink, src->line, err, "not a JSON array: a value is missing before '%c'", c);
    if (rc > 0)
      rc = (read_digits(src, &one.a) ? trace_sink_add(sink, src->line, one, err) : read_value(src, column, sink, err))
               ? -1
               : json_array_char(src, &c, err);
    if (rc < 0)
      return -1;
    if (rc == 0)
      return ends_early(src, sink, err);
    if (c != ',' && c != ']')
      return trace_sink_broken(sink, src->line, err, "not a JSON array: '%c' where a comma belongs", c);
    src->pos++;
    if (c == ']')
      return 0;
  }
}
