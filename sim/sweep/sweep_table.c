#include "sim/sweep/sweep_table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sim/base/text_stream.h"
#include "sim/base/units.h"
#include "sim/experiment/result.h"

/* ---- Rows ---- */

/* One cell, quoted where it has to be; line breaks become spaces. */
static void write_cell(FILE *out, const char *text) {
  bool quote = strpbrk(text, ",\"\r\n") != NULL;
  if (quote)
    fputc('"', out);
  for (; *text; text++) {
    if (*text == '"')
      fputc('"', out);
    fputc(*text == '\n' || *text == '\r' ? ' ' : *text, out);
  }
  if (quote)
    fputc('"', out);
}

static void write_value(FILE *out, const json_t *v) {
  char buf[32];
  if (json_is_string(v)) {
    write_cell(out, json_string_value(v));
  } else if (json_is_real(v)) {
    double_text(json_real_value(v), buf);
    write_cell(out, buf);
  } else if (!json_is_null(v)) {
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    ASSERT(text);
    write_cell(out, text);
    free(text);
  }
}

char *sweep_table_header(const struct sweep_spec *s) {
  char *text;
  size_t size;
  FILE *out = text_stream_begin(&text, &size);
  fprintf(out, "point,spec");
  for (int i = 0; i < s->n_fields; i++)
    fprintf(out, ",swept_%s", s->fields[i].name);
  fputc(',', out);
  result_write_csv_names(out);
  fprintf(out, ",error\n");
  text_stream_end(out);
  return text;
}

static void write_row(FILE *out, const struct sweep_spec *s, int64_t point, const struct policy_result *result,
                      const char *error) {
  fprintf(out, "%" PRId64 ",%s", point, s->hash);
  for (int i = 0; i < s->n_fields; i++) {
    fputc(',', out);
    write_value(out, sweep_spec_value(s, i, point));
  }
  fputc(',', out);
  result_write_csv_values(out, result);
  fputc(',', out);
  write_cell(out, error);
  fputc('\n', out);
}

char *sweep_table_rows(const struct sweep_spec *s, int64_t point, const struct policy_result *results, int n_results,
                       const char *error) {
  char *text;
  size_t size;
  FILE *out = text_stream_begin(&text, &size);
  for (int i = 0; i < n_results; i++)
    write_row(out, s, point, &results[i], "");
  if (n_results == 0)
    write_row(out, s, point, NULL, error);
  text_stream_end(out);
  return text;
}

/* ---- Reading what is done ---- */

struct scan {
  struct sweep_table *table;
  const struct sweep_spec *spec;
  FILE *file;
  int64_t line_number;
  int64_t point; /* of the rows at hand; -1: none */
  int rows;      /* of it so far */
  bool failed;
  int64_t point_start; /* where its rows begin in the file */
};

/* Past the cell at `p` and the comma behind it; NULL: there is no further cell. */
static const char *next_cell(const char *p) {
  bool quoted = false;
  for (; *p && (quoted || *p != ','); p++)
    quoted ^= *p == '"';
  return *p ? p + 1 : NULL;
}

static int refuse_row(const struct scan *c, const char *why, struct err *err) {
  return err_set(err, "'%s' line %" PRId64 ": %s: name another file, or remove this one", c->table->path,
                 c->line_number, why);
}

static bool point_complete(const struct scan *c) {
  return c->point < 0 || c->failed || c->rows == sweep_spec_policies(c->spec, c->point);
}

static int begin_point(struct scan *c, int64_t point, int64_t start, struct err *err) {
  if (!point_complete(c))
    return refuse_row(c, "the rows before it are not all of their point", err);
  if (c->table->done[point])
    return refuse_row(c, "a point is there twice", err);
  c->table->done[point] = 1;
  c->table->n_done++;
  c->point = point;
  c->point_start = start;
  c->rows = 0;
  c->failed = false;
  return 0;
}

static int scan_row(struct scan *c, const char *line, int64_t start, struct err *err) {
  char *end;
  errno = 0;
  long long point = strtoll(line, &end, 10);
  if (errno || end == line || *end != ',')
    return refuse_row(c, "not a row of a sweep", err);
  if (strncmp(end + 1, c->spec->hash, strlen(c->spec->hash)) != 0 || end[1 + strlen(c->spec->hash)] != ',')
    return refuse_row(c, "it was written from another spec, or by another version of dcpsim", err);
  if (point < 0 || point >= c->spec->n_points)
    return refuse_row(c, "the spec has no such point", err);
  const char *policy = end + 1;
  for (int i = 0; policy && i <= c->spec->n_fields; i++)
    policy = next_cell(policy);
  if (!policy)
    return refuse_row(c, "not a row of a sweep", err);
  if (point != c->point && begin_point(c, point, start, err) < 0)
    return -1;
  c->rows++;
  if (*policy == ',') {
    c->failed = true;
    c->table->n_failed++;
  }
  if (c->rows > sweep_spec_policies(c->spec, point))
    return refuse_row(c, "a point is there twice", err);
  return 0;
}

