#include "sim/plan/timeline.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/base/units.h"
#include "sim/plan/json_lines.h"

#define SCHEMA "dcpsim.timeline/1"
#define MAX_NAMES 1000 /* distinct operation names that a file may hold: found by linear search */

static const char *const category_names[TIMELINE_CATEGORIES] = {
    [TIMELINE_CAT_COMPUTE] = "compute",
    [TIMELINE_CAT_RECOMPUTE] = "recompute",
    [TIMELINE_CAT_SP_EXCHANGE] = "sp_exchange",
    [TIMELINE_CAT_GRAD_SYNC] = "grad_sync",
    [TIMELINE_CAT_OPTIMIZER] = "optimizer",
    [TIMELINE_CAT_HOST] = "host",
    [TIMELINE_CAT_IDLE] = "idle",
};

static const char *const stream_names[TIMELINE_STREAMS] = {
    [TIMELINE_COMPUTE] = "compute",
    [TIMELINE_EXCHANGE] = "exchange",
    [TIMELINE_SYNC] = "sync",
};

const char *timeline_category_name(enum timeline_category c) {
  ASSERT(c < TIMELINE_CATEGORIES);
  return category_names[c];
}

void timeline_add(struct timeline *t, struct timeline_span span) {
  ASSERT(span.start_ns >= 0 && span.end_ns >= span.start_ns);
  ASSERT(span.stream < TIMELINE_STREAMS && span.category < TIMELINE_CATEGORIES);
  if (t->limit && t->n >= t->limit) {
    t->left_out++;
    return;
  }
  VEC_PUSH(t->spans, t->n, t->cap, span);
}

void timeline_release(struct timeline *t) {
  for (size_t i = 0; i < t->n_names; i++)
    free(t->names[i]);
  free(t->names);
  free(t->spans);
  *t = (struct timeline){0};
}

/* ---- Groups: one process each -------------------------------------------------------------------------------------
 */

struct group {
  int32_t first_rank, sp;
};

static int compare_groups(const void *a, const void *b) {
  const struct group *x = a, *y = b;
  if (x->first_rank != y->first_rank)
    return x->first_rank < y->first_rank ? -1 : 1;
  return (x->sp > y->sp) - (x->sp < y->sp);
}

/* The distinct blocks of ranks, in order; their index + 1 is the process id. Caller frees. */
static struct group *distinct_groups(const struct timeline *t, size_t *n) {
  struct group *groups = NULL;
  size_t count = 0, cap = 0;
  for (size_t i = 0; i < t->n; i++) {
    struct group g = {t->spans[i].first_rank, t->spans[i].sp};
    if (i == 0 || g.first_rank != t->spans[i - 1].first_rank || g.sp != t->spans[i - 1].sp)
      VEC_PUSH(groups, count, cap, g);
  }
  if (count > 0)
    qsort(groups, count, sizeof *groups, compare_groups);
  size_t kept = 0;
  for (size_t i = 0; i < count; i++)
    if (kept == 0 || compare_groups(&groups[kept - 1], &groups[i]) != 0)
      groups[kept++] = groups[i];
  *n = kept;
  return groups;
}

static size_t process_of(const struct group *groups, size_t n, const struct timeline_span *span) {
  struct group key = {span->first_rank, span->sp};
  const struct group *found = bsearch(&key, groups, n, sizeof key, compare_groups);
  ASSERT(found);
  return (size_t)(found - groups) + 1;
}

static void group_name(struct group g, char *buf, size_t size) {
  if (g.sp == 1)
    snprintf(buf, size, "rank %" PRId32 " (SP 1)", g.first_rank);
  else
    snprintf(buf, size, "ranks %" PRId32 "-%" PRId32 " (SP %" PRId32 ")", g.first_rank, g.first_rank + g.sp - 1, g.sp);
}

/* ---- Writing: one event per line, which is what timeline_read relies on -------------------------------------------
 */

static void begin_event(FILE *f, bool *first) {
  fputs(*first ? "\n" : ",\n", f);
  *first = false;
}

static void write_metadata(FILE *f, bool *first, const char *what, size_t pid, int tid) {
  begin_event(f, first);
  fprintf(f, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%zu,\"tid\":%d,\"args\":", what, pid, tid);
}

static void write_group(FILE *f, bool *first, struct group g, size_t pid) {
  char name[64];
  group_name(g, name, sizeof name);
  write_metadata(f, first, "process_name", pid, 0);
  fprintf(f, "{\"name\":\"%s\",\"first_rank\":%" PRId32 ",\"sp\":%" PRId32 "}}", name, g.first_rank, g.sp);
  write_metadata(f, first, "process_sort_index", pid, 0);
  fprintf(f, "{\"sort_index\":%zu}}", pid - 1);
  for (int s = 0; s < TIMELINE_STREAMS; s++) {
    write_metadata(f, first, "thread_name", pid, s + 1);
    fprintf(f, "{\"name\":\"%s\"}}", stream_names[s]);
    write_metadata(f, first, "thread_sort_index", pid, s + 1);
    fprintf(f, "{\"sort_index\":%d}}", s);
  }
}

