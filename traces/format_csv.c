/* CSV with a header; one column holds the lengths. */
#include <string.h>

#include "traces/csv.h"

static const char *const default_columns[] = {"length",        "num_tokens",   "num_total_tokens",
                                              "ContextTokens", "Total tokens", NULL};

static bool detect(const struct trace_peek *peek) {
  uint32_t length;
  if (peek->line_n == 0 || length_parse(peek->line, peek->line_n, &length) != LENGTH_NOT_NUMBER)
    return peek->column != NULL;
  for (const char *const *name = default_columns; *name; name++)
    if (csv_line_has(peek->line, peek->line_n, *name))
      return true;
  return peek->column || memchr(peek->line, ',', peek->line_n) || memchr(peek->line, ';', peek->line_n) ||
         memchr(peek->line, '\t', peek->line_n);
}

static int read_rows(struct trace_source *src, const struct csv_table *table, int column, const char *label,
                     struct trace_sink *sink, struct err *err) {
  struct csv_field record, f;
  int64_t line;
  int rc;
  while ((rc = csv_record(src, table, sink, &record, &line, err)) > 0) {
    if (!csv_get(&record, table->separator, column, &f))
      f = (struct csv_field){"", 0};
    if (trace_sink_text(sink, line, label, f.s, f.n, err))
      return -1;
  }
  return rc;
}

static int read_csv(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                    struct err *err) {
  const char *const named[] = {options->column, NULL};
  const char *const *names = options->column ? named : default_columns;
  struct csv_table table;
  struct csv_field header, f;
  char label[64];
  if (csv_table_open(&table, src, sink, err))
    return -1;
  int rc = -1, column = csv_find(&table, names);
  if (column < 0) {
    csv_no_column(&table, sink, src->line, names[0], err);
    goto out;
  }
  header = (struct csv_field){table.header, table.header_n};
  csv_get(&header, table.separator, column, &f);
  snprintf(label, sizeof label, "'%s'", excerpt_make(f.s, f.n).text);
  rc = read_rows(src, &table, column, label, sink, err);
out:
  csv_table_release(&table);
  return rc;
}

static int write_csv(const struct trace *t, FILE *out, struct err *err) {
  (void)err;
  fprintf(out, "length\n");
  for (int64_t i = 0; i < t->n; i++)
    fprintf(out, "%u\n", t->samples[i].a);
  return 0;
}

const struct trace_format format_csv = {
    .name = "csv",
    .suffix = ".csv",
    .help = "CSV with a header; --column, by default length, num_tokens, num_total_tokens, ContextTokens or "
            "\"Total tokens\"",
    .detect = detect,
    .read = read_csv,
    .write = write_csv,
};