/* Where the good rows end: before a line without its end and before a last point that misses rows. */
static int scan_rows(struct scan *c, struct err *err) {
  struct sweep_table *t = c->table;
  char *line = NULL, *header = sweep_table_header(c->spec);
  size_t cap = 0;
  ssize_t n;
  int rc = 0;
  t->size = 0;
  while (rc == 0 && (n = getline(&line, &cap, c->file)) > 0) {
    bool whole = line[n - 1] == '\n';
    c->line_number++;
    if (c->line_number == 1 && (whole ? strcmp(line, header) : strncmp(line, header, (size_t)n)) != 0)
      rc = refuse_row(c, "not the table of this sweep, its columns differ", err);
    if (rc < 0 || !whole)
      break;
    if (c->line_number > 1)
      rc = scan_row(c, line, t->size, err);
    t->size += n;
  }
  if (rc == 0 && !feof(c->file)) /* without memory, too: what was not read is not to be cut off */
    rc = err_set(err, "cannot read '%s': %s", t->path, strerror(errno));
  if (rc == 0 && !point_complete(c)) {
    t->done[c->point] = 0;
    t->n_done--;
    t->size = c->point_start;
  }
  free(line);
  free(header);
  return rc;
}

static int read_done(struct sweep_table *t, const struct sweep_spec *s, struct err *err) {
  int fd = dup(t->fd);
  FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
  if (!file)
    return err_set(err, "cannot read '%s': %s", t->path, strerror(errno));
  struct scan c = {.table = t, .spec = s, .file = file, .point = -1};
  int rc = scan_rows(&c, err);
  fclose(file);
  return rc;
}

/* ---- The file ---- */

static int fail(const struct sweep_table *t, struct err *err) {
  return err_set(err, "cannot write '%s': %s", t->path, strerror(errno));
}

static int resume(struct sweep_table *t, const struct sweep_spec *s, struct err *err) {
  struct stat st;
  if (flock(t->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
    return err_set(err, "'%s': another sweep is writing it", t->path);
  if (read_done(t, s, err) < 0)
    return -1;
  if (fstat(t->fd, &st) < 0)
    return fail(t, err);
  t->torn = st.st_size > t->size;
  if ((t->torn && ftruncate(t->fd, t->size) < 0) || lseek(t->fd, t->size, SEEK_SET) < 0)
    return fail(t, err);
  return 0;
}

static int open_file(struct sweep_table *t, const struct sweep_spec *s, struct err *err) {
  struct stat st;
  t->fd = strcmp(t->path, "-") == 0 ? dup(STDOUT_FILENO) : open(t->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (t->fd < 0)
    return fail(t, err);
  t->resumable = strcmp(t->path, "-") != 0 && fstat(t->fd, &st) == 0 && S_ISREG(st.st_mode);
  if (t->resumable && resume(t, s, err) < 0)
    return -1;
  if (t->size > 0)
    return 0;
  char *header = sweep_table_header(s);
  int rc = sweep_table_append(t, header, err);
  free(header);
  return rc;
}

int sweep_table_open(struct sweep_table *t, const char *path, const struct sweep_spec *s, struct err *err) {
  *t = (struct sweep_table){.path = xstrdup(path), .fd = -1};
  t->done = xcalloc((size_t)s->n_points, sizeof *t->done);
  if (open_file(t, s, err) == 0)
    return 0;
  sweep_table_release(t);
  return -1;
}

int sweep_table_append(struct sweep_table *t, const char *rows, struct err *err) {
  size_t n = strlen(rows), written = 0;
  while (written < n) {
    ssize_t w = write(t->fd, rows + written, n - written);
    if (w < 0 && errno == EINTR)
      continue;
    if (w < 0) {
      fail(t, err);
      if (t->resumable)
        (void)!ftruncate(t->fd, t->size);
      return -1;
    }
    written += (size_t)w;
  }
  t->size += (int64_t)n;
  return 0;
}

int sweep_table_close(struct sweep_table *t, struct err *err) {
  int rc = 0;
  if (t->resumable && fsync(t->fd) < 0 && errno != EINVAL && errno != ENOTSUP)
    rc = fail(t, err);
  int fd = t->fd;
  t->fd = -1;
  if (close(fd) < 0 && rc == 0)
    rc = fail(t, err);
  return rc;
}

void sweep_table_release(struct sweep_table *t) {
  if (t->fd >= 0)
    close(t->fd);
  free(t->path);
  free(t->done);
  *t = (struct sweep_table){.fd = -1};
}