/* Nanoseconds as microseconds with three decimals: exact. */
static void write_us(FILE *f, const char *key, int64_t ns) {
  fprintf(f, ",\"%s\":%" PRId64 ".%03d", key, ns / 1000, (int)(ns % 1000));
}

static void write_text(FILE *f, const char *text) {
  struct json_writer w = {.file = f};
  json_str(&w, text);
}

static void write_span(FILE *f, bool *first, const struct timeline_span *s, size_t pid, const char *policy) {
  begin_event(f, first);
  fputs("{\"name\":", f);
  write_text(f, s->name ? s->name : "");
  fprintf(f, ",\"cat\":\"%s\",\"ph\":\"X\"", category_names[s->category]);
  write_us(f, "ts", s->start_ns);
  write_us(f, "dur", s->end_ns - s->start_ns);
  fprintf(f, ",\"pid\":%zu,\"tid\":%d,\"args\":{\"policy\":", pid, s->stream + 1);
  write_text(f, policy);
  fprintf(f, ",\"iteration\":%" PRId32 ",\"micro_batch\":%" PRId32 "}}", s->iteration, s->micro_batch);
}

static void write_footer(FILE *f, const struct timeline *t) {
  struct json_writer w = {.file = f};
  fputs("\n],\"displayTimeUnit\":\"ms\",\"otherData\":", f);
  json_begin_object(&w);
  json_key_str(&w, "schema", SCHEMA);
  json_key_str(&w, "policy", t->policy);
  json_key_str(&w, "run", t->run);
  json_key_int(&w, "spans", (int64_t)t->n);
  json_key_int(&w, "spans_left_out", (int64_t)t->left_out);
  json_end_object(&w);
  fputs("}\n", f);
}

int timeline_write(const struct timeline *t, const char *path, struct err *err) {
  struct output out;
  if (output_open(&out, path, err) < 0)
    return -1;
  size_t n_groups;
  struct group *groups = distinct_groups(t, &n_groups);
  bool first = true;
  fputs("{\"traceEvents\":[", out.file);
  for (size_t i = 0; i < n_groups; i++)
    write_group(out.file, &first, groups[i], i + 1);
  for (size_t i = 0; i < t->n && !ferror(out.file); i++)
    write_span(out.file, &first, &t->spans[i], process_of(groups, n_groups, &t->spans[i]), t->policy);
  write_footer(out.file, t);
  free(groups);
  return output_commit(&out, err);
}

/* ---- Reading ------------------------------------------------------------------------------------------------------
 */

struct reader {
  struct json_lines lines;
  struct timeline *timeline;
  struct group *processes; /* process id - 1 -> its ranks */
  size_t n_processes, cap;
};

static int fail(const struct reader *r, struct err *err, const char *what) {
  return err_set(err, "timeline '%s' line %" PRId64 ": %s", r->lines.path, r->lines.line, what);
}

/* The timeline's own copy of a name. NULL when there are too many different ones. */
static const char *intern(struct timeline *t, const char *name) {
  for (size_t i = 0; i < t->n_names; i++)
    if (strcmp(t->names[i], name) == 0)
      return t->names[i];
  if (t->n_names == MAX_NAMES)
    return NULL;
  VEC_PUSH(t->names, t->n_names, t->names_cap, xstrdup(name));
  return t->names[t->n_names - 1];
}

static bool get_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *out) {
  const json_t *value = json_object_get(object, key);
  *out = json_integer_value(value);
  return json_is_integer(value) && *out >= min && *out <= max;
}

static bool get_ns(const json_t *object, const char *key, int64_t *out) {
  const json_t *value = json_object_get(object, key);
  double us = json_number_value(value);
  if (!json_is_number(value) || !(us >= 0 && us < 4e15))
    return false;
  *out = llround(us * 1000);
  return true;
}

static int read_process(struct reader *r, const json_t *event, struct err *err) {
  const json_t *args = json_object_get(event, "args");
  int64_t pid, first_rank, sp;
  if (!get_int(event, "pid", 1, INT32_MAX, &pid) || !get_int(args, "first_rank", 0, INT32_MAX / 2, &first_rank) ||
      !get_int(args, "sp", 1, INT32_MAX / 2, &sp))
    return fail(r, err, "a process must have 'pid', 'first_rank' and 'sp'");
  if ((size_t)pid != r->n_processes + 1)
    return fail(r, err, "processes must be numbered 1, 2, ...");
  struct group g = {(int32_t)first_rank, (int32_t)sp};
  VEC_PUSH(r->processes, r->n_processes, r->cap, g);
  return 0;
}

