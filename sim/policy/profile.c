#include "sim/policy/profile.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/units.h"

#define SCHEMA "dcpsim.profile/1"
#define MAX_RANKS (1 << 24)
#define MAX_BATCH (1 << 30)
#define MAX_SAMPLES 4000000000
#define MAX_BUCKETS 65535 /* sample_set.bucket is 16 bits wide */
#define MIN_TIME_S 1e-9
#define MAX_TIME_S 1e9

void profile_release(struct profile *p) {
  for (int b = 0; b < p->n_buckets; b++)
    free(p->buckets[b].detail);
  free(p->buckets);
  *p = (struct profile){0};
}

/* sp, batch and time_s of a bucket or of a row of its detail. */
static int read_candidate(const struct json_doc *doc, const json_t *object, int max_sp, struct candidate *out,
                          struct err *err) {
  int64_t sp = 0;
  *out = (struct candidate){.recompute_blocks = {-1, -1}};
  if (json_get_int(doc, object, "sp", true, 1, max_sp, &sp, err) < 0 ||
      json_get_int(doc, object, "batch", true, 1, MAX_BATCH, &out->batch, err) < 0 ||
      json_get_double(doc, object, "time_s", true, MIN_TIME_S, MAX_TIME_S, &out->time_s, err) < 0)
    return -1;
  if (sp & (sp - 1))
    return json_error(doc, object, err, "'sp' must be a power of two, got %d", (int)sp);
  out->sp = (int)sp;
  return 0;
}

static int read_detail(const struct json_doc *doc, const json_t *array, int max_sp, struct bucket_profile *out,
                       struct err *err) {
  static const char *const keys[] = {"sp", "batch", "time_s", NULL};
  out->detail = xcalloc(json_array_size(array) + 1, sizeof *out->detail);
  for (size_t i = 0; i < json_array_size(array); i++) {
    const json_t *row = json_array_get(array, i);
    struct candidate *c = &out->detail[i];
    if (!json_is_object(row))
      return json_error(doc, row, err, "a row of 'detail' must be an object");
    if (json_check_keys(doc, row, keys, err) < 0 || read_candidate(doc, row, max_sp, c, err) < 0)
      return -1;
    if (i > 0 && c->sp <= c[-1].sp)
      return json_error(doc, row, err, "'detail' must be sorted by 'sp', each once");
    out->n_detail++;
  }
  return 0;
}

static int read_bucket(const struct json_doc *doc, const json_t *object, int max_sp, struct bucket_profile *out,
                       struct err *err) {
  static const char *const keys[] = {"name", "samples", "sp", "batch", "time_s", "detail", NULL};
  const char *name = NULL;
  json_t *detail = NULL;
  if (!json_is_object(object))
    return json_error(doc, object, err, "a bucket must be an object");
  if (json_check_keys(doc, object, keys, err) < 0 || json_get_string(doc, object, "name", true, &name, err) < 0 ||
      json_get_int(doc, object, "samples", true, 0, MAX_SAMPLES, &out->samples, err) < 0 ||
      read_candidate(doc, object, max_sp, &out->best, err) < 0 ||
      json_get_array(doc, object, "detail", false, &detail, err) < 0)
    return -1;
  if (strlen(name) == 0 || strlen(name) >= sizeof out->name)
    return json_error(doc, object, err, "'name' must have 1 to %zu bytes", sizeof out->name - 1);
  strcpy(out->name, name);
  return detail ? read_detail(doc, detail, max_sp, out, err) : 0;
}

static int by_name(const void *a, const void *b) {
  const struct bucket_profile *const *x = a, *const *y = b;
  return strcmp((*x)->name, (*y)->name);
}

static int check_names_unique(const struct json_doc *doc, const json_t *array, const struct profile *p,
                              struct err *err) {
  const struct bucket_profile **sorted = xmalloc(size_mul((size_t)p->n_buckets + 1, sizeof *sorted));
  int rc = 0;
  for (int b = 0; b < p->n_buckets; b++)
    sorted[b] = &p->buckets[b];
  qsort(sorted, (size_t)p->n_buckets, sizeof *sorted, by_name);
  for (int b = 1; b < p->n_buckets && rc == 0; b++)
    if (strcmp(sorted[b - 1]->name, sorted[b]->name) == 0) {
      const struct bucket_profile *second = sorted[b] > sorted[b - 1] ? sorted[b] : sorted[b - 1];
      rc = json_error(doc, json_array_get(array, (size_t)(second - p->buckets)), err, "two buckets are named '%s'",
                      second->name);
    }
  free(sorted);
  return rc;
}

static int read_buckets(const struct json_doc *doc, const json_t *array, struct profile *out, struct err *err) {
  size_t n = json_array_size(array);
  if (n > MAX_BUCKETS)
    return json_error(doc, array, err, "at most %d buckets, got %zu", MAX_BUCKETS, n);
  out->buckets = xcalloc(n + 1, sizeof *out->buckets);
  for (size_t b = 0; b < n; b++) {
    out->n_buckets++;
    if (read_bucket(doc, json_array_get(array, b), out->max_sp, &out->buckets[b], err) < 0)
      return -1;
  }
  return check_names_unique(doc, array, out, err);
}

int profile_read(struct profile *out, const char *path, struct err *err) {
  static const char *const keys[] = {"schema", "world", "max_sp", "buckets", NULL};
  struct json_doc doc = {0};
  struct profile p = {0};
  json_t *buckets = NULL;
  int64_t world = 0, max_sp;
  int rc = -1;
  if (json_doc_read(&doc, "profile", path, SCHEMA, err) < 0)
    return -1;
  if (json_check_keys(&doc, doc.root, keys, err) < 0 ||
      json_get_int(&doc, doc.root, "world", true, 1, MAX_RANKS, &world, err) < 0)
    goto out;
  max_sp = world;
  if (json_get_int(&doc, doc.root, "max_sp", false, 1, world, &max_sp, err) < 0 ||
      json_get_array(&doc, doc.root, "buckets", true, &buckets, err) < 0)
    goto out;
  p.world = (int)world;
  p.max_sp = (int)max_sp;
  if (read_buckets(&doc, buckets, &p, err) < 0)
    goto out;
  *out = p;
  p = (struct profile){0};
  rc = 0;
out:
  profile_release(&p);
  json_doc_release(&doc);
  return rc;
}

static void write_candidate(struct json_writer *w, const struct candidate *c) {
  json_key_int(w, "sp", c->sp);
  json_key_int(w, "batch", c->batch);
  json_key_double(w, "time_s", c->time_s);
}

static void write_bucket(struct json_writer *w, const struct bucket_profile *b) {
  json_begin_object(w);
  json_key_str(w, "name", b->name);
  json_key_int(w, "samples", b->samples);
  write_candidate(w, &b->best);
  if (b->n_detail > 0) {
    json_key(w, "detail");
    json_begin_array(w);
    for (int i = 0; i < b->n_detail; i++) {
      json_begin_object(w);
      write_candidate(w, &b->detail[i]);
      json_end_object(w);
    }
    json_end_array(w);
  }
  json_end_object(w);
}

void profile_write(FILE *out, const struct profile *p) {
  struct json_writer w = {.file = out};
  json_begin_object(&w);
  json_key_str(&w, "schema", SCHEMA);
  json_key_int(&w, "world", p->world);
  json_key_int(&w, "max_sp", p->max_sp);
  json_key(&w, "buckets");
  json_begin_array(&w);
  for (int b = 0; b < p->n_buckets; b++)
    if (!p->buckets[b].infeasible)
      write_bucket(&w, &p->buckets[b]);
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}
