/* Options as JSON: the experiment file, and the "options" object of results. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/options_table.h"

#define SCHEMA "dcpsim.experiment/1"

/* A JSON value as command-line text; NULL: not of a kind that this option takes. Caller frees. */
static char *text_of(const json_t *v) {
  char buf[40];
  if (json_is_string(v))
    return xstrdup(json_string_value(v));
  if (json_is_integer(v)) {
    snprintf(buf, sizeof buf, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    return xstrdup(buf);
  }
  if (json_is_real(v)) {
    double real = json_real_value(v);
    if (real == floor(real) && fabs(real) < 9e15) /* 1e6 is an integer too */
      snprintf(buf, sizeof buf, "%.0f", real);
    else
      double_text(real, buf);
    return xstrdup(buf);
  }
  return NULL;
}

/* An array of numbers or strings as "a,b,c". */
static char *joined_text(const json_t *array, bool strings) {
  char *joined = xstrdup("");
  for (size_t i = 0; i < json_array_size(array); i++) {
    const json_t *v = json_array_get(array, i);
    char *one = strings == json_is_string(v) ? text_of(v) : NULL;
    if (!one || strchr(one, ',')) {
      free(one);
      free(joined);
      return NULL;
    }
    size_t n = strlen(joined), size = n + strlen(one) + 2;
    joined = xrealloc(joined, size);
    snprintf(joined + n, size - n, "%s%s", i ? "," : "", one);
    free(one);
  }
  return joined;
}

static const char *wanted_json(enum option_type type) {
  static const char *const names[] = {[TYPE_FLAG] = "true or false",
                                      [TYPE_INT] = "an integer",
                                      [TYPE_REAL] = "a number",
                                      [TYPE_TEXT] = "a string",
                                      [TYPE_LIST] = "a string or an array of strings",
                                      [TYPE_BOUNDS] = "an array of integers",
                                      [TYPE_STRAGGLER] = "a string RANK:FACTOR"};
  return names[type];
}

/* Caller frees; NULL: wrong type. */
static char *json_text(const struct option_spec *s, const json_t *v) {
  bool word = s->type == TYPE_INT && s->unset && json_is_string(v) && strcmp(json_string_value(v), s->unset) == 0;
  switch (s->type) {
  case TYPE_FLAG:
    return json_is_boolean(v) ? xstrdup(json_is_true(v) ? "true" : "false") : NULL;
  case TYPE_INT:
  case TYPE_REAL:
    return json_is_number(v) || word ? text_of(v) : NULL;
  case TYPE_LIST:
    return json_is_array(v) ? joined_text(v, true) : json_is_string(v) ? text_of(v) : NULL;
  case TYPE_BOUNDS:
    return json_is_array(v) ? joined_text(v, false) : NULL;
  case TYPE_TEXT:
  case TYPE_STRAGGLER:
    return json_is_string(v) ? text_of(v) : NULL;
  }
  return NULL;
}

/* `where`: the node whose line an error names. */
static int set_from_json(struct experiment_options *o, const struct json_doc *doc, const json_t *where,
                         const struct option_spec *s, const char *key, const json_t *value, struct err *err) {
  char label[80];
  struct err inner = {.set = false};
  if (json_is_null(value) && !s->initial) { /* as results print what is not set */
    option_unset(o, s);
    return 0;
  }
  char *text = json_text(s, value);
  if (!text)
    return json_error(doc, where, err, "'%s' must be %s", key, wanted_json(s->type));
  snprintf(label, sizeof label, "'%s'", key);
  int rc = option_set(o, s, label, text, &inner);
  free(text);
  return rc < 0 ? json_error(doc, where, err, "%s", inner.msg) : 0;
}

int options_check_keys(const struct json_doc *doc, const json_t *object, const char *also, struct err *err) {
  char keys[MAX_OPTIONS][OPTION_KEY_SIZE];
  const char *valid[MAX_OPTIONS + 2] = {NULL};
  int n = 0;
  for (const struct option_spec *s = option_specs; s->name; s++) {
    option_key(s, keys[n]);
    valid[n] = keys[n];
    n++;
  }
  valid[n] = also;
  return json_check_keys(doc, object, valid, err);
}

int options_set_json(struct experiment_options *o, const struct json_doc *doc, const json_t *where, const char *key,
                     const json_t *value, struct err *err) {
  const struct option_spec *s = option_find(key, strlen(key));
  ASSERT(s);
  return set_from_json(o, doc, where, s, key, value, err);
}

int options_read_object(struct experiment_options *o, const struct json_doc *doc, const json_t *object,
                        struct err *err) {
  int rc = 0;
  for (const struct option_spec *s = option_specs; rc == 0 && s->name; s++) {
    char key[OPTION_KEY_SIZE];
    option_key(s, key);
    const json_t *value = json_object_get(object, key);
    rc = value ? set_from_json(o, doc, value, s, key, value, err) : 0;
  }
  return rc;
}

/* Releases the document. */
static int read_doc(struct experiment_options *o, struct json_doc *doc, struct err *err) {
  int rc = options_check_keys(doc, doc->root, "schema", err);
  if (rc == 0)
    rc = options_read_object(o, doc, doc->root, err);
  json_doc_release(doc);
  return rc;
}

int options_read_file(struct experiment_options *o, const char *path, struct err *err) {
  struct json_doc doc;
  return json_doc_read(&doc, "experiment", path, SCHEMA, err) < 0 ? -1 : read_doc(o, &doc, err);
}

int options_read_text(struct experiment_options *o, const char *path, const char *text, struct err *err) {
  struct json_doc doc;
  return json_doc_parse(&doc, "experiment", path, text, SCHEMA, err) < 0 ? -1 : read_doc(o, &doc, err);
}

/* ---- Results --------------------------------------------------------------------------------------------------------
 */

static void write_list(struct json_writer *w, const char *list) {
  const char *word;
  size_t n;
  json_begin_array(w);
  while (option_next_word(&list, ',', &word, &n)) {
    char *one = xstrdup(word);
    one[n] = '\0';
    json_str(w, one);
    free(one);
  }
  json_end_array(w);
}

static void write_value(struct json_writer *w, const struct experiment_options *o, const struct option_spec *s) {
  const void *at = option_const_field(o, s);
  char straggler[64];
  switch (s->type) {
  case TYPE_FLAG:
    json_bool(w, *(const bool *)at);
    return;
  case TYPE_INT:
    if (*(const int64_t *)at == 0 && s->unset && strcmp(s->unset, "auto") == 0)
      json_str(w, "auto");
    else if (*(const int64_t *)at == 0 && !s->initial)
      json_put_null(w);
    else
      json_int(w, *(const int64_t *)at);
    return;
  case TYPE_REAL:
    json_double(w, *(const double *)at);
    return;
  case TYPE_TEXT:
  case TYPE_LIST:
    if (!*(char *const *)at)
      json_put_null(w);
    else if (s->type == TYPE_LIST)
      write_list(w, *(char *const *)at);
    else
      json_str(w, *(char *const *)at);
    return;
  case TYPE_BOUNDS:
    if (o->n_bucket_bounds == 0) {
      json_put_null(w);
      return;
    }
    json_begin_array(w);
    for (int i = 0; i < o->n_bucket_bounds; i++)
      json_int(w, o->bucket_bounds[i]);
    json_end_array(w);
    return;
  case TYPE_STRAGGLER:
    if (o->straggler_rank < 0) {
      json_put_null(w);
      return;
    }
    int n = snprintf(straggler, sizeof straggler, "%" PRId64 ":", o->straggler_rank);
    double_text(o->straggler_factor, straggler + n);
    json_str(w, straggler);
    return;
  }
}

void options_write_json(struct json_writer *w, const struct experiment_options *o) {
  json_begin_object(w);
  for (const struct option_spec *s = option_specs; s->name; s++) {
    char key[OPTION_KEY_SIZE];
    if (strcmp(s->name, "threads") == 0) /* never changes a result */
      continue;
    option_key(s, key);
    json_key(w, key);
    write_value(w, o, s);
  }
  json_end_object(w);
}
