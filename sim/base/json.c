#include "sim/base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"

/* ---- Lines of nodes: a scanner that walks the text and the tree together ------------------------------------------
 */

/* What to look for: the node `value`, or the entry `key` of the object `value`. The text has parsed, so the scanner
 * need not check it. */
struct scan {
  const char *p;
  int line;
  const json_t *value;
  const char *key;
  int found; /* line, 0 = not yet */
};

static void skip_space(struct scan *s) {
  for (; *s->p == ' ' || *s->p == '\t' || *s->p == '\r' || *s->p == '\n'; s->p++)
    s->line += *s->p == '\n';
}

/* Moves past a string; returns its first character after the quote and its raw size. */
static const char *skip_string(struct scan *s, size_t *size) {
  const char *start = ++s->p;
  while (*s->p && *s->p != '"')
    s->p += *s->p == '\\' && s->p[1] ? 2 : 1;
  *size = (size_t)(s->p - start);
  s->p += *s->p == '"';
  return start;
}

/* The key as Jansson stores it: escapes undone. Caller frees. */
static char *decode_key(const char *raw, size_t size) {
  json_t *string = json_loadb(raw - 1, size + 2, JSON_DECODE_ANY, NULL);
  char *key = xstrdup(string ? json_string_value(string) : "");
  json_decref(string);
  return key;
}

static void scan_value(struct scan *s, const json_t *node);

static void scan_object(struct scan *s, const json_t *node) {
  s->p++;
  for (skip_space(s); *s->p == '"' && !s->found; skip_space(s)) {
    int key_line = s->line;
    size_t size;
    const char *raw = skip_string(s, &size);
    char *key = decode_key(raw, size);
    if (s->key && node == s->value && strcmp(key, s->key) == 0)
      s->found = key_line;
    skip_space(s);
    s->p += *s->p == ':';
    scan_value(s, json_object_get(node, key));
    free(key);
    skip_space(s);
    s->p += *s->p == ',';
  }
  s->p += *s->p == '}';
}

static void scan_array(struct scan *s, const json_t *node) {
  s->p++;
  skip_space(s);
  for (size_t i = 0; *s->p && *s->p != ']' && !s->found; i++) {
    scan_value(s, json_array_get(node, i));
    skip_space(s);
    s->p += *s->p == ',';
    skip_space(s);
  }
  s->p += *s->p == ']';
}

static void scan_value(struct scan *s, const json_t *node) {
  skip_space(s);
  if (!s->key && node == s->value && !s->found)
    s->found = s->line;
  if (s->found)
    return;
  size_t size;
  if (*s->p == '{')
    scan_object(s, node);
  else if (*s->p == '[')
    scan_array(s, node);
  else if (*s->p == '"')
    skip_string(s, &size);
  else
    s->p += strcspn(s->p, ",]} \t\r\n");
}

static int line_of(const struct json_doc *doc, const json_t *value, const char *key) {
  if (!doc->text || !doc->root || !value)
    return 0;
  struct scan s = {.p = doc->text, .line = 1, .value = value, .key = key};
  scan_value(&s, doc->root);
  return s.found;
}

int json_doc_line(const struct json_doc *doc, const json_t *value) { return line_of(doc, value, NULL); }

/* ---- Messages -----------------------------------------------------------------------------------------------------
 */

static const char *shown_path(const char *path) { return strcmp(path, "-") == 0 ? "stdin" : path; }

static int fail_at(const struct json_doc *doc, int line, struct err *err, const char *fmt, va_list ap) {
  char msg[800];
  vsnprintf(msg, sizeof msg, fmt, ap);
  if (line > 0)
    return err_set(err, "%s '%s' line %d: %s", doc->kind, shown_path(doc->path), line, msg);
  return err_set(err, "%s '%s': %s", doc->kind, shown_path(doc->path), msg);
}

int json_error(const struct json_doc *doc, const json_t *value, struct err *err, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fail_at(doc, json_doc_line(doc, value), err, fmt, ap);
  va_end(ap);
  return -1;
}

__attribute__((format(printf, 4, 5))) static int error_at_line(const struct json_doc *doc, int line, struct err *err,
                                                               const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  fail_at(doc, line, err, fmt, ap);
  va_end(ap);
  return -1;
}

