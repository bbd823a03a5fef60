#include "traces/csv.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sim/base/units.h"

/* From the start of a field: the separator that ends it, or `end`; NULL if a quote is still open there. */
static const char *field_end(const char *p, const char *end, char separator) {
  while (p < end && *p == ' ')
    p++;
  if (p < end && *p == '"') {
    for (p++;; p += 2) { /* a doubled quote stands for one */
      p = memchr(p, '"', (size_t)(end - p));
      if (!p)
        return NULL;
      if (p + 1 >= end || p[1] != '"')
        break;
    }
  }
  const char *found = memchr(p, separator, (size_t)(end - p));
  return found ? found : end;
}

static struct csv_field trim(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t'))
    p++;
  while (end > p && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
    end--;
  if (end - p >= 2 && *p == '"' && end[-1] == '"')
    p++, end--;
  return (struct csv_field){p, (size_t)(end - p)};
}

bool csv_get(const struct csv_field *record, char separator, int index, struct csv_field *out) {
  const char *p = record->s, *end = p + record->n;
  for (int i = 0;; i++) {
    const char *stop = field_end(p, end, separator);
    if (!stop)
      stop = end;
    if (i == index) {
      *out = trim(p, stop);
      return true;
    }
    if (stop == end)
      return false;
    p = stop + 1;
  }
}

static bool quote_open(const char *p, const char *end, char separator) {
  while (p <= end) {
    p = field_end(p, end, separator);
    if (!p)
      return true;
    p++;
  }
  return false;
}

static char separator_of(const char *line, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (line[i] == ',' || line[i] == ';' || line[i] == '\t')
      return line[i];
  return ',';
}

static bool blank_or_comment(const char *line, size_t n) {
  struct csv_field f = trim(line, line + n);
  return f.n == 0 || *f.s == '#';
}

int csv_record(struct trace_source *src, const struct csv_table *table, const struct trace_sink *sink,
               struct csv_field *record, int64_t *line, struct err *err) {
  int rc;
  do
    rc = trace_source_line(src, &record->s, &record->n, err);
  while (rc > 0 && blank_or_comment(record->s, record->n));
  *line = src->line;
  while (rc > 0 && memchr(record->s, '"', record->n) &&
         quote_open(record->s, record->s + record->n, table->separator)) {
    rc = trace_source_line_extend(src, &record->s, &record->n, err);
    if (rc == 0)
      return trace_sink_broken(sink, *line, err, "a quote opened here is never closed");
  }
  return rc;
}

int csv_table_open(struct csv_table *table, struct trace_source *src, const struct trace_sink *sink, struct err *err) {
  struct csv_field record;
  int64_t line;
  *table = (struct csv_table){.separator = ','};
  int rc = csv_record(src, table, sink, &record, &line, err);
  if (rc < 0)
    return -1;
  if (rc == 0)
    return err_set(err, "trace '%s': is empty: no header, no lengths", sink->path);
  table->header = xmalloc(record.n + 1);
  table->header_n = record.n;
  memcpy(table->header, record.s, record.n);
  table->header[record.n] = 0;
  table->separator = separator_of(record.s, record.n);
  return 0;
}

void csv_table_release(struct csv_table *table) {
  free(table->header);
  *table = (struct csv_table){0};
}

static int find_one(const char *header, size_t n, char separator, const char *name,
                    int (*compare)(const char *, const char *, size_t)) {
  struct csv_field record = {header, n}, f;
  for (int i = 0; csv_get(&record, separator, i, &f); i++)
    if (f.n == strlen(name) && compare(f.s, name, f.n) == 0)
      return i;
  return -1;
}

int csv_find(const struct csv_table *table, const char *const *names) {
  for (const char *const *name = names; *name; name++) {
    int i = find_one(table->header, table->header_n, table->separator, *name, strncmp);
    if (i < 0)
      i = find_one(table->header, table->header_n, table->separator, *name, strncasecmp);
    if (i >= 0)
      return i;
  }
  return -1;
}

bool csv_line_has(const char *line, size_t n, const char *name) {
  return find_one(line, n, separator_of(line, n), name, strncasecmp) >= 0;
}

int csv_no_column(const struct csv_table *table, const struct trace_sink *sink, int64_t line, const char *name,
                  struct err *err) {
  struct csv_field record = {table->header, table->header_n}, f;
  char columns[300] = "";
  for (int i = 0; csv_get(&record, table->separator, i, &f) && strlen(columns) < sizeof columns - 60; i++)
    snprintf(columns + strlen(columns), sizeof columns - strlen(columns), "%s'%s'", i ? ", " : "",
             excerpt_make(f.s, f.n).text);
  return trace_sink_broken(sink, line, err, "no column '%s' in the header (it has %s); name one with --column", name,
                           columns);
}
