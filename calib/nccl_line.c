#include "calib/nccl_line.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_BYTES (INT64_C(1) << 50)
#define MAX_TIME_US 1e12

/* Takes terminal colours ("ESC [ ... m") out of a text. */
static void strip_colours(char *text) {
  char *to = text;
  for (const char *from = text; *from;) {
    if (from[0] == '\x1b' && from[1] == '[') {
      from += 2 + strspn(from + 2, "0123456789;");
      from += *from != '\0';
    } else {
      *to++ = *from++;
    }
  }
  *to = '\0';
}

void nccl_tokens_split(struct nccl_tokens *t, const char *line, size_t n) {
  t->n = 0;
  t->cut = n >= sizeof t->text;
  if (t->cut)
    n = sizeof t->text - 1;
  memcpy(t->text, line, n);
  t->text[n] = '\0';
  strip_colours(t->text);
  for (char *p = t->text; *p;) {
    p += strspn(p, " \t\r|");
    if (!*p)
      break;
    if (t->n == NCCL_TOKENS_MAX) {
      t->cut = true;
      break;
    }
    t->v[t->n++] = p;
    p += strcspn(p, " \t\r|");
    if (*p)
      *p++ = '\0';
  }
}

const char *nccl_dtype(const char *name) {
  static const char *const names[][2] = {
      {"half", "fp16"},        {"float16", "fp16"},    {"float", "fp32"},       {"float32", "fp32"},
      {"double", "fp64"},      {"float64", "fp64"},    {"bfloat16", "bf16"},    {"int8", "int8"},
      {"char", "int8"},        {"uint8", "uint8"},     {"int32", "int32"},      {"int", "int32"},
      {"uint32", "uint32"},    {"int64", "int64"},     {"uint64", "uint64"},    {"f8e4m3", "fp8_e4m3"},
      {"fp8e4m3", "fp8_e4m3"}, {"f8e5m2", "fp8_e5m2"}, {"fp8e5m2", "fp8_e5m2"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], name) == 0)
      return names[i][1];
  return NULL;
}

/* ---- Numbers ---- */

/* "8388608", "8_388_608", "8M", "32KiB": bytes; -1 if it is none. What precedes the last colon is a prefix that ran
 * into the number. */
static int64_t parse_size(const char *s) {
  static const char units[] = "KMGT";
  const char *colon = strrchr(s, ':');
  int64_t v = 0;
  if (colon)
    s = colon + 1;
  if (*s < '0' || *s > '9')
    return -1;
  for (; (*s >= '0' && *s <= '9') || *s == '_'; s++)
    if (*s != '_' && (v = v * 10 + (*s - '0')) > MAX_BYTES)
      return -1;
  const char *unit = *s ? strchr(units, *s) : NULL;
  for (long shift = unit ? unit - units + 1 : 0; shift > 0; shift--)
    if ((v *= 1024) > MAX_BYTES)
      return -1;
  s += unit != NULL;
  return *s == '\0' || strcmp(s, "B") == 0 || strcmp(s, "iB") == 0 ? v : -1;
}

static bool is_absent(const char *s) { return strcmp(s, "N/A") == 0 || strcmp(s, "-") == 0; }

/* A plain decimal number >= 0, `unit` after it allowed; -1 if it is none. `exponent` ("e-6") rescales exactly. */
static double parse_number(const char *s, const char *unit, const char *exponent) {
  char buf[48], *end;
  size_t n = strspn(s, "0123456789.");
  if (n == 0 || n > 40 || (s[n] && strcmp(s + n, unit) != 0))
    return -1;
  snprintf(buf, sizeof buf, "%.*s%s", (int)n, s, exponent);
  double v = strtod(buf, &end);
  return *end == '\0' && isfinite(v) ? v : -1;
}

/* ---- Layout ---- */

static enum nccl_column column_of(const char *name) {
  static const struct {
    const char *name;
    enum nccl_column column;
  } known[] = {{"size", NCCL_SIZE},   {"payload", NCCL_SIZE}, {"type", NCCL_TYPE},    {"time", NCCL_TIME},
               {"algbw", NCCL_ALGBW}, {"busbw", NCCL_BUSBW},  {"#wrong", NCCL_WRONG}, {"error", NCCL_WRONG}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0)
      return known[i].column;
  return NCCL_OTHER;
}

struct nccl_layout nccl_layout_usual(void) {
  static const enum nccl_column half[] = {NCCL_TIME, NCCL_ALGBW, NCCL_BUSBW, NCCL_WRONG};
  struct nccl_layout l = {.columns = {NCCL_SIZE, NCCL_OTHER, NCCL_TYPE, NCCL_OTHER, NCCL_OTHER}, .n = 5, .halves = 2};
  for (int i = 0; i < 8; i++)
    l.columns[l.n++] = half[i % 4];
  return l;
}

struct nccl_layout nccl_layout_rootless(void) {
  struct nccl_layout l = nccl_layout_usual();
  memmove(l.columns + 4, l.columns + 5, (size_t)(--l.n - 4) * sizeof *l.columns);
  return l;
}