/* What stands in the file, short enough for a message. */
static void describe(const json_t *value, char *buf, size_t size) {
  if (json_is_object(value)) {
    snprintf(buf, size, "an object");
  } else if (json_is_array(value)) {
    snprintf(buf, size, "an array");
  } else {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    snprintf(buf, size, "%.60s%s", text ? text : "?", text && strlen(text) > 60 ? "..." : "");
    free(text);
  }
}

/* "'key' must be <what>, got <value>", at the line of the key. */
static int wrong_value(const struct json_doc *doc, const json_t *object, const char *key, const char *what,
                       struct err *err) {
  char got[80];
  describe(json_object_get(object, key), got, sizeof got);
  return error_at_line(doc, line_of(doc, object, key), err, "'%s' must be %s, got %s", key, what, got);
}

/* ---- Reading ------------------------------------------------------------------------------------------------------
 */

static int read_all(FILE *file, char **out, size_t *size, struct err *err, const char *kind, const char *path) {
  size_t n = 0, cap = 1 << 16;
  char *text = xmalloc(cap + 1);
  for (;;) {
    errno = 0;
    n += fread(text + n, 1, cap - n, file);
    if (n < cap)
      break;
    if (cap > JSON_MAX_BYTES) {
      free(text);
      return err_set(err, "%s '%s' is larger than %u MiB", kind, path, JSON_MAX_BYTES >> 20);
    }
    cap = size_mul(cap, 2);
    text = xrealloc(text, cap + 1);
  }
  if (ferror(file)) {
    err_set(err, "cannot read %s '%s': %s", kind, path, strerror(errno));
    free(text);
    return -1;
  }
  if (n > JSON_MAX_BYTES) {
    free(text);
    return err_set(err, "%s '%s' is larger than %u MiB", kind, path, JSON_MAX_BYTES >> 20);
  }
  text[n] = '\0';
  *out = text;
  *size = n;
  return 0;
}

/* Nesting deeper than JSON_MAX_DEPTH is refused before anything recursive sees the text. */
static int check_depth(const struct json_doc *doc, struct err *err) {
  struct scan s = {.p = doc->text, .line = 1};
  int depth = 0;
  while (*s.p) {
    size_t size;
    if (*s.p == '"') {
      skip_string(&s, &size);
      continue;
    }
    s.line += *s.p == '\n';
    depth += (*s.p == '{' || *s.p == '[') - (*s.p == '}' || *s.p == ']');
    if (depth > JSON_MAX_DEPTH)
      return error_at_line(doc, s.line, err, "nested deeper than %d levels", JSON_MAX_DEPTH);
    s.p++;
  }
  return 0;
}

static int check_schema(const struct json_doc *doc, const char *schema, struct err *err) {
  const char *found = NULL;
  if (json_get_string(doc, doc->root, "schema", false, &found, err) < 0)
    return -1;
  if (!found)
    return json_error(doc, doc->root, err, "'schema' is missing, expected \"schema\": \"%s\"", schema);
  if (strcmp(found, schema) == 0)
    return 0;
  return error_at_line(doc, line_of(doc, doc->root, "schema"), err, "'schema' must be \"%s\", got \"%.60s\"", schema,
                       found);
}

