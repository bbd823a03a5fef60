#include "traces/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd_errors.h>

#include "sim/base/units.h"
#include "traces/trace.h"

#define RAW_BYTES (128u << 10)
#define WINDOW_BYTES (256u << 10)

static int open_file(struct trace_source *src, const char *path, bool *missing, struct err *err) {
  struct stat st;
  src->fd = strcmp(path, "-") == 0 ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  *missing = src->fd < 0 && errno == ENOENT;
  if (src->fd < 0)
    return err_set(err, "trace '%s': cannot open: %s", src->path, strerror(errno));
  if (fstat(src->fd, &st) != 0)
    return err_set(err, "trace '%s': %s", src->path, strerror(errno));
  if (S_ISDIR(st.st_mode))
    return err_set(err, "trace '%s': is a directory, not a file", src->path);
  return 0;
}

/* Fills the buffer, for a pipe may hand out less than a codec is known by. */
static int read_raw(struct trace_source *src, struct err *err) {
  ssize_t got;
  src->raw_pos = src->raw_len = 0;
  do {
    got = read(src->fd, src->raw + src->raw_len, RAW_BYTES - src->raw_len);
    if (got < 0 && errno != EINTR)
      return err_set(err, "trace '%s': read error: %s", src->path, strerror(errno));
    src->raw_len += got > 0 ? (size_t)got : 0;
  } while (got != 0 && src->raw_len < RAW_BYTES);
  src->raw_eof = got == 0;
  return 0;
}

static void *gzip_alloc(void *opaque, unsigned count, unsigned bytes) {
  (void)opaque;
  return xmalloc(size_mul(count, bytes));
}

static void gzip_free(void *opaque, void *p) {
  (void)opaque;
  free(p);
}

static int start_codec(struct trace_source *src, struct err *err) {
  static const unsigned char gzip_magic[2] = {0x1f, 0x8b}, zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
  if (src->raw_len >= sizeof gzip_magic && memcmp(src->raw, gzip_magic, sizeof gzip_magic) == 0) {
    src->gzip.zalloc = gzip_alloc;
    src->gzip.zfree = gzip_free;
    if (inflateInit2(&src->gzip, 15 + 16) != Z_OK)
      return err_set(err, "trace '%s': cannot start zlib", src->path);
    src->codec = CODEC_GZIP;
    src->in_frame = true;
  } else if (src->raw_len >= sizeof zstd_magic && memcmp(src->raw, zstd_magic, sizeof zstd_magic) == 0) {
    src->zstd = ZSTD_createDStream();
    if (!src->zstd)
      out_of_memory(0);
    src->codec = CODEC_ZSTD;
    src->in_frame = true;
  }
  return 0;
}

int trace_source_open(struct trace_source *src, const char *path, const char *shown, bool *missing, struct err *err) {
  memset(src, 0, sizeof *src);
  src->path = shown;
  src->fd = -1;
  src->raw = xmalloc(RAW_BYTES);
  src->cap = WINDOW_BYTES;
  src->buf = xmalloc(src->cap);
  if (open_file(src, path, missing, err) || read_raw(src, err) || start_codec(src, err))
    goto fail;
  if (trace_source_peek(src, 3, err) < 0)
    goto fail;
  if (src->len >= 3 && memcmp(src->buf, "\xef\xbb\xbf", 3) == 0)
    src->pos = 3;
  return 0;
fail:
  trace_source_release(src);
  return -1;
}

void trace_source_release(struct trace_source *src) {
  if (src->fd > STDIN_FILENO)
    close(src->fd);
  if (src->codec == CODEC_GZIP)
    inflateEnd(&src->gzip);
  ZSTD_freeDStream(src->zstd);
  free(src->raw);
  free(src->buf);
  memset(src, 0, sizeof *src);
  src->fd = -1;
}

static int64_t decode_plain(struct trace_source *src, char *dst, size_t room) {
  size_t n = src->raw_len - src->raw_pos;
  n = n < room ? n : room;
  memcpy(dst, src->raw + src->raw_pos, n);
  src->raw_pos += n;
  return (int64_t)n;
}

