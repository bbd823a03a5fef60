/* MosaicML Streaming (MDS): index.json names the shards beside it; each sample's length is read from the head of its
 * column in the shard, not from its tokens. A shard is: samples u32, offsets u32[samples + 1], a copy of the column
 * description, samples; a sample is the byte count u32 of each column of variable size, then the columns. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/units.h"
#include "traces/format.h"

#define BYTES_TOKEN 8 /* a column of encoding 'bytes' holds int64 tokens, as the format's own trainers write it */

static const char *const default_columns[] = {"tokens", "input_ids", "length", "num_tokens", "seq_len", NULL};

static bool detect(const struct trace_peek *peek) {
  return peek->line_n && *peek->line == '{' && memmem(peek->bytes, peek->n, "\"shards\"", 8) &&
         memmem(peek->bytes, peek->n, "\"version\"", 9);
}

enum content { CONTENT_ARRAY, CONTENT_BYTES, CONTENT_NUMBER };

/* Where the length of a sample is found. */
struct column {
  const char *name;
  enum content content;
  bool is_signed;
  unsigned item_bytes;  /* of one element; 0: told by each sample's first byte */
  int64_t fixed_length; /* of an array whose shape the encoding names; else 0 */
  int n_variable;       /* columns of variable size in a sample's head */
  int variable_at;      /* this column among them; -1: its size is fixed */
  int variable_before;  /* ... of which before this column */
  int64_t fixed_before; /* bytes of fixed-size columns before it */
  int64_t size;         /* bytes, if fixed */
};

struct mds {
  struct json_doc doc;
  const struct trace_options *options;
  struct trace_sink *sink;
  int64_t at; /* sample number over all shards */
};

static unsigned type_bytes(const char *s, size_t n, bool *is_signed) {
  static const struct {
    const char *name;
    unsigned bytes;
  } types[] = {{"uint8", 1},  {"int8", 1},  {"uint16", 2}, {"int16", 2},   {"uint32", 4},  {"int32", 4},
               {"uint64", 8}, {"int64", 8}, {"int", 8},    {"float16", 2}, {"float32", 4}, {"float64", 8}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strlen(types[i].name) == n && memcmp(types[i].name, s, n) == 0) {
      *is_signed = s[0] == 'i';
      return types[i].bytes;
    }
  return 0;
}

/* "ndarray", "ndarray:int32", "ndarray:int32:2048": 0, or -1 if it is none of them. */
static int parse_array(const char *encoding, struct column *c) {
  const char *type = strchr(encoding, ':'), *shape = type ? strchr(type + 1, ':') : NULL;
  bool is_signed;
  c->content = CONTENT_ARRAY;
  if (!type)
    return 0;
  c->item_bytes = type_bytes(type + 1, shape ? (size_t)(shape - type - 1) : strlen(type + 1), &is_signed);
  if (c->item_bytes == 0)
    return -1;
  for (const char *p = shape; p && c->fixed_length >= 0; p = strchr(p + 1, ',')) {
    long long dim = strtoll(p + 1, NULL, 10);
    bool fits = dim > 0 && dim <= TRACE_MAX_LENGTH / (c->fixed_length ? c->fixed_length : 1);
    c->fixed_length = fits ? dim * (c->fixed_length ? c->fixed_length : 1) : -1;
  }
  return c->fixed_length < 0 ? -1 : 0;
}

static int parse_encoding(const struct mds *m, const json_t *where, const char *encoding, struct column *c,
                          struct err *err) {
  bool is_float = strncmp(encoding, "float", 5) == 0;
  if (strncmp(encoding, "ndarray", 7) == 0 && (!encoding[7] || encoding[7] == ':')) {
    if (parse_array(encoding, c) == 0)
      return 0;
  } else if (strcmp(encoding, "bytes") == 0) {
    c->content = CONTENT_BYTES;
    c->item_bytes = BYTES_TOKEN;
    return 0;
  } else if (!is_float && (c->item_bytes = type_bytes(encoding, strlen(encoding), &c->is_signed)) > 0) {
    c->content = CONTENT_NUMBER;
    return 0;
  }
  return json_error(&m->doc, where, err,
                    "column '%s' is '%s', from which no length is read (ndarray, bytes of int64 tokens, or an integer "
                    "are); name another with --column",
                    c->name, excerpt_make(encoding, strlen(encoding)).text);
}