/* Parses doc->text, which the document owns already. */
static int parse(struct json_doc *doc, size_t size, const char *schema, struct err *err) {
  const char *nul = memchr(doc->text, '\0', size);
  if (nul) {
    int line = 1;
    for (const char *p = doc->text; p < nul; p++)
      line += *p == '\n';
    return error_at_line(doc, line, err, "a NUL byte: not a JSON text");
  }
  if (size >= 3 && memcmp(doc->text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
    memmove(doc->text, doc->text + 3, (size -= 3) + 1);
  if (check_depth(doc, err) < 0)
    return -1;
  json_error_t e;
  doc->root = json_loadb(doc->text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &e);
  if (!doc->root)
    return error_at_line(doc, e.line, err, "%s", e.text);
  if (!json_is_object(doc->root))
    return json_error(doc, doc->root, err, "must be a JSON object");
  return schema ? check_schema(doc, schema, err) : 0;
}

int json_doc_parse(struct json_doc *doc, const char *kind, const char *path, const char *text, const char *schema,
                   struct err *err) {
  *doc = (struct json_doc){.kind = kind, .path = xstrdup(path), .text = xstrdup(text)};
  if (parse(doc, strlen(text), schema, err) == 0)
    return 0;
  json_doc_release(doc);
  return -1;
}

int json_doc_read(struct json_doc *doc, const char *kind, const char *path, const char *schema, struct err *err) {
  *doc = (struct json_doc){.kind = kind};
  FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
  if (!file)
    return err_set(err, "cannot open %s '%s': %s", kind, path, strerror(errno));
  size_t size = 0;
  int status = read_all(file, &doc->text, &size, err, kind, shown_path(path));
  if (file != stdin)
    fclose(file);
  if (status < 0)
    return -1;
  doc->path = xstrdup(path);
  if (parse(doc, size, schema, err) == 0)
    return 0;
  json_doc_release(doc);
  return -1;
}

void json_doc_release(struct json_doc *doc) {
  json_decref(doc->root);
  free(doc->path);
  free(doc->text);
  *doc = (struct json_doc){0};
}

/* ---- Keys ---------------------------------------------------------------------------------------------------------
 */

#define WORD_MAX 64

static int same_char(char a, char b) { return a == b || (a == '-' && b == '_') || (a == '_' && b == '-'); }

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b; '-' and '_' are the same character. */
static int edit_distance(const char *a, size_t n, const char *b, size_t m) {
  int d[WORD_MAX + 1][WORD_MAX + 1];
  for (size_t i = 0; i <= n; i++)
    d[i][0] = (int)i;
  for (size_t j = 0; j <= m; j++)
    d[0][j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    for (size_t j = 1; j <= m; j++) {
      int best = d[i - 1][j - 1] + !same_char(a[i - 1], b[j - 1]);
      if (d[i - 1][j] + 1 < best)
        best = d[i - 1][j] + 1;
      if (d[i][j - 1] + 1 < best)
        best = d[i][j - 1] + 1;
      if (i > 1 && j > 1 && same_char(a[i - 1], b[j - 2]) && same_char(a[i - 2], b[j - 1]) &&
          d[i - 2][j - 2] + 1 < best)
        best = d[i - 2][j - 2] + 1;
      d[i][j] = best;
    }
  }
  return d[n][m];
}

const char *nearest_word(const char *word, const char *const *candidates) {
  size_t n = strlen(word);
  if (n == 0 || n > WORD_MAX)
    return NULL;
  const char *nearest = NULL;
  int best = INT_MAX;
  for (; *candidates; candidates++) {
    size_t m = strlen(*candidates);
    if (m > WORD_MAX)
      continue;
    int limit = 1 + (int)(n < m ? n : m) / 4;
    int distance = edit_distance(word, n, *candidates, m);
    if (distance <= limit && distance < (int)m && distance < best) {
      best = distance;
      nearest = *candidates;
    }
  }
  return nearest;
}

/* "a, b, c" of a NULL-terminated list, cut with "..." when it does not fit. */
static void list_words(const char *const *words, char *buf, size_t size) {
  size_t n = 0;
  buf[0] = '\0';
  for (size_t i = 0; words[i]; i++) {
    size_t need = strlen(words[i]) + 2;
    if (n + need + 4 >= size) {
      snprintf(buf + n, size - n, ", ...");
      return;
    }
    n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "", words[i]);
  }
}

int json_check_keys(const struct json_doc *doc, const json_t *object, const char *const *valid, struct err *err) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    const char *const *v = valid;
    while (*v && strcmp(*v, key) != 0)
      v++;
    if (*v)
      continue;
    int line = line_of(doc, object, key);
    const char *nearest = nearest_word(key, valid);
    if (nearest)
      return error_at_line(doc, line, err, "unknown key '%.60s', did you mean '%s'?", key, nearest);
    char list[600];
    list_words(valid, list, sizeof list);
    return error_at_line(doc, line, err, "unknown key '%.60s' (valid: %s)", key, list);
  }
  return 0;
}

/* ---- Getters ------------------------------------------------------------------------------------------------------
 */

