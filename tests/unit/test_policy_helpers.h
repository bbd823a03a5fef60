/* test_policy_helpers.h: profiles and samples for the policy tests: from the golden vectors, by hand, or random. */
#ifndef TESTS_UNIT_TEST_POLICY_HELPERS_H
#define TESTS_UNIT_TEST_POLICY_HELPERS_H
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/policy/policy.h"

#define VECTORS DCPSIM_SOURCE_DIR "/tests/golden/vectors/"

static inline json_t *load_vectors(const char *file) {
  json_error_t error;
  json_t *root = json_load_file(file, 0, &error);
  cr_assert(root, "%s: %s", file, error.text);
  return root;
}

static inline double number_at(const json_t *object, const char *key) {
  return json_number_value(json_object_get(object, key));
}

static inline int int_at(const json_t *object, const char *key) {
  return (int)json_integer_value(json_object_get(object, key));
}

static inline int bucket_index(const struct profile *p, const char *name) {
  for (int b = 0; b < p->n_buckets; b++)
    if (strcmp(p->buckets[b].name, name) == 0)
      return b;
  cr_assert_fail("no bucket '%s'", name);
  return -1;
}

/* {"world", "max_sp", "data": {name: samples}, "prof": {name: {sp, bs, t}}, "detail": {name: {sp: {bs, t}}}} */
static inline struct profile profile_of_vector(json_t *v) {
  struct profile p = {.world = int_at(v, "world"), .max_sp = int_at(v, "max_sp")};
  json_t *data = json_object_get(v, "data"), *count;
  const char *name, *sp;
  p.buckets = xcalloc(json_object_size(data), sizeof *p.buckets);
  json_object_foreach(data, name, count) {
    struct bucket_profile *b = &p.buckets[p.n_buckets++];
    json_t *prof = json_object_get(json_object_get(v, "prof"), name), *row;
    json_t *detail = json_object_get(json_object_get(v, "detail"), name);
    snprintf(b->name, sizeof b->name, "%s", name);
    b->samples = json_integer_value(count);
    b->best = (struct candidate){.sp = int_at(prof, "sp"), .batch = int_at(prof, "bs"), .time_s = number_at(prof, "t")};
    b->detail = xcalloc(json_object_size(detail) + 1, sizeof *b->detail);
    json_object_foreach(detail, sp, row) b->detail[b->n_detail++] =
        (struct candidate){.sp = atoi(sp), .batch = int_at(row, "bs"), .time_s = number_at(row, "t")};
  }
  return p;
}

/* A bucket of a hand-written profile; the detail of dcp_rebalance follows as up to 4 rows. */
struct row {
  const char *name;
  int64_t samples;
  int sp;
  int64_t batch;
  double time_s;
  struct candidate detail[4];
};

#define ROW(name, samples, sp, batch, time_s)                                                                          \
  {                                                                                                                    \
    name, samples, sp, batch, time_s, {                                                                                \
      { 0 }                                                                                                            \
    }                                                                                                                  \
  }

static inline struct profile profile_of_rows(const struct row *rows, int n, int world, int max_sp) {
  struct profile p = {.world = world, .max_sp = max_sp, .n_buckets = n};
  p.buckets = xcalloc((size_t)n, sizeof *p.buckets);
  for (int b = 0; b < n; b++) {
    struct bucket_profile *x = &p.buckets[b];
    snprintf(x->name, sizeof x->name, "%s", rows[b].name);
    x->samples = rows[b].samples;
    x->best = (struct candidate){.sp = rows[b].sp, .batch = rows[b].batch, .time_s = rows[b].time_s};
    x->detail = xcalloc(4, sizeof *x->detail);
    for (int i = 0; i < 4 && rows[b].detail[i].sp; i++)
      x->detail[x->n_detail++] = rows[b].detail[i];
  }
  return p;
}

static inline struct policy_run *open_run(const char *policy, const struct policy_input *in) {
  struct err err = {0};
  struct policy_run *run = NULL;
  const struct policy *p = policy_find(policy, &err);
  cr_assert(p, "%s", err.msg);
  cr_assert(policy_open(&run, p, in, &err) == 0, "%s", err.msg);
  return run;
}

static inline int64_t samples_of(const struct plan_iteration *it) {
  int64_t n = 0;
  for (size_t i = 0; i < it->n_micro_batches; i++)
    n += it->micro_batches[i].count;
  return n;
}

static inline int64_t dropped_of(const struct plan_iteration *it) {
  int64_t n = 0;
  for (size_t i = 0; i < it->n_drops; i++)
    n += it->drops[i].count;
  return n;
}

/* "A@4 5x1 | B@2 8x2": a group per part, its SP, and its micro-batches if all are equal (else their number x ?). */
static inline const char *describe(const struct plan_iteration *it, const struct profile *p, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = 0;
  for (size_t i = 0; i < it->n_groups && at < size; i++) {
    const struct plan_group *g = &it->groups[i];
    at += (size_t)snprintf(buf + at, size - at, "%s%s@%d %zux%lld", i ? " | " : "",
                           g->bucket < 0 ? "?" : p->buckets[g->bucket].name, g->sp, g->n_micro_batches,
                           (long long)it->micro_batches[g->first_micro_batch].count);
  }
  return buf;
}

#endif