static int category_of(const char *name) {
  int c = 0;
  while (c < TIMELINE_CATEGORIES && (!name || strcmp(name, category_names[c]) != 0))
    c++;
  return c;
}

static int read_span(struct reader *r, const json_t *event, struct err *err) {
  const json_t *args = json_object_get(event, "args");
  const char *name = json_string_value(json_object_get(event, "name"));
  int category = category_of(json_string_value(json_object_get(event, "cat")));
  int64_t start_ns, length_ns, pid, tid, iteration, micro_batch;
  if (!name || category == TIMELINE_CATEGORIES || !get_ns(event, "ts", &start_ns) || !get_ns(event, "dur", &length_ns))
    return fail(r, err, "a span must have 'name', a known 'cat', 'ts' and 'dur' >= 0");
  if (!get_int(event, "pid", 1, (int64_t)r->n_processes, &pid) || !get_int(event, "tid", 1, TIMELINE_STREAMS, &tid))
    return fail(r, err, "a span must have the 'pid' of a process and a 'tid' of a stream");
  if (!get_int(args, "iteration", -1, INT32_MAX, &iteration) ||
      !get_int(args, "micro_batch", -1, INT32_MAX, &micro_batch))
    return fail(r, err, "a span must have 'iteration' and 'micro_batch'");
  const char *kept = intern(r->timeline, name);
  if (!kept)
    return fail(r, err, "too many different operation names");
  struct timeline_span span = {.start_ns = start_ns,
                               .end_ns = start_ns + length_ns,
                               .name = kept,
                               .stream = (uint8_t)(tid - 1),
                               .category = (uint8_t)category,
                               .iteration = (int32_t)iteration,
                               .micro_batch = (int32_t)micro_batch,
                               .first_rank = r->processes[pid - 1].first_rank,
                               .sp = r->processes[pid - 1].sp};
  timeline_add(r->timeline, span);
  return 0;
}

static int read_event(struct reader *r, struct err *err) {
  size_t size = r->lines.size;
  size -= size > 0 && r->lines.text[size - 1] == ',';
  json_t *event = json_loadb(r->lines.text, size, 0, NULL);
  const char *phase = json_string_value(json_object_get(event, "ph"));
  const char *name = json_string_value(json_object_get(event, "name"));
  int status = 0;
  if (!phase)
    status = fail(r, err, "not an event as dcpsim writes it, one on a line");
  else if (strcmp(phase, "X") == 0)
    status = read_span(r, event, err);
  else if (strcmp(phase, "M") == 0 && name && strcmp(name, "process_name") == 0)
    status = read_process(r, event, err);
  json_decref(event);
  return status;
}

static int read_footer(struct reader *r, struct err *err) {
  char *text = r->lines.text + 1; /* `],"displayTimeUnit":...}` becomes an object */
  if (*text != ',')
    return fail(r, err, "the end is not as dcpsim writes it");
  *text = '{';
  json_t *footer = json_loads(text, 0, NULL);
  const json_t *data = json_object_get(footer, "otherData");
  const char *schema = json_string_value(json_object_get(data, "schema"));
  const char *policy = json_string_value(json_object_get(data, "policy"));
  const char *run = json_string_value(json_object_get(data, "run"));
  int64_t left_out = 0;
  int status = 0;
  if (!schema || strcmp(schema, SCHEMA) != 0 || !policy || !get_int(data, "spans_left_out", 0, INT64_MAX, &left_out))
    status = fail(r, err, "'otherData' must hold \"schema\": \"" SCHEMA "\", 'policy' and 'spans_left_out'");
  snprintf(r->timeline->policy, sizeof r->timeline->policy, "%s", policy ? policy : "");
  snprintf(r->timeline->run, sizeof r->timeline->run, "%s", run ? run : "");
  r->timeline->left_out = (size_t)left_out;
  json_decref(footer);
  return status;
}

static int read_lines(struct reader *r, struct err *err) {
  int status = json_lines_next(&r->lines, err);
  if (status < 0)
    return -1;
  if (status == 0 || strcmp(r->lines.text, "{\"traceEvents\":[") != 0)
    return err_set(err, "'%s' is not a timeline that dcpsim wrote (simulate --timeline FILE)", r->lines.path);
  while ((status = json_lines_next(&r->lines, err)) == 1) {
    if (r->lines.text[0] == ']')
      return read_footer(r, err);
    if (read_event(r, err) < 0)
      return -1;
  }
  return status < 0 ? -1 : err_set(err, "timeline '%s' is cut off after line %" PRId64, r->lines.path, r->lines.line);
}

int timeline_read(struct timeline *t, const char *path, struct err *err) {
  *t = (struct timeline){0};
  struct reader r = {.timeline = t};
  if (json_lines_open(&r.lines, "timeline", path, err) < 0)
    return -1;
  int status = read_lines(&r, err);
  json_lines_release(&r.lines);
  free(r.processes);
  if (status < 0)
    timeline_release(t);
  return status;
}
