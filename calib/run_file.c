#include "calib/run_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "calib/text_file.h"
#include "sim/base/json.h"
#include "sim/base/text_stream.h"
#include "sim/base/units.h"

static const char trailing_columns[] =
    "time_s,spread_frac,confidence_frac,repeats,device,driver,library,clocks,date,source,check\n";

static void header_of(enum row_class class, char *out, size_t size) {
  const char *const *columns = row_shape_columns(class);
  size_t n = (size_t)snprintf(out, size, "op,dtype,");
  for (; *columns; columns++)
    n += (size_t)snprintf(out + n, size - n, "%s,", *columns);
  snprintf(out + n, size - n, "%s", trailing_columns);
}

static int failed(const struct run_file *f, const char *what, struct err *err) {
  return err_set(err, "cannot %s '%s': %s", what, f->path, strerror(errno));
}

static int write_all(struct run_file *f, const char *text, size_t n, struct err *err) {
  while (n > 0) {
    const ssize_t written = write(f->fd, text, n);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return failed(f, "write", err);
    text += written;
    n -= (size_t)written;
  }
  return 0;
}

/* Cuts the file after its last whole line. */
static int repair(struct run_file *f, bool *repaired, struct err *err) {
  char *text;
  size_t n;
  if (text_file_read("rows", f->path, &text, &n, err))
    return -1;
  size_t whole = n;
  while (whole > 0 && text[whole - 1] != '\n')
    whole--;
  free(text);
  if (repaired)
    *repaired = whole < n;
  return whole < n && ftruncate(f->fd, (off_t)whole) ? failed(f, "repair", err) : 0;
}

/* Header and rows that are there; a new file gets the header. */
static int read_had(struct run_file *f, struct err *err) {
  char *text, header[400];
  size_t n;
  header_of(f->class, header, sizeof header);
  if (text_file_read("rows", f->path, &text, &n, err))
    return -1;
  int rc = 0;
  if (n == 0)
    rc = write_all(f, header, strlen(header), err);
  else if (strncmp(text, header, strlen(header)) != 0)
    rc = err_set(err, "rows '%s' line 1: not the columns that calibrate run writes; name another folder", f->path);
  else if (n > strlen(header))
    rc = rows_parse(&f->had, f->path, text, err);
  free(text);
  return rc;
}

int run_file_open(struct run_file *f, const char *dir, enum row_class class, bool *repaired, struct err *err) {
  const size_t size = strlen(dir) + 32;
  *f = (struct run_file){.path = xmalloc(size), .fd = -1, .class = class};
  snprintf(f->path, size, "%s/%s.csv", dir, row_class_name(class));
  f->fd = open(f->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (f->fd < 0)
    failed(f, "write", err);
  else if (flock(f->fd, LOCK_EX | LOCK_NB))
    err_set(err, "rows '%s' are being written by another run", f->path);
  else if (repair(f, repaired, err) == 0 && read_had(f, err) == 0)
    return 0;
  run_file_close(f);
  return -1;
}

void run_file_close(struct run_file *f) {
  if (f->fd >= 0 && f->path)
    close(f->fd);
  free(f->path);
  rows_release(&f->had);
  *f = (struct run_file){.fd = -1};
}

bool run_file_has(const struct run_file *f, enum row_op op, const char *dtype, const int64_t *shape,
                  const char *device) {
  const struct table *t = &f->had.table;
  const int column = table_column(t, "device");
  for (size_t i = 0; i < t->n_rows; i++) {
    const struct row *row = &f->had.v[i];
    if (row->op == op && strcmp(row->dtype, dtype) == 0 && memcmp(row->shape, shape, sizeof row->shape) == 0 &&
        strcmp(table_field(t, i, column), device) == 0)
      return true;
  }
  return false;
}

int run_file_agrees(const struct run_file *f, const struct machine *machine, struct err *err) {
  const struct table *t = &f->had.table;
  const int device = table_column(t, "device"), library = table_column(t, "library");
  for (size_t i = 0; i < t->n_rows; i++)
    if (strcmp(table_field(t, i, device), machine->device) == 0 &&
        strcmp(table_field(t, i, library), machine->library) != 0)
      return table_error(t, i, err, "measured with '%s', and this is '%s'; name another folder",
                         table_field(t, i, library), machine->library);
  return 0;
}

static void put_number(FILE *out, double v, const char *format) {
  char text[32], shortest[32];
  snprintf(text, sizeof text, format, v);
  double_text(strtod(text, NULL), shortest);
  fprintf(out, "%s,", shortest);
}

int run_file_append(struct run_file *f, const struct run_row *row, struct err *err) {
  char *text = NULL, date[32], source[80] = RUN_SOURCE " " DCPSIM_VERSION;
  size_t n;
  struct tm utc;
  const time_t now = time(NULL);
  FILE *out = text_stream_begin(&text, &n);
  ASSERT(row_op_class(row->op) == f->class);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  if (row->ranks_per_node)
    snprintf(source + strlen(source), sizeof source - strlen(source), " --ranks-per-node %lld",
             (long long)row->ranks_per_node);
  fprintf(out, "%s,%s,", row_op_name(row->op), row->dtype);
  for (int i = 0; row_shape_columns(f->class)[i]; i++)
    fprintf(out, "%lld,", (long long)row->shape[i]);
  put_number(out, row->summary.median_s, "%.6g");
  put_number(out, row->summary.spread_frac, "%.3g");
  put_number(out, row->summary.confidence_frac, "%.3g");
  fprintf(out, "%zu", row->summary.used);
  const char *const fields[] = {row->machine->device,
                                row->machine->driver,
                                row->machine->library,
                                row->machine->clocks,
                                date,
                                source,
                                row->check};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    fputc(',', out);
    table_put_field(out, fields[i]);
  }
  fputc('\n', out);
  text_stream_end(out);
  int rc = write_all(f, text, n, err);
  free(text);
  return rc;
}

double run_file_weight(const struct rows *rows, size_t i) {
  const double confidence =
      row_positive(table_field(&rows->table, i, table_column(&rows->table, "confidence_frac"))) / 0.1;
  return 1 / (1 + confidence * confidence);
}

bool run_file_made(const struct rows *rows) {
  const struct table *t = &rows->table;
  const int column = table_column(t, "source");
  for (size_t i = 0; i < t->n_rows; i++)
    if (strncmp(table_field(t, i, column), RUN_SOURCE, strlen(RUN_SOURCE)) != 0)
      return false;
  return t->n_rows > 0;
}