bool nccl_layout_read(struct nccl_layout *layout, const struct nccl_tokens *t) {
  struct nccl_layout l = {.n = 0};
  int counts[NCCL_OTHER + 1] = {0}, start = 0;
  while (start < t->n && column_of(t->v[start]) != NCCL_SIZE)
    start++;
  for (int i = start; i < t->n; i++) {
    l.columns[l.n] = column_of(t->v[i]);
    counts[l.columns[l.n++]]++;
  }
  l.halves = counts[NCCL_TIME] > counts[NCCL_ALGBW] ? counts[NCCL_TIME] : counts[NCCL_ALGBW];
  bool is_header = counts[NCCL_SIZE] == 1 && counts[NCCL_TYPE] <= 1 && (l.halves == 1 || l.halves == 2);
  for (int c = NCCL_TIME; c <= NCCL_WRONG; c++) /* a damaged header would shift one half into the other */
    is_header = is_header && (counts[c] == 0 || counts[c] == l.halves);
  if (!is_header)
    return false;
  *layout = l;
  return true;
}

/* ---- Rows ---- */

static int index_of(const struct nccl_layout *layout, enum nccl_column column) {
  for (int i = 0; i < layout->n; i++)
    if (layout->columns[i] == column)
      return i;
  return -1;
}

/* Without a type column a row is known by its numbers alone. */
static bool is_all_numbers(const struct nccl_tokens *t, int start, int n) {
  for (int i = start; i < start + n; i++)
    if (i >= t->n || (parse_number(t->v[i], "GBps", "") < 0 && parse_size(t->v[i]) < 0))
      return false;
  return true;
}

/* Words before a row: without a type column, whose name cannot be mistaken, no more than a prefix usually has. */
enum { PREFIX_MAX = 12, PREFIX_TYPELESS_MAX = 3 };

/* Token with which the row begins, or -1. */
static int find_start(const struct nccl_tokens *t, const struct nccl_layout *layout) {
  int type = index_of(layout, NCCL_TYPE), size = index_of(layout, NCCL_SIZE);
  const int most = type < 0 ? PREFIX_TYPELESS_MAX : PREFIX_MAX;
  for (int start = 0; start <= most && start + size + 1 < t->n; start++) {
    if (parse_size(t->v[start + size]) < 0)
      continue;
    if (start > PREFIX_TYPELESS_MAX && parse_size(t->v[start + size + 1]) < 0)
      continue; /* "-e 8 -d half" of a command line */
    if (type < 0 ? is_all_numbers(t, start, layout->n) : start + type < t->n && nccl_dtype(t->v[start + type]) != NULL)
      return start;
  }
  return -1;
}

/* The columns of one half; `token` NULL: the line ended before it. */
static void take_column(struct nccl_half *h, enum nccl_column column, const char *token) {
  if (h->problem || column == NCCL_OTHER)
    return;
  if (!token) {
    h->problem = "the line is cut";
  } else if (column == NCCL_TIME) {
    h->present = !is_absent(token);
    h->time_s = parse_number(token, "", "e-6");
    if (h->present && !(h->time_s > 0 && h->time_s <= MAX_TIME_US * 1e-6))
      h->problem = "the time is not a number above 0";
  } else if (column == NCCL_WRONG) {
    if (!is_absent(token) && parse_number(token, "", "") != 0 && strcmp(token, "0e+00") != 0)
      h->problem = "it reports wrong results";
  } else {
    double v = parse_number(token, "GBps", "e9");
    if (v < 0)
      h->problem = "a bandwidth is not a number";
    *(column == NCCL_ALGBW ? &h->algbw_bytes_per_s : &h->busbw_bytes_per_s) = v;
  }
}

/* Time and bandwidth as printed must agree: a digit lost on the way shows here. */
static void check_half(struct nccl_half *h, int64_t bytes, bool has_time) {
  if (!h->present || h->problem)
    return;
  if (!has_time) {
    if (h->algbw_bytes_per_s > 0)
      h->time_s = (double)bytes / h->algbw_bytes_per_s;
    else
      h->problem = "there is neither a time nor a bandwidth";
  } else if (h->algbw_bytes_per_s >= 0) {
    double expected = (double)bytes / h->time_s;
    if (fabs(expected - h->algbw_bytes_per_s) > 0.0051e9 + 0.006 * expected)
      h->problem = "time and algbw disagree";
  }
}

bool nccl_line_read(struct nccl_line *row, const struct nccl_tokens *t, const struct nccl_layout *layout) {
  int start = find_start(t, layout), seen[NCCL_OTHER + 1] = {0};
  bool has_time = index_of(layout, NCCL_TIME) >= 0;
  if (start < 0)
    return false;
  *row = (struct nccl_line){.is_short = t->n - start<layout->n, .is_long = t->n - start> layout->n || t->cut};
  for (int h = 0; h < 2; h++)
    row->half[h] = (struct nccl_half){
        .present = h < layout->halves, .algbw_bytes_per_s = -1, .busbw_bytes_per_s = -1, .time_s = -1};
  for (int i = 0; i < layout->n; i++) {
    enum nccl_column column = layout->columns[i];
    char *token = start + i < t->n ? t->v[start + i] : NULL;
    if (column == NCCL_SIZE)
      row->bytes = parse_size(token);
    else if (column == NCCL_TYPE)
      row->dtype = nccl_dtype(token);
    else if (column != NCCL_OTHER)
      take_column(&row->half[seen[column]++], column, token);
  }
  for (int h = 0; h < 2; h++)
    check_half(&row->half[h], row->bytes, has_time);
  return true;
}