/* Members may follow each other; zero bytes after the last are padding of tapes and are ignored. */
static int64_t decode_gzip(struct trace_source *src, char *dst, size_t room, struct err *err) {
  if (!src->in_frame) {
    while (src->raw_pos < src->raw_len && src->raw[src->raw_pos] == 0)
      src->raw_pos++;
    if (src->raw_pos == src->raw_len)
      return 0;
    inflateReset(&src->gzip);
    src->in_frame = true;
  }
  src->gzip.next_in = src->raw + src->raw_pos;
  src->gzip.avail_in = (uInt)(src->raw_len - src->raw_pos);
  src->gzip.next_out = (unsigned char *)dst;
  src->gzip.avail_out = (uInt)room;
  int rc = inflate(&src->gzip, Z_NO_FLUSH);
  src->raw_pos = src->raw_len - src->gzip.avail_in;
  if (rc == Z_STREAM_END)
    src->in_frame = false;
  else if (rc != Z_OK && rc != Z_BUF_ERROR)
    return err_set(err, "trace '%s': damaged gzip data: %s", src->path, src->gzip.msg ? src->gzip.msg : "error");
  return (int64_t)(room - src->gzip.avail_out);
}

static int64_t decode_zstd(struct trace_source *src, char *dst, size_t room, struct err *err) {
  ZSTD_inBuffer in = {src->raw, src->raw_len, src->raw_pos};
  ZSTD_outBuffer out = {dst, room, 0};
  size_t rc = ZSTD_decompressStream(src->zstd, &out, &in);
  if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
    out_of_memory(0);
  if (ZSTD_isError(rc))
    return err_set(err, "trace '%s': damaged zstd data: %s", src->path, ZSTD_getErrorName(rc));
  src->raw_pos = in.pos;
  src->in_frame = rc != 0;
  return (int64_t)out.pos;
}

/* Decoded bytes into dst: how many, 0 only at the end of the file, -1 on failure. */
static int64_t decode(struct trace_source *src, char *dst, size_t room, struct err *err) {
  for (;;) {
    if (src->raw_pos == src->raw_len && !src->raw_eof && read_raw(src, err))
      return -1;
    /* A decoder may still hold output when all input is used, so it is asked once more at the end of the file. */
    int64_t n = src->codec == CODEC_PLAIN                      ? decode_plain(src, dst, room)
                : src->codec == CODEC_GZIP                     ? decode_gzip(src, dst, room, err)
                : src->in_frame || src->raw_pos < src->raw_len ? decode_zstd(src, dst, room, err)
                                                               : 0;
    if (n != 0)
      return n;
    if (src->raw_pos == src->raw_len && src->raw_eof) {
      if (src->in_frame)
        return err_set(err, "trace '%s': compressed data are truncated", src->path);
      return 0;
    }
  }
}

int64_t trace_source_fill(struct trace_source *src, struct err *err) {
  if (src->pos > 0) {
    memmove(src->buf, src->buf + src->pos, src->len - src->pos);
    src->len -= src->pos;
    src->pos = 0;
  }
  if (src->len == src->cap) {
    if (src->cap >= TRACE_MAX_LINE_BYTES)
      return err_set(err, "trace '%s' line %lld: longer than %u MiB", src->path, (long long)src->line + 1,
                     TRACE_MAX_LINE_BYTES >> 20);
    src->cap *= 2;
    src->buf = xrealloc(src->buf, src->cap);
  }
  int64_t n = decode(src, src->buf + src->len, src->cap - src->len, err);
  if (n > 0)
    src->len += (size_t)n;
  return n;
}

int64_t trace_source_peek(struct trace_source *src, size_t n, struct err *err) {
  while (src->len - src->pos < n) {
    int64_t got = trace_source_fill(src, err);
    if (got < 0)
      return -1;
    if (got == 0)
      break;
  }
  return (int64_t)(src->len - src->pos);
}

/* The line that begins at pos and ends at the first newline not before pos + skip. */
static int find_line(struct trace_source *src, size_t skip, const char **line, size_t *n, struct err *err) {
  size_t scan = skip;
  const char *newline;
  for (;;) {
    newline = memchr(src->buf + src->pos + scan, '\n', src->len - src->pos - scan);
    if (newline)
      break;
    scan = src->len - src->pos;
    int64_t got = trace_source_fill(src, err);
    if (got < 0)
      return -1;
    if (got > 0)
      continue;
    if (scan == skip)
      return 0;
    newline = src->buf + src->len;
    break;
  }
  *line = src->buf + src->pos;
  *n = (size_t)(newline - *line);
  src->line_start = src->pos;
  src->pos += *n + (newline < src->buf + src->len);
  src->line++;
  return 1;
}

int trace_source_line(struct trace_source *src, const char **line, size_t *n, struct err *err) {
  return find_line(src, 0, line, n, err);
}

int trace_source_line_extend(struct trace_source *src, const char **line, size_t *n, struct err *err) {
  size_t skip = src->pos - src->line_start;
  src->pos = src->line_start;
  return find_line(src, skip, line, n, err);
}
