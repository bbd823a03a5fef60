/* json_scan.h: a strict JSON recogniser that builds no tree: for lines of token ids, where a tree would cost more than
 * the file. Held against Jansson by tests/unit/test_trace_json.c. */
#ifndef TRACES_JSON_SCAN_H
#define TRACES_JSON_SCAN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_kind { JSON_SCAN_NUMBER, JSON_SCAN_STRING, JSON_SCAN_ARRAY, JSON_SCAN_OBJECT, JSON_SCAN_LITERAL };

struct json_span {
  const char *s; /* of a string: without its quotes, escapes not undone */
  size_t n;
  enum json_kind kind;
  int64_t elements; /* of an array */
};

struct json_cursor {
  const char *p, *end;
};

void json_scan_space(struct json_cursor *c);
/* The value at the cursor, which moves past it; false if it is not JSON (RFC 8259; nesting up to 64). */
bool json_scan_value(struct json_cursor *c, struct json_span *out);

/* Members of an object, one by one: begin; then next until it is false; then *ok tells whether the object was whole. */
bool json_scan_object_begin(struct json_cursor *c);
bool json_scan_object_next(struct json_cursor *c, bool first, struct json_span *key, struct json_span *value, bool *ok);

#endif