/* object[key]; NULL with *status 0 (absent, allowed) or -1 (absent, required). */
static json_t *find(const struct json_doc *doc, const json_t *object, const char *key, bool required, int *status,
                    struct err *err) {
  json_t *value = json_object_get(object, key);
  *status = 0;
  if (!value && required)
    *status = json_error(doc, object, err, "'%s' is missing", key);
  return value;
}

int json_get_int(const struct json_doc *doc, const json_t *object, const char *key, bool required, int64_t min,
                 int64_t max, int64_t *out, struct err *err) {
  int status;
  const json_t *value = find(doc, object, key, required, &status, err);
  if (!value)
    return status;
  bool ok = json_is_integer(value);
  int64_t v = ok ? json_integer_value(value) : 0;
  double real = json_is_real(value) ? json_real_value(value) : 0.5;
  if (real == floor(real) && fabs(real) <= 9007199254740992.0) { /* 1e6 is an integer too */
    ok = true;
    v = (int64_t)real;
  }
  if (ok && v >= min && v <= max) {
    *out = v;
    return 0;
  }
  char what[100];
  if (min == INT64_MIN && max == INT64_MAX)
    snprintf(what, sizeof what, "an integer");
  else if (max == INT64_MAX)
    snprintf(what, sizeof what, "an integer >= %" PRId64, min);
  else if (min == INT64_MIN)
    snprintf(what, sizeof what, "an integer <= %" PRId64, max);
  else
    snprintf(what, sizeof what, "an integer from %" PRId64 " to %" PRId64, min, max);
  return wrong_value(doc, object, key, what, err);
}

int json_get_double(const struct json_doc *doc, const json_t *object, const char *key, bool required, double min,
                    double max, double *out, struct err *err) {
  int status;
  const json_t *value = find(doc, object, key, required, &status, err);
  if (!value)
    return status;
  double v = json_number_value(value);
  if (json_is_number(value) && v >= min && v <= max) {
    *out = v;
    return 0;
  }
  char what[100], low[32], high[32];
  double_text(min, low);
  double_text(max, high);
  bool open_below = min <= -1e300, open_above = max >= 1e300;
  if (open_below && open_above)
    snprintf(what, sizeof what, "a number");
  else if (open_above)
    snprintf(what, sizeof what, "a number >= %s", low);
  else if (open_below)
    snprintf(what, sizeof what, "a number <= %s", high);
  else
    snprintf(what, sizeof what, "a number from %s to %s", low, high);
  return wrong_value(doc, object, key, what, err);
}

int json_get_bool(const struct json_doc *doc, const json_t *object, const char *key, bool required, bool *out,
                  struct err *err) {
  int status;
  const json_t *value = find(doc, object, key, required, &status, err);
  if (!value)
    return status;
  if (!json_is_boolean(value))
    return wrong_value(doc, object, key, "true or false", err);
  *out = json_is_true(value);
  return 0;
}

int json_get_string(const struct json_doc *doc, const json_t *object, const char *key, bool required, const char **out,
                    struct err *err) {
  int status;
  const json_t *value = find(doc, object, key, required, &status, err);
  if (!value)
    return status;
  if (!json_is_string(value))
    return wrong_value(doc, object, key, "a string", err);
  *out = json_string_value(value);
  return 0;
}

int json_get_array(const struct json_doc *doc, const json_t *object, const char *key, bool required, json_t **out,
                   struct err *err) {
  int status;
  json_t *value = find(doc, object, key, required, &status, err);
  if (!value)
    return status;
  if (!json_is_array(value))
    return wrong_value(doc, object, key, "an array", err);
  *out = value;
  return 0;
}

int json_get_object(const struct json_doc *doc, const json_t *object, const char *key, bool required, json_t **out,
                    struct err *err) {
  int status;
  json_t *value = find(doc, object, key, required, &status, err);
  if (!value)
    return status;
  if (!json_is_object(value))
    return wrong_value(doc, object, key, "an object", err);
  *out = value;
  return 0;
}

/* ---- Writing ------------------------------------------------------------------------------------------------------
 */

static void new_line(const struct json_writer *w) {
  if (!w->indent)
    return;
  fputc('\n', w->file);
  for (int i = 0; i < w->depth; i++)
    fputs("  ", w->file);
}

