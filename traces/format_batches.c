/* Batches that a data loader has formed: {"batches": [[512, 77], [2048]]}, each an array as in json. Scanned as it
 * streams by. Every sample is noted with the number of its batch, its position in "batches". */
#include <string.h>

#include "sim/base/json.h"
#include "traces/format.h"
#include "traces/json_array.h"

#define SCHEMA "dcpsim.batches/1"
#define NAME_BYTES 64 /* of a key, or of the schema's name */

static size_t skip_space(const struct trace_peek *peek, size_t at) {
  while (at < peek->n && strchr(" \t\r\n", peek->bytes[at]) && peek->bytes[at])
    at++;
  return at;
}

/* "batches", a colon and a bracket: other keys of that name are jsonl's business. */
static bool detect(const struct trace_peek *peek) {
  static const char key[] = "\"batches\"";
  const char *found, *end = peek->bytes + peek->n;
  if (peek->line_n == 0 || *peek->line != '{')
    return false;
  for (const char *p = peek->line; (found = memmem(p, (size_t)(end - p), key, sizeof key - 1)) != NULL; p = found + 1) {
    size_t at = skip_space(peek, (size_t)(found - peek->bytes) + sizeof key - 1);
    if (at == peek->n || peek->bytes[at] != ':')
      continue;
    at = skip_space(peek, at + 1);
    if (at < peek->n && peek->bytes[at] == '[')
      return true;
  }
  return false;
}

static int broken_end(const struct trace_source *src, const struct trace_sink *sink, struct err *err) {
  return trace_sink_broken(sink, src->line, err, "the file ends inside the JSON object");
}

/* The next character that is no white space, which must be `wanted` and is used up. */
static int expect(struct trace_source *src, const struct trace_sink *sink, char wanted, const char *what,
                  struct err *err) {
  char c;
  int rc = json_array_char(src, &c, err);
  if (rc <= 0)
    return rc < 0 ? -1 : broken_end(src, sink, err);
  if (c != wanted)
    return trace_sink_broken(sink, src->line, err, "'%s' where %s belongs", excerpt_make(&c, 1).text, what);
  src->pos++;
  return 0;
}

/* A string in its quotes, into `out` of NAME_BYTES. Escapes stay as they are: no name that is known has any. */
static int read_name(struct trace_source *src, const struct trace_sink *sink, const char *what, char *out,
                     struct err *err) {
  if (expect(src, sink, '"', what, err))
    return -1;
  int64_t have = trace_source_peek(src, NAME_BYTES, err);
  if (have < 0)
    return -1;
  const char *s = src->buf + src->pos, *end = memchr(s, '"', have < NAME_BYTES ? (size_t)have : NAME_BYTES);
  if (!end && have < NAME_BYTES)
    return broken_end(src, sink, err);
  size_t n = end ? (size_t)(end - s) : NAME_BYTES;
  struct excerpt e = excerpt_make(s, n);
  if (!end)
    return trace_sink_broken(sink, src->line, err, "%s is too long: '%s'", what, e.text);
  memcpy(out, s, n);
  out[n] = '\0';
  src->pos += n + 1;
  return 0;
}

static int read_schema(struct trace_source *src, const struct trace_sink *sink, struct err *err) {
  char name[NAME_BYTES];
  if (read_name(src, sink, "the schema", name, err))
    return -1;
  if (strcmp(name, SCHEMA) == 0)
    return 0;
  return trace_sink_broken(sink, src->line, err, "the schema must be '%s', got '%s'", SCHEMA,
                           excerpt_make(name, strlen(name)).text);
}

static int not_a_batch(struct trace_source *src, const struct trace_sink *sink, struct err *err) {
  size_t n;
  int rc = json_array_span(src, &n, err);
  if (rc <= 0)
    return rc < 0 ? -1 : broken_end(src, sink, err);
  return trace_sink_broken(sink, src->line, err, "batch %lld must be an array of lengths, got '%s'",
                           (long long)sink->batch_number, excerpt_make(src->buf + src->pos, n).text);
}

