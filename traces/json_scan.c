#include "traces/json_scan.h"

#include <string.h>

#define MAX_DEPTH 64

static bool scan_value(struct json_cursor *c, struct json_span *out, int depth);

void json_scan_space(struct json_cursor *c) {
  while (c->p < c->end && (*c->p == ' ' || *c->p == '\t' || *c->p == '\n' || *c->p == '\r'))
    c->p++;
}

static bool take(struct json_cursor *c, char wanted) {
  if (c->p == c->end || *c->p != wanted)
    return false;
  c->p++;
  return true;
}

static bool scan_escape(struct json_cursor *c) {
  if (c->p == c->end)
    return false;
  char e = *c->p++;
  if (e != 'u')
    return e && strchr("\"\\/bfnrt", e) != NULL;
  for (int i = 0; i < 4; i++, c->p++)
    if (c->p == c->end || !*c->p || !strchr("0123456789abcdefABCDEF", *c->p))
      return false;
  return true;
}

static bool scan_string(struct json_cursor *c, struct json_span *out) {
  if (!take(c, '"'))
    return false;
  out->s = c->p;
  while (c->p < c->end && *c->p != '"') {
    unsigned char ch = (unsigned char)*c->p++;
    if (ch < ' ' || (ch == '\\' && !scan_escape(c)))
      return false;
  }
  out->n = (size_t)(c->p - out->s);
  out->kind = JSON_SCAN_STRING;
  return take(c, '"');
}

static bool scan_digits(struct json_cursor *c) {
  const char *from = c->p;
  while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
    c->p++;
  return c->p > from;
}

static bool scan_number(struct json_cursor *c, struct json_span *out) {
  out->s = c->p;
  out->kind = JSON_SCAN_NUMBER;
  take(c, '-');
  if (!take(c, '0') && !scan_digits(c))
    return false;
  if (take(c, '.') && !scan_digits(c))
    return false;
  if (take(c, 'e') || take(c, 'E')) {
    if (!take(c, '+'))
      take(c, '-');
    if (!scan_digits(c))
      return false;
  }
  out->n = (size_t)(c->p - out->s);
  return true;
}

static bool scan_literal(struct json_cursor *c, struct json_span *out, const char *word) {
  size_t n = strlen(word);
  if ((size_t)(c->end - c->p) < n || memcmp(c->p, word, n) != 0)
    return false;
  *out = (struct json_span){c->p, n, JSON_SCAN_LITERAL, 0};
  c->p += n;
  return true;
}

static bool scan_array(struct json_cursor *c, struct json_span *out, int depth) {
  struct json_span element;
  const char *from = c->p;
  int64_t elements = 0;
  c->p++;
  json_scan_space(c);
  if (!take(c, ']')) {
    do {
      json_scan_space(c);
      if (!scan_value(c, &element, depth + 1))
        return false;
      json_scan_space(c);
      elements++;
    } while (take(c, ','));
    if (!take(c, ']'))
      return false;
  }
  *out = (struct json_span){from, (size_t)(c->p - from), JSON_SCAN_ARRAY, elements};
  return true;
}

bool json_scan_object_begin(struct json_cursor *c) { return take(c, '{'); }

static bool object_next(struct json_cursor *c, bool first, struct json_span *key, struct json_span *value, bool *ok,
                        int depth) {
  json_scan_space(c);
  *ok = take(c, '}');
  if (*ok || (!first && !take(c, ',')))
    return false;
  json_scan_space(c);
  if (!scan_string(c, key))
    return false;
  json_scan_space(c);
  if (!take(c, ':'))
    return false;
  json_scan_space(c);
  return scan_value(c, value, depth + 1);
}

bool json_scan_object_next(struct json_cursor *c, bool first, struct json_span *key, struct json_span *value,
                           bool *ok) {
  return object_next(c, first, key, value, ok, 0);
}

static bool scan_object(struct json_cursor *c, struct json_span *out, int depth) {
  struct json_span key, value;
  const char *from = c->p;
  bool ok;
  c->p++;
  for (bool first = true; object_next(c, first, &key, &value, &ok, depth); first = false)
    ;
  *out = (struct json_span){from, (size_t)(c->p - from), JSON_SCAN_OBJECT, 0};
  return ok;
}

static bool scan_value(struct json_cursor *c, struct json_span *out, int depth) {
  if (c->p == c->end || depth > MAX_DEPTH)
    return false;
  switch (*c->p) {
  case '{':
    return scan_object(c, out, depth);
  case '[':
    return scan_array(c, out, depth);
  case '"':
    return scan_string(c, out);
  case 't':
    return scan_literal(c, out, "true");
  case 'f':
    return scan_literal(c, out, "false");
  case 'n':
    return scan_literal(c, out, "null");
  default:
    return scan_number(c, out);
  }
}

bool json_scan_value(struct json_cursor *c, struct json_span *out) { return scan_value(c, out, 0); }
