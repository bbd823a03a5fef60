#include "calib/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "calib/text_file.h"
#include "sim/base/units.h"

/* Position in the text. Fields are cut out in place: a field only shrinks when its quotes go. */
struct cursor {
  char *p;
  int64_t line;
  char separator;
};

static bool at_line_end(const char *p) { return *p == '\0' || *p == '\n' || (*p == '\r' && (p[1] == '\n' || !p[1])); }

static void skip_line_end(struct cursor *c) {
  if (*c->p == '\r')
    c->p++;
  if (*c->p == '\n') {
    c->p++;
    c->line++;
  }
}

static bool is_blank(char ch) { return ch == ' ' || ch == '\t'; }

static void skip_blanks(struct cursor *c) {
  while (is_blank(*c->p) && *c->p != c->separator)
    c->p++;
}

/* To the next line that is neither blank nor a comment; false at the end of the text. */
static bool next_record(struct cursor *c) {
  for (;;) {
    char *start = c->p;
    while (is_blank(*c->p))
      c->p++;
    if (*c->p == '#')
      c->p += strcspn(c->p, "\n");
    else if (!at_line_end(c->p)) {
      c->p = start;
      return true;
    }
    if (!*c->p)
      return false;
    skip_line_end(c);
  }
}

/* A quoted field after its opening quote, unquoted in place; NULL if it never closes. */
static char *quoted(struct cursor *c) {
  char *start = c->p, *to = start;
  for (; *c->p; c->p++) {
    if (*c->p == '"' && *++c->p != '"') {
      *to = '\0';
      return start;
    }
    if (*c->p == '\n')
      c->line++;
    *to++ = *c->p;
  }
  return NULL;
}

/* The next field of a record, NUL-terminated, trimmed. *more: another follows on this line. NULL and *err on bad
 * quotes.
 */
static char *next_field(struct cursor *c, const struct table *t, bool *more, struct err *err) {
  int64_t line = c->line;
  char *field, *end;
  skip_blanks(c);
  if (*c->p == '"') {
    c->p++;
    field = quoted(c);
    if (!field) {
      err_set(err, "%s '%s' line %lld: a quoted field is not closed", t->kind, t->path, (long long)line);
      return NULL;
    }
    end = field + strlen(field);
    skip_blanks(c);
    if (*c->p != c->separator && !at_line_end(c->p)) {
      err_set(err, "%s '%s' line %lld: text after a closing quote", t->kind, t->path, (long long)c->line);
      return NULL;
    }
  } else {
    field = c->p;
    while (*c->p != c->separator && !at_line_end(c->p))
      c->p++;
    end = c->p;
    while (end > field && is_blank(end[-1]))
      end--;
  }
  *more = *c->p == c->separator;
  if (*more)
    c->p++;
  else
    skip_line_end(c);
  *end = '\0'; /* last: it may overwrite the separator or the line end just passed */
  return field;
}

static char find_separator(const char *header) {
  size_t at = strcspn(header, ",;\t\n");
  return header[at] == ';' || header[at] == '\t' ? header[at] : ',';
}

static int read_header(struct table *t, struct cursor *c, struct err *err) {
  size_t cap = 0;
  bool more = true;
  if (!next_record(c))
    return err_set(err, "%s '%s' is empty: a CSV header is needed", t->kind, t->path);
  int64_t line = c->line;
  c->separator = find_separator(c->p);
  while (more) {
    char *name = next_field(c, t, &more, err);
    if (!name)
      return -1;
    if (!*name)
      return err_set(err, "%s '%s' line %lld: column %zu has no name", t->kind, t->path, (long long)line,
                     t->n_columns + 1);
    if (table_column(t, name) >= 0)
      return err_set(err, "%s '%s' line %lld: two columns are named '%s'", t->kind, t->path, (long long)line, name);
    VEC_PUSH(t->columns, t->n_columns, cap, name);
  }
  return 0;
}

static int read_rows(struct table *t, struct cursor *c, struct err *err) {
  size_t n = 0, cap = 0, lines_cap = 0;
  while (next_record(c)) {
    int64_t line = c->line;
    size_t first = n;
    bool more = true;
    while (more) {
      char *field = next_field(c, t, &more, err);
      if (!field)
        return -1;
      VEC_PUSH(t->fields, n, cap, field);
    }
    if (n - first != t->n_columns)
      return err_set(err, "%s '%s' line %lld: %zu field%s, but the header has %zu", t->kind, t->path, (long long)line,
                     n - first, n - first == 1 ? "" : "s", t->n_columns);
    VEC_PUSH(t->lines, t->n_rows, lines_cap, line);
  }
  return 0;
}

static int parse(struct table *t, struct err *err) {
  struct cursor c = {.p = t->text, .line = 1};
  if (strncmp(c.p, "\xEF\xBB\xBF", 3) == 0)
    c.p += 3;
  if (read_header(t, &c, err) == 0 && read_rows(t, &c, err) == 0)
    return 0;
  table_release(t);
  return -1;
}

int table_read(struct table *t, const char *kind, const char *path, struct err *err) {
  size_t n;
  *t = (struct table){.kind = kind};
  if (text_file_read(kind, path, &t->text, &n, err))
    return -1;
  t->path = xstrdup(text_file_name(path));
  return parse(t, err);
}

int table_parse(struct table *t, const char *kind, const char *path, const char *text, struct err *err) {
  *t = (struct table){.kind = kind, .path = xstrdup(path), .text = xstrdup(text)};
  return parse(t, err);
}

void table_release(struct table *t) {
  free(t->path);
  free(t->text);
  free(t->columns);
  free(t->fields);
  free(t->lines);
  *t = (struct table){0};
}

int table_column(const struct table *t, const char *name) {
  for (size_t i = 0; i < t->n_columns; i++)
    if (strcmp(t->columns[i], name) == 0)
      return (int)i;
  return -1;
}

int table_error(const struct table *t, size_t row, struct err *err, const char *fmt, ...) {
  char message[800];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(message, sizeof message, fmt, ap);
  va_end(ap);
  return err_set(err, "%s '%s' line %lld: %s", t->kind, t->path, (long long)t->lines[row], message);
}

void table_list_columns(const struct table *t, char *buf, size_t size) {
  size_t n = 0;
  buf[0] = '\0';
  for (size_t i = 0; i < t->n_columns && n < size; i++)
    n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "", t->columns[i]);
}

void table_put_field(FILE *out, const char *s) {
  bool is_plain = !s[strcspn(s, ",\"\r\n")] && s[0] != '#' && !is_blank(s[0]) && (!s[0] || !is_blank(s[strlen(s) - 1]));
  if (is_plain) {
    fputs(s, out);
    return;
  }
  fputc('"', out);
  for (; *s; s++) {
    if (*s == '"')
      fputc('"', out);
    fputc(*s, out);
  }
  fputc('"', out);
}