/* One batch; an empty one is a bad value like an empty array of tokens elsewhere. */
static int read_batch(struct trace_source *src, const char *column, struct trace_sink *sink, struct err *err) {
  size_t n = sink->n;
  int64_t skipped_bad = sink->skipped_bad;
  char c;
  int rc = json_array_char(src, &c, err);
  if (rc <= 0)
    return rc < 0 ? -1 : broken_end(src, sink, err);
  if (c != '[')
    return not_a_batch(src, sink, err);
  if (sink->batch_number > UINT32_MAX)
    return trace_sink_broken(sink, src->line, err, "more than %u batches", UINT32_MAX);
  if (json_array_lengths(src, column, sink, err))
    return -1;
  if (sink->n == n && sink->skipped_bad == skipped_bad)
    return trace_sink_bad(sink, src->line, err, "batch %lld is empty", (long long)sink->batch_number);
  return 0;
}

static int read_array(struct trace_source *src, const char *column, struct trace_sink *sink, struct err *err) {
  char c;
  if (expect(src, sink, '[', "the array of batches", err))
    return -1;
  int rc = json_array_char(src, &c, err);
  if (rc > 0 && c == ']') {
    src->pos++;
    return 0;
  }
  for (sink->batch_number = 0; rc > 0; sink->batch_number++) {
    if (read_batch(src, column, sink, err))
      return -1;
    rc = json_array_char(src, &c, err);
    if (rc > 0 && c == ']') {
      src->pos++;
      return 0;
    }
    if (rc > 0 && expect(src, sink, ',', "a comma", err))
      return -1;
  }
  return rc < 0 ? -1 : broken_end(src, sink, err);
}

/* "key": value; *has: which keys were there. */
static int read_member(struct trace_source *src, const char *column, struct trace_sink *sink, bool has[2],
                       struct err *err) {
  static const char *const keys[] = {"batches", "schema", NULL};
  char key[NAME_BYTES];
  if (read_name(src, sink, "a key", key, err))
    return -1;
  int k = strcmp(key, keys[0]) == 0 ? 0 : strcmp(key, keys[1]) == 0 ? 1 : 2;
  if (k == 2) {
    const char *nearest = nearest_word(key, keys);
    struct excerpt e = excerpt_make(key, strlen(key));
    return nearest ? trace_sink_broken(sink, src->line, err, "unknown key '%s', did you mean '%s'?", e.text, nearest)
                   : trace_sink_broken(sink, src->line, err, "unknown key '%s' (valid: batches, schema)", e.text);
  }
  if (has[k])
    return trace_sink_broken(sink, src->line, err, "duplicate key '%s'", key);
  has[k] = true;
  if (expect(src, sink, ':', "a colon", err))
    return -1;
  return k == 0 ? read_array(src, column, sink, err) : read_schema(src, sink, err);
}

static int read_batches(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                        struct err *err) {
  bool has[2] = {false, false};
  char c;
  src->line = 1;
  sink->has_batches = true;
  if (expect(src, sink, '{', "the object with \"batches\"", err))
    return -1;
  do {
    if (read_member(src, options->column, sink, has, err))
      return -1;
    int rc = json_array_char(src, &c, err);
    if (rc <= 0)
      return rc < 0 ? -1 : broken_end(src, sink, err);
    if (c != '}' && c != ',')
      return trace_sink_broken(sink, src->line, err, "'%s' where a comma belongs", excerpt_make(&c, 1).text);
    src->pos++;
  } while (c == ',');
  if (!has[0])
    return trace_sink_broken(sink, src->line, err, "no key 'batches' in the object");
  int rc = json_array_char(src, &c, err);
  if (rc > 0)
    return trace_sink_broken(sink, src->line, err, "data after the end of the JSON object");
  return rc;
}

static int write_batches(const struct trace *t, FILE *out, struct err *err) {
  if (!t->batch)
    return err_usage(err, "trace '%s' holds no batches and cannot be written as batches", t->name ? t->name : "-");
  fprintf(out, "{\"schema\": \"%s\", \"batches\": [", SCHEMA);
  for (int64_t i = 0; i < t->n; i++) {
    bool begins = i == 0 || t->batch[i] != t->batch[i - 1];
    fprintf(out, "%s%u", i == 0 ? "\n[" : begins ? "],\n[" : ", ", t->samples[i].a);
  }
  fputs("]\n]}\n", out);
  return 0;
}

const struct trace_format format_batches = {
    .name = "batches",
    .help = "batches as the data loader forms them: {\"batches\": [[512, 77], [2048]]}, each an array as in json",
    .detect = detect,
    .read = read_batches,
    .write = write_batches,
};