static int find_column(const struct mds *m, const json_t *shard, json_t *names, size_t *index, struct err *err) {
  const char *one[] = {m->options->column, NULL};
  char have[256] = "";
  for (const char *const *want = m->options->column ? one : default_columns; *want; want++)
    for (size_t i = 0; i < json_array_size(names); i++) {
      const char *name = json_string_value(json_array_get(names, i));
      if (name && strcmp(name, *want) == 0) {
        *index = i;
        return 0;
      }
    }
  for (size_t i = 0; i < json_array_size(names) && strlen(have) < sizeof have - 60; i++) {
    const char *name = json_string_value(json_array_get(names, i));
    if (name)
      snprintf(have + strlen(have), sizeof have - strlen(have), "%s'%s'", *have ? ", " : "",
               excerpt_make(name, strlen(name)).text);
  }
  return json_error(&m->doc, shard, err, "no column '%s' in the shard (it has %s); name one with --column",
                    m->options->column ? m->options->column : "tokens", have);
}

static int parse_columns(const struct mds *m, const json_t *shard, struct column *c, struct err *err) {
  json_t *names = NULL, *encodings = NULL, *sizes = NULL;
  size_t index = 0;
  if (json_get_array(&m->doc, shard, "column_names", true, &names, err) ||
      json_get_array(&m->doc, shard, "column_encodings", true, &encodings, err) ||
      json_get_array(&m->doc, shard, "column_sizes", true, &sizes, err) || find_column(m, shard, names, &index, err))
    return -1;
  if (json_array_size(names) != json_array_size(encodings) || json_array_size(names) != json_array_size(sizes))
    return json_error(&m->doc, shard, err, "column_names, column_encodings and column_sizes differ in number");
  *c = (struct column){.name = json_string_value(json_array_get(names, index)), .variable_at = -1};
  for (size_t i = 0; i < json_array_size(sizes); i++) {
    const json_t *size = json_array_get(sizes, i);
    int64_t bytes = json_is_integer(size) ? json_integer_value(size) : -1;
    if (!json_is_null(size) && (bytes <= 0 || bytes > UINT32_MAX))
      return json_error(&m->doc, sizes, err, "'column_sizes' must be null or a number of bytes in 1..4294967295");
    if (i == index && json_is_null(size))
      c->variable_at = c->n_variable;
    if (i == index && !json_is_null(size))
      c->size = bytes;
    if (i < index && json_is_null(size))
      c->variable_before++;
    if (i < index && !json_is_null(size))
      c->fixed_before += bytes;
    c->n_variable += json_is_null(size);
  }
  const json_t *encoding = json_array_get(encodings, index);
  if (!json_is_string(encoding))
    return json_error(&m->doc, encodings, err, "'column_encodings' must be strings");
  return parse_encoding(m, encodings, json_string_value(encoding), c, err);
}

struct shard {
  const char *path;
  FILE *file;
  int64_t bytes, n;
};

static uint64_t little_endian(const unsigned char *p, unsigned n) {
  uint64_t v = 0;
  for (unsigned i = 0; i < n; i++)
    v |= (uint64_t)p[i] << (8 * i);
  return v;
}

/* n bytes at an offset of the shard. */
static int read_at(const struct shard *s, int64_t at, void *out, size_t n, struct err *err) {
  if (at > s->bytes || (int64_t)n > s->bytes - at)
    return err_set(err, "trace '%s': damaged MDS shard: data at byte %lld are beyond its end (%lld bytes)", s->path,
                   (long long)at, (long long)s->bytes);
  if (fseeko(s->file, (off_t)at, SEEK_SET) != 0 || fread(out, 1, n, s->file) != n)
    return err_set(err, "trace '%s': read error: %s", s->path, strerror(errno));
  return 0;
}

