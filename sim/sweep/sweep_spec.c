#include "sim/sweep/sweep_spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/sha256.h"
#include "sim/base/units.h"

#define SCHEMA "dcpsim.sweep/1"

/* ---- Fields that a sweep cannot have ---- */

static int check_sweepable(const struct json_doc *doc, const json_t *object, struct err *err) {
  const char *key;
  json_t *value;
  int rc = options_check_keys(doc, object, NULL, err);
  json_object_foreach((json_t *)object, key, value) {
    if (rc == 0 && options_is_output(key))
      rc = json_error(doc, object, err,
                      "'%s' does not belong into a sweep: its output is one table (-o), its threads -j", key);
  }
  if (rc == 0 && json_object_get(object, "profile"))
    rc = json_error(doc, object, err, "'profile' is for plan: simulating needs the models");
  if (rc == 0 && json_object_get(object, "offload"))
    rc = json_error(doc, object, err, "'offload' is for plan: its time is not modelled");
  return rc;
}

/* ---- Ranges ---- */

/* As people would write it: 0.30000000000000004 is 0.3. */
static double twelve_digits(double v) {
  char buf[40];
  snprintf(buf, sizeof buf, "%.12g", v);
  return strtod(buf, NULL);
}

/* Whole numbers stay integers, so that they suit fields of either kind. */
static json_t *number(double v) {
  v = twelve_digits(v);
  return v == floor(v) && fabs(v) < 9e15 ? json_integer((json_int_t)v) : json_real(v);
}

struct range {
  double from, to, by;
  bool is_factor;
};

static int read_range(const struct json_doc *doc, const json_t *node, const char *name, struct range *r,
                      struct err *err) {
  static const char *const keys[] = {"from", "to", "step", "factor", NULL};
  bool step = json_object_get(node, "step"), factor = json_object_get(node, "factor");
  if (json_check_keys(doc, node, keys, err) < 0)
    return -1;
  if (step == factor)
    return json_error(doc, node, err, "the range of '%s' needs either 'step' or 'factor'", name);
  r->is_factor = factor;
  if (json_get_double(doc, node, "from", true, -9e15, 9e15, &r->from, err) < 0 ||
      json_get_double(doc, node, "to", true, -9e15, 9e15, &r->to, err) < 0 ||
      json_get_double(doc, node, factor ? "factor" : "step", true, -9e15, 9e15, &r->by, err) < 0)
    return -1;
  if (factor && (r->from <= 0 || r->to <= 0 || r->by <= 0))
    return json_error(doc, node, err, "the range of '%s': 'from', 'to' and 'factor' must be positive", name);
  bool rises = factor ? r->by > 1 : r->by > 0, falls = factor ? r->by < 1 : r->by < 0;
  if (r->from != r->to && !(r->to > r->from ? rises : falls))
    return json_error(doc, node, err, "the range of '%s' never gets from %g to %g by a %s of %g", name, r->from, r->to,
                      factor ? "factor" : "step", r->by);
  return 0;
}

/* Both ends belong to the range; the last value may miss `to` by rounding. */
static bool beyond(const struct range *r, double v) {
  double slack = 1e-9 * fmax(fabs(r->from), fabs(r->to));
  return r->to >= r->from ? v > r->to + slack : v < r->to - slack;
}

static json_t *range_values(const struct json_doc *doc, const json_t *node, const char *name, struct err *err) {
  struct range r = {0};
  if (read_range(doc, node, name, &r, err) < 0)
    return NULL;
  json_t *values = json_array();
  double v = r.from;
  for (int64_t i = 0; i == 0 || !beyond(&r, v); i++) {
    if (i == SWEEP_MAX_POINTS) {
      json_decref(values);
      json_error(doc, node, err, "the range of '%s' has more than %d values", name, SWEEP_MAX_POINTS);
      return NULL;
    }
    json_array_append_new(values, number(v));
    if (r.from == r.to)
      break;
    v = r.is_factor ? v * r.by : r.from + (double)(i + 1) * r.by;
  }
  return values;
}

/* ---- Fields ---- */

/* Every value by itself must suit the field. */
static int check_values(const struct sweep_spec *s, const struct sweep_field *f, struct err *err) {
  struct experiment_options o;
  int rc = 0;
  options_copy(&o, &s->base);
  for (int64_t i = 0; rc == 0 && i < f->n; i++) {
    const json_t *value = json_array_get(f->values, (size_t)i);
    bool unique = f->values == f->node && !json_is_null(value) && !json_is_boolean(value); /* the line of a value */
    rc = options_set_json(&o, &s->doc, unique ? value : f->node, f->name, value, err);
  }
  options_release(&o);
  return rc;
}

