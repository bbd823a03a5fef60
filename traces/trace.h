/* trace.h: sequence lengths in file order. 8 bytes a sample: 1D tokens, or 2D (latent frames, positions).
 *
 * Formats are rows of one table (trace_formats in format.c), each reader one file; found by content unless named. gzip
 * and zstd are undone first. Readers stream; a bad value is an error naming file and line and nothing is kept, or with
 * skip_bad it is counted and left out. A sample's id is its position among accepted samples. */
#ifndef TRACES_TRACE_H
#define TRACES_TRACE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"
#include "sim/base/sample.h"

#define TRACE_MAX_LENGTH 1000000000u /* tokens of one sample */
#define TRACE_MAX_SAMPLES 4000000000u
#define TRACE_MAX_LINE_BYTES (64u << 20)

struct trace {
  char *name;         /* shipped name or base name of the file */
  const char *format; /* static: row name of the format table, or the generator */
  bool is_2d;
  struct sample *samples;
  int64_t n;
  uint32_t *batch; /* of each sample: the number of its batch in the file, ascending; NULL: no batches in it */
  int64_t skipped_bad;
};

struct trace_options {
  const char *format; /* NULL: by content */
  const char *column; /* NULL: first of length, num_tokens, num_total_tokens, ContextTokens, "Total tokens" found */
  bool skip_bad;
  int64_t draws; /* --samples: draws from a histogram (100000) */
  uint64_t seed; /* of those draws */
};

/* `name_or_path`: a shipped trace (traces/data), a file, or "-" for stdin. */
int trace_load(struct trace *out, const char *name_or_path, const struct trace_options *options, struct err *err);
void trace_release(struct trace *t);

int64_t trace_tokens(const struct trace *t);
/* Batches that hold samples; 0: none in the file. */
int64_t trace_batches(const struct trace *t);

/* Nearest-rank quantile of tokens per sample: the sorted value at 0-based index floor((n-1)*percent/100 + 0.5).
 * `sorted`: token counts ascending. */
uint64_t trace_quantile(const uint64_t *sorted, int64_t n, double percent);
/* Tokens of each sample, ascending; the caller frees it. */
uint64_t *trace_sorted_tokens(const struct sample *samples, int64_t n);

/* Writes in one of the writable formats ("text", "csv", "json", "jsonl", "npy", "batches", "video_csv"). */
int trace_write(const struct trace *t, const char *format, const char *path, struct err *err);

/* Shipped traces and formats, a line each with source. */
void trace_list(FILE *out);
void trace_formats_list(FILE *out);

#endif