/* Elements of an encoded array: [type] [ndim << 2 | log2 of the bytes of a dimension] [dimensions] values. */
static int array_length(const struct shard *s, const struct column *c, int64_t at, int64_t *length, struct err *err) {
  unsigned char head[1 + 63 * 8];
  int64_t product = 1;
  at += c->item_bytes == 0;
  if (read_at(s, at, head, 1, err))
    return -1;
  unsigned dims = head[0] >> 2, width = 1u << (head[0] & 3);
  if (read_at(s, at + 1, head, (size_t)dims * width, err))
    return -1;
  for (unsigned i = 0; i < dims; i++) {
    uint64_t dim = little_endian(head + i * width, width);
    product =
        dim > TRACE_MAX_LENGTH || product > TRACE_MAX_LENGTH ? (int64_t)TRACE_MAX_LENGTH + 1 : product * (int64_t)dim;
  }
  *length = dims ? product : 0;
  return 0;
}

/* Adds the sample that begins at `at`. */
static int add_sample(struct mds *m, const struct shard *s, const struct column *c, int64_t at, struct err *err) {
  unsigned char word[8];
  int64_t data = at + 4 * (int64_t)c->n_variable + c->fixed_before, size = c->size, length = 0;
  for (int i = 0; i <= c->variable_before && i < c->n_variable; i++) {
    if (read_at(s, at + 4 * (int64_t)i, word, 4, err))
      return -1;
    if (i < c->variable_before)
      data += (int64_t)little_endian(word, 4);
    else if (i == c->variable_at)
      size = (int64_t)little_endian(word, 4);
  }
  if (c->content == CONTENT_BYTES) {
    if (size % c->item_bytes != 0)
      return trace_sink_broken(m->sink, m->at, err, "column '%s' holds %lld bytes, no whole number of int64 tokens",
                               c->name, (long long)size);
    length = size / c->item_bytes;
  } else if (c->content == CONTENT_NUMBER) {
    if (read_at(s, data, word, c->item_bytes, err))
      return -1;
    unsigned unused = 64 - 8 * c->item_bytes;
    uint64_t bits = little_endian(word, c->item_bytes);
    length = c->is_signed || bits <= INT64_MAX ? (int64_t)bits : INT64_MAX;
    if (c->is_signed)
      length = (int64_t)(bits << unused) >> unused;
  } else if (c->fixed_length > 0) {
    length = c->fixed_length;
  } else if (array_length(s, c, data, &length, err)) {
    return -1;
  }
  return trace_sink_int(m->sink, m->at, c->name, length, err);
}

static int read_samples(struct mds *m, const struct shard *s, const struct column *c, struct err *err) {
  unsigned char word[8];
  int64_t table = 4 * (s->n + 2), before = table;
  if (read_at(s, 0, word, 4, err))
    return -1;
  if ((int64_t)little_endian(word, 4) != s->n)
    return err_set(err, "trace '%s': damaged MDS shard: it holds %llu samples, the index says %lld", s->path,
                   (unsigned long long)little_endian(word, 4), (long long)s->n);
  for (int64_t i = 0; i < s->n; i++, m->at++) {
    if (read_at(s, 4 * (i + 1), word, 8, err))
      return -1;
    int64_t begin = (int64_t)little_endian(word, 4), end = (int64_t)little_endian(word + 4, 4);
    if (begin < before || end < begin || end > s->bytes)
      return err_set(err, "trace '%s': damaged MDS shard: sample %lld spans bytes %lld to %lld of %lld", s->path,
                     (long long)i, (long long)begin, (long long)end, (long long)s->bytes);
    before = end;
    if (add_sample(m, s, c, begin, err))
      return -1;
  }
  return 0;
}