static int add_field(struct sweep_spec *s, const char *name, const json_t *node, struct err *err) {
  if (s->n_fields == SWEEP_MAX_FIELDS)
    return json_error(&s->doc, node, err, "more than %d swept fields", SWEEP_MAX_FIELDS);
  for (int i = 0; i < s->n_fields; i++)
    if (strcmp(s->fields[i].name, name) == 0)
      return json_error(&s->doc, node, err, "'%s' is in 'grid' and in 'zip'", name);
  if (json_object_get(json_object_get(s->doc.root, "base"), name))
    return json_error(&s->doc, node, err, "'%s' is swept, but 'base' has it, too", name);
  struct sweep_field *f = &s->fields[s->n_fields];
  *f = (struct sweep_field){.name = name, .node = node};
  if (json_is_object(node))
    f->values = range_values(&s->doc, node, name, err);
  else if (json_is_array(node))
    f->values = json_incref((json_t *)node);
  else
    json_error(&s->doc, node, err,
               "'%s' must be a list of values, or a range {\"from\", \"to\", \"step\" or \"factor\"}", name);
  if (!f->values)
    return -1;
  s->n_fields++;
  f->n = (int64_t)json_array_size(f->values);
  if (f->n == 0)
    return json_error(&s->doc, node, err, "'%s' has no values", name);
  return check_values(s, f, err);
}

static int add_fields(struct sweep_spec *s, const json_t *object, struct err *err) {
  const char *name;
  json_t *node;
  if (object && check_sweepable(&s->doc, object, err) < 0)
    return -1;
  json_object_foreach((json_t *)object, name, node) {
    if (add_field(s, name, node, err) < 0)
      return -1;
  }
  return 0;
}

/* Numbers the points; fields from `first_zipped` on go together. */
static int number_points(struct sweep_spec *s, int first_zipped, struct err *err) {
  int64_t zipped = s->n_fields > first_zipped ? s->fields[first_zipped].n : 1;
  for (int i = first_zipped; i < s->n_fields; i++) {
    if (s->fields[i].n != zipped)
      return json_error(&s->doc, s->fields[i].node, err,
                        "fields of 'zip' need equally many values: '%s' has %lld, '%s' %lld",
                        s->fields[first_zipped].name, (long long)zipped, s->fields[i].name, (long long)s->fields[i].n);
    s->fields[i].stride = 1;
  }
  s->n_points = zipped;
  for (int i = first_zipped - 1; i >= 0; i--) {
    s->fields[i].stride = s->n_points;
    if (s->fields[i].n > SWEEP_MAX_POINTS / s->n_points)
      return json_error(&s->doc, s->doc.root, err, "the sweep has more than %d points", SWEEP_MAX_POINTS);
    s->n_points *= s->fields[i].n;
  }
  if (s->n_points > SWEEP_MAX_POINTS)
    return json_error(&s->doc, s->doc.root, err, "the sweep has more than %d points", SWEEP_MAX_POINTS);
  return 0;
}

/* Space and line breaks do not count, the order of fields does: it numbers the points. */
static void make_hash(struct sweep_spec *s) {
  char hex[65];
  char *text = json_dumps(s->doc.root, JSON_COMPACT);
  ASSERT(text);
  size_t size = strlen(text) + strlen(DCPSIM_VERSION) + 1;
  char *whole = xmalloc(size);
  snprintf(whole, size, "%s%s", DCPSIM_VERSION, text);
  sha256_hex(whole, size - 1, hex);
  snprintf(s->hash, sizeof s->hash, "%.16s", hex);
  free(whole);
  free(text);
}

/* ---- The whole spec ---- */

static int fill(struct sweep_spec *s, struct err *err) {
  static const char *const keys[] = {"schema", "base", "grid", "zip", NULL};
  json_t *base = NULL, *grid = NULL, *zip = NULL;
  if (json_check_keys(&s->doc, s->doc.root, keys, err) < 0 ||
      json_get_object(&s->doc, s->doc.root, "base", true, &base, err) < 0 ||
      json_get_object(&s->doc, s->doc.root, "grid", false, &grid, err) < 0 ||
      json_get_object(&s->doc, s->doc.root, "zip", false, &zip, err) < 0)
    return -1;
  if (check_sweepable(&s->doc, base, err) < 0 || options_read_object(&s->base, &s->doc, base, err) < 0)
    return -1;
  if (add_fields(s, grid, err) < 0)
    return -1;
  int first_zipped = s->n_fields;
  if (add_fields(s, zip, err) < 0)
    return -1;
  if (s->n_fields == 0)
    return json_error(&s->doc, s->doc.root, err, "nothing to sweep: 'grid' and 'zip' name no field");
  make_hash(s);
  return number_points(s, first_zipped, err);
}

