/* Megatron-LM's index of a token file (.idx): lengths of sequences in tokens; per document with --column document.
 * Little-endian, without padding: "MMIDIDX\0\0", version u64, token type u8, sequences u64, documents + 1 u64, then at
 * offset 34 lengths i32 per sequence, byte offsets i64 per sequence, and the sequence index i64 at which each document
 * begins, with the number of sequences last; multimodal indices add a mode byte per sequence. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "traces/format.h"

#define HEADER_BYTES 34

static const char magic[9] = "MMIDIDX";
static const unsigned token_bytes[] = {0, 1, 1, 2, 4, 8, 8, 4, 2}; /* by type code */

static bool detect(const struct trace_peek *peek) {
  return peek->n >= 7 && memcmp(peek->bytes, magic, 7) == 0;
}

struct index {
  const char *path;
  uint64_t sequences, document_starts;
  unsigned token_bytes;
  int32_t *lengths;
};

/* The next n <= 8 bytes as a little-endian integer. */
static int read_word(struct trace_source *src, unsigned n, uint64_t *out, struct err *err) {
  *out = 0;
  if (src->len - src->pos < n) {
    int64_t have = trace_source_peek(src, n, err);
    if (have < 0)
      return -1;
    if (have < (int64_t)n)
      return err_set(err, "trace '%s': truncated Megatron-LM index: it ends before its tables do", src->path);
  }
  const unsigned char *p = (const unsigned char *)src->buf + src->pos;
  for (unsigned i = 0; i < n; i++)
    *out |= (uint64_t)p[i] << (8 * i);
  src->pos += n;
  return 0;
}

static int read_header(struct trace_source *src, struct index *x, struct err *err) {
  uint64_t version = 0, type = 0;
  int64_t have = trace_source_peek(src, HEADER_BYTES, err);
  if (have < 0)
    return -1;
  if (have < HEADER_BYTES)
    return err_set(err, "trace '%s': truncated Megatron-LM index: it ends inside its header", src->path);
  if (memcmp(src->buf + src->pos, magic, sizeof magic) != 0)
    return err_set(err, "trace '%s': not a Megatron-LM index (it does not begin with MMIDIDX)", src->path);
  src->pos += sizeof magic;
  if (read_word(src, 8, &version, err) || read_word(src, 1, &type, err) || read_word(src, 8, &x->sequences, err) ||
      read_word(src, 8, &x->document_starts, err))
    return -1;
  if (version != 1)
    return err_set(err, "trace '%s': Megatron-LM index version %llu is not read (1 is)", src->path,
                   (unsigned long long)version);
  if (type == 0 || type >= sizeof token_bytes / sizeof *token_bytes)
    return err_set(err, "trace '%s': damaged Megatron-LM index: token type code %llu", src->path,
                   (unsigned long long)type);
  if (x->sequences > TRACE_MAX_SAMPLES || x->document_starts > x->sequences + 1)
    return err_set(err, "trace '%s': damaged Megatron-LM index: %llu sequences, %llu document starts", src->path,
                   (unsigned long long)x->sequences, (unsigned long long)x->document_starts);
  x->token_bytes = token_bytes[type];
  return 0;
}

/* Grows as it reads, so that a damaged count costs no memory. */
static int read_lengths(struct trace_source *src, struct index *x, struct err *err) {
  size_t cap = 0;
  for (uint64_t i = 0; i < x->sequences; i++) {
    uint64_t v = 0;
    if (read_word(src, 4, &v, err))
      return -1;
    if (i == cap) {
      cap = cap ? 2 * cap : 4096;
      x->lengths = xrealloc(x->lengths, size_mul(cap, sizeof *x->lengths));
    }
    x->lengths[i] = (int32_t)(uint32_t)v;
  }
  return 0;
}

/* Sequences lie one behind the other in the token file, so offsets repeat what the lengths say. */
static int check_offsets(struct trace_source *src, const struct index *x, struct err *err) {
  uint64_t expected = 0, at = 0;
  for (uint64_t i = 0; i < x->sequences; i++) {
    if (read_word(src, 8, &at, err))
      return -1;
    if (at != expected)
      return err_set(err,
                     "trace '%s' sequence %llu: damaged Megatron-LM index: it begins at byte %llu, but the lengths "
                     "before it end at %llu",
                     x->path, (unsigned long long)i, (unsigned long long)at, (unsigned long long)expected);
    if (x->lengths[i] < 0)
      return err_set(err, "trace '%s' sequence %llu: damaged Megatron-LM index: a length of %d tokens", x->path,
                     (unsigned long long)i, x->lengths[i]);
    expected += (uint64_t)x->lengths[i] * x->token_bytes;
  }
  return 0;
}

static int add_sequences(const struct index *x, struct trace_sink *sink, struct err *err) {
  for (uint64_t i = 0; i < x->sequences; i++)
    if (trace_sink_int(sink, (int64_t)i, "length", x->lengths[i], err))
      return -1;
  return 0;
}

/* Reads the document starts; adds each document's tokens if `add`. */
static int read_documents(struct trace_source *src, const struct index *x, bool add, struct trace_sink *sink,
                          struct err *err) {
  uint64_t begin = 0, end = 0;
  for (uint64_t d = 0; d < x->document_starts; d++, begin = end) {
    if (read_word(src, 8, &end, err))
      return -1;
    bool last = d + 1 == x->document_starts;
    if ((d == 0 && end != 0) || end < begin || end > x->sequences || (last && end != x->sequences))
      return err_set(err, "trace '%s' document %llu: damaged Megatron-LM index: it begins at sequence %llu of %llu",
                     x->path, (unsigned long long)d, (unsigned long long)end, (unsigned long long)x->sequences);
    int64_t tokens = 0;
    for (uint64_t i = begin; add && i < end; i++)
      tokens += x->lengths[i];
    if (add && d > 0 && trace_sink_int(sink, (int64_t)d - 1, "length", tokens, err))
      return -1;
  }
  return 0;
}

/* A mode byte per sequence, or nothing. */
static int check_rest(struct trace_source *src, const struct index *x, struct err *err) {
  uint64_t rest = 0;
  for (;;) {
    int64_t have = trace_source_peek(src, 1, err);
    if (have < 0)
      return -1;
    if (have == 0)
      break;
    rest += (uint64_t)have;
    src->pos = src->len;
  }
  if (rest != 0 && rest != x->sequences)
    return err_set(err, "trace '%s': damaged Megatron-LM index: %llu bytes after its tables", x->path,
                   (unsigned long long)rest);
  return 0;
}

static int read_megatron(struct trace_source *src, const struct trace_options *options, struct trace_sink *sink,
                         struct err *err) {
  struct index x = {.path = src->path};
  const char *unit = options->column ? options->column : "sequence";
  bool documents = strcmp(unit, "document") == 0;
  if (!documents && strcmp(unit, "sequence") != 0)
    return err_usage(err, "trace '%s': a Megatron-LM index has --column sequence (default) or document, not '%s'",
                     src->path, unit);
  sink->place = documents ? "document" : "sequence";
  int rc = read_header(src, &x, err) || read_lengths(src, &x, err) || check_offsets(src, &x, err) ||
           (!documents && add_sequences(&x, sink, err)) || read_documents(src, &x, documents, sink, err) ||
           check_rest(src, &x, err);
  free(x.lengths);
  return rc ? -1 : 0;
}

const struct trace_format format_megatron_idx = {
    .name = "megatron_idx",
    .suffix = ".idx",
    .help = "Megatron-LM .idx: tokens per sequence, or per document with --column document",
    .detect = detect,
    .read = read_megatron,
};