/* What stands before a value or a key: nothing after a key or at the top, else a comma from the second on. */
static void before_item(struct json_writer *w) {
  if (w->after_key || w->depth == 0) {
    w->after_key = false;
    return;
  }
  if (w->comma[w->depth])
    fputc(',', w->file);
  w->comma[w->depth] = true;
  new_line(w);
}

static void begin(struct json_writer *w, char bracket) {
  before_item(w);
  fputc(bracket, w->file);
  ASSERT(w->depth + 1 < JSON_MAX_DEPTH);
  w->comma[++w->depth] = false;
}

static void end(struct json_writer *w, char bracket) {
  ASSERT(w->depth > 0 && !w->after_key);
  bool empty = !w->comma[w->depth--];
  if (!empty)
    new_line(w);
  fputc(bracket, w->file);
}

void json_begin_object(struct json_writer *w) { begin(w, '{'); }
void json_end_object(struct json_writer *w) { end(w, '}'); }
void json_begin_array(struct json_writer *w) { begin(w, '['); }
void json_end_array(struct json_writer *w) { end(w, ']'); }

/* Bytes of the valid UTF-8 sequence at s, or 0. */
static int utf8_size(const unsigned char *s) {
  if (s[0] < 0x80)
    return 1;
  int n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  for (int i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
      (s[0] == 0xf4 && s[1] > 0x8f))
    return 0; /* overlong, a surrogate or past U+10FFFF */
  return n;
}

static void write_char(FILE *f, unsigned char c) {
  static const char short_escapes[] = "\"\"\\\\\nn\rr\tt\bb\ff";
  for (const char *e = short_escapes; *e; e += 2) {
    if (c == (unsigned char)*e) {
      fputc('\\', f);
      fputc(e[1], f);
      return;
    }
  }
  if (c < 0x20)
    fprintf(f, "\\u%04x", c);
  else
    fputc(c, f);
}

static void write_string(FILE *f, const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  fputc('"', f);
  while (*s) {
    int n = utf8_size(s);
    if (n == 1)
      write_char(f, *s);
    else if (n == 0)
      fputs("\xef\xbf\xbd", f);
    else
      fwrite(s, 1, (size_t)n, f);
    s += n ? n : 1;
  }
  fputc('"', f);
}

void json_key(struct json_writer *w, const char *key) {
  ASSERT(w->depth > 0 && !w->after_key);
  before_item(w);
  write_string(w->file, key);
  fputs(w->indent ? ": " : ":", w->file);
  w->after_key = true;
}

void json_int(struct json_writer *w, int64_t v) {
  before_item(w);
  fprintf(w->file, "%" PRId64, v);
}

void json_double(struct json_writer *w, double v) {
  if (!isfinite(v)) {
    json_put_null(w);
    return;
  }
  char buf[32];
  double_text(v, buf);
  before_item(w);
  fputs(buf, w->file);
  if (!strpbrk(buf, ".e"))
    fputs(".0", w->file); /* a real number stays one for readers that tell the two apart */
}

void json_bool(struct json_writer *w, bool v) {
  before_item(w);
  fputs(v ? "true" : "false", w->file);
}

void json_put_null(struct json_writer *w) {
  before_item(w);
  fputs("null", w->file);
}

void json_str(struct json_writer *w, const char *s) {
  before_item(w);
  write_string(w->file, s);
}

void json_key_int(struct json_writer *w, const char *key, int64_t v) {
  json_key(w, key);
  json_int(w, v);
}

void json_key_double(struct json_writer *w, const char *key, double v) {
  json_key(w, key);
  json_double(w, v);
}

void json_key_bool(struct json_writer *w, const char *key, bool v) {
  json_key(w, key);
  json_bool(w, v);
}

void json_key_str(struct json_writer *w, const char *key, const char *s) {
  json_key(w, key);
  json_str(w, s);
}

void double_text(double v, char *buf) {
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(buf, 32, "%.*g", digits, v);
    if (strtod(buf, NULL) == v)
      break;
  }
  for (char *p = buf; *p; p++)
    if (*p == ',') /* a caller's locale */
      *p = '.';
}