static const struct sweep_field *find_field(const struct sweep_spec *s, const char *name) {
  for (int i = 0; i < s->n_fields; i++)
    if (strcmp(s->fields[i].name, name) == 0)
      return &s->fields[i];
  return NULL;
}

/* What every point would fail for. A trace is read more than once, maybe on another machine: no stdin. */
static int check_required(const struct sweep_spec *s, struct err *err) {
  static const char *const names[] = {"trace", "model", "cluster"};
  const json_t *base = json_object_get(s->doc.root, "base");
  for (int i = 0; i < 3; i++)
    if (!json_object_get(base, names[i]) && !find_field(s, names[i]))
      return json_error(&s->doc, base, err, "'%s' is missing: neither 'base' nor the swept fields have it", names[i]);
  const struct sweep_field *traces = find_field(s, "trace");
  for (int64_t i = 0; i < (traces ? traces->n : 1); i++) {
    const json_t *name = traces ? json_array_get(traces->values, (size_t)i) : json_object_get(base, "trace");
    if (json_is_string(name) && strcmp(json_string_value(name), "-") == 0)
      return json_error(&s->doc, name, err, "'trace' cannot be -: a sweep reads it more than once");
  }
  return 0;
}

static int finish(struct sweep_spec *s, struct err *err) {
  options_init(&s->base);
  s->base.draws = 0; /* a point is one run, unless the base asks for more */
  if (fill(s, err) == 0 && check_required(s, err) == 0)
    return 0;
  sweep_spec_release(s);
  return -1;
}

int sweep_spec_read(struct sweep_spec *s, const char *path, struct err *err) {
  *s = (struct sweep_spec){0};
  return json_doc_read(&s->doc, "sweep", path, SCHEMA, err) < 0 ? -1 : finish(s, err);
}

int sweep_spec_parse(struct sweep_spec *s, const char *path, const char *text, struct err *err) {
  *s = (struct sweep_spec){0};
  return json_doc_parse(&s->doc, "sweep", path, text, SCHEMA, err) < 0 ? -1 : finish(s, err);
}

void sweep_spec_release(struct sweep_spec *s) {
  for (int i = 0; i < s->n_fields; i++)
    json_decref(s->fields[i].values);
  options_release(&s->base);
  json_doc_release(&s->doc);
  *s = (struct sweep_spec){0};
}

/* ---- Points ---- */

const json_t *sweep_spec_value(const struct sweep_spec *s, int field, int64_t point) {
  const struct sweep_field *f = &s->fields[field];
  return json_array_get(f->values, (size_t)(point / f->stride % f->n));
}

/* The default is the same with and without batches in the trace: rows of a point are counted before it is read. */
static void settle_policies(struct experiment_options *o) {
  if (!o->policy)
    ASSERT(options_set(o, "policy", DEFAULT_POLICIES, NULL) == 0);
}

int sweep_spec_options(const struct sweep_spec *s, int64_t point, struct experiment_options *o, struct err *err) {
  int rc = 0;
  options_copy(o, &s->base);
  o->threads = 1; /* the points are what runs side by side */
  for (int i = 0; rc == 0 && i < s->n_fields; i++)
    rc = options_set_json(o, &s->doc, s->fields[i].node, s->fields[i].name, sweep_spec_value(s, i, point), err);
  settle_policies(o);
  return rc;
}

static int count_policies(const char *list) {
  int n = 1;
  for (list = list ? list : DEFAULT_POLICIES; *list; list++)
    n += *list == ',';
  return n;
}

int sweep_spec_policies(const struct sweep_spec *s, int64_t point) {
  for (int i = 0; i < s->n_fields; i++) {
    const json_t *value = sweep_spec_value(s, i, point);
    if (strcmp(s->fields[i].name, "policy") == 0)
      return json_is_array(value) ? (int)json_array_size(value) : count_policies(json_string_value(value));
  }
  return count_policies(s->base.policy);
}