/* The shard's file lies in the folder of the index and nowhere else. */
static int open_shard(struct mds *m, const json_t *raw, struct shard *s, char *path, size_t path_n, struct err *err) {
  const char *name = NULL, *slash = strrchr(m->doc.path, '/');
  int folder = slash ? (int)(slash - m->doc.path) + 1 : 0;
  if (json_get_string(&m->doc, raw, "basename", true, &name, err))
    return -1;
  if (strchr(name, '/') || strcmp(name, "..") == 0 || !*name)
    return json_error(&m->doc, raw, err, "'basename' must be the name of a file beside the index, got '%s'",
                      excerpt_make(name, strlen(name)).text);
  if ((size_t)snprintf(path, path_n, "%.*s%s", folder, m->doc.path, name) >= path_n)
    return json_error(&m->doc, raw, err, "the path of the shard is too long");
  s->path = path;
  s->file = fopen(path, "rb");
  if (!s->file)
    return json_error(&m->doc, raw, err, "cannot open shard '%s': %s", path, strerror(errno));
  if (fseeko(s->file, 0, SEEK_END) != 0 || (s->bytes = ftello(s->file)) < 0)
    return err_set(err, "trace '%s': %s", path, strerror(errno));
  return 0;
}

static int read_shard(struct mds *m, const json_t *shard, struct err *err) {
  struct shard s = {0};
  struct column c;
  const char *format = NULL;
  char path[PATH_MAX];
  json_t *raw = NULL;
  if (!json_is_object(shard))
    return json_error(&m->doc, shard, err, "a shard must be an object");
  if (json_get_string(&m->doc, shard, "format", true, &format, err) ||
      json_get_int(&m->doc, shard, "samples", true, 0, TRACE_MAX_SAMPLES, &s.n, err) ||
      json_get_object(&m->doc, shard, "raw_data", true, &raw, err))
    return -1;
  if (strcmp(format, "mds") != 0)
    return json_error(&m->doc, shard, err, "a shard of format '%s' is not read (mds is)",
                      excerpt_make(format, strlen(format)).text);
  if (json_is_string(json_object_get(shard, "compression")))
    return json_error(&m->doc, shard, err,
                      "compressed shards are not read; decompress them and write the index anew (streaming's "
                      "MDSWriter with compression=None)");
  if (parse_columns(m, shard, &c, err))
    return -1;
  int rc = open_shard(m, raw, &s, path, sizeof path, err) || read_samples(m, &s, &c, err);
  if (s.file)
    fclose(s.file);
  return rc ? -1 : 0;
}

/* The whole index, as text. */
static char *read_text(struct trace_source *src, struct err *err) {
  int64_t have, before = -1;
  for (have = trace_source_peek(src, 1, err); have > before;) {
    before = have;
    have = trace_source_peek(src, (size_t)have + 1, err);
  }
  if (have < 0)
    return NULL;
  char *text = xmalloc((size_t)have + 1);
  memcpy(text, src->buf + src->pos, (size_t)have);
  text[have] = 0;
  src->pos += (size_t)have;
  return text;
}

static int read_mds(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                    struct err *err) {
  struct mds m = {.options = options, .sink = sink};
  json_t *shards = NULL;
  int64_t version = 0;
  sink->place = "sample";
  char *text = read_text(src, err);
  if (!text)
    return -1;
  int rc = json_doc_parse(&m.doc, "trace", src->path, text, NULL, err);
  free(text);
  if (rc)
    return -1;
  rc = json_get_int(&m.doc, m.doc.root, "version", true, 2, 2, &version, err) ||
       json_get_array(&m.doc, m.doc.root, "shards", true, &shards, err);
  for (size_t i = 0; !rc && i < json_array_size(shards); i++)
    rc = read_shard(&m, json_array_get(shards, i), err);
  json_doc_release(&m.doc);
  return rc ? -1 : 0;
}

const struct trace_format format_mds = {
    .name = "mds",
    .help = "MosaicML Streaming index.json with its uncompressed shards beside it: tokens per sample of --column",
    .detect = detect,
    .read = read_mds,
};
