#include "sim/plan/schedule_read.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "traces/trace.h"

/* ---- Findings -----------------------------------------------------------------------------------------------------
 */

void schedule_reader_tell(struct schedule_reader *r, int64_t iteration, int64_t group, const char *rule,
                          const char *fmt, ...) {
  struct schedule_finding f = {.iteration = iteration, .group = group, .rule = rule};
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(f.message, sizeof f.message, fmt, ap);
  va_end(ap);
  for (char *c = f.message; *c; c++) /* one line, whatever strings the file holds */
    if ((unsigned char)*c < 0x20 || *c == 0x7f)
      *c = ' ';
  r->findings++;
  r->finding(r->context, &f);
}

/* Where in the file we are. */
struct place {
  struct schedule_reader *reader;
  const char *rule;
  int64_t iteration, group, micro_batch;
  bool ok; /* nothing malformed so far */
};

__attribute__((format(printf, 2, 3))) static void malformed(struct place *p, const char *fmt, ...) {
  char text[200], where[40] = "";
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  p->ok = false;
  if (p->micro_batch >= 0)
    snprintf(where, sizeof where, ", micro-batch %" PRId64, p->micro_batch);
  schedule_reader_tell(p->reader, p->iteration, p->group, p->rule, "line %" PRId64 "%s: %s", p->reader->lines.line,
                       where, text);
}

static void check_keys(struct place *p, const json_t *object, const char *const *valid) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    const char *const *v = valid;
    while (*v && strcmp(*v, key) != 0)
      v++;
    if (*v)
      continue;
    const char *near = nearest_word(key, valid);
    malformed(p, "unknown key '%.60s'%s%s%s", key, near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
  }
}

/* ---- Values of keys -----------------------------------------------------------------------------------------------
 */

static const json_t *get(struct place *p, const json_t *object, const char *key, bool required) {
  const json_t *value = json_object_get(object, key);
  if (!value && required)
    malformed(p, "'%s' is missing", key);
  return value;
}

/* False, and *out untouched, when the key is absent or wrong. */
static bool get_int(struct place *p, const json_t *object, const char *key, bool required, int64_t min, int64_t max,
                    int64_t *out) {
  const json_t *value = get(p, object, key, required);
  if (!value)
    return false;
  int64_t v = json_integer_value(value);
  if (!json_is_integer(value) || v < min || v > max) {
    if (max == INT64_MAX)
      malformed(p, "'%s' must be an integer >= %" PRId64, key, min);
    else
      malformed(p, "'%s' must be an integer from %" PRId64 " to %" PRId64, key, min, max);
    return false;
  }
  *out = v;
  return true;
}

static void get_small_int(struct place *p, const json_t *object, const char *key, int min, int max, int *out) {
  int64_t v;
  if (get_int(p, object, key, true, min, max, &v))
    *out = (int)v;
}

/* NaN when the key is absent or wrong. */
static double get_number(struct place *p, const json_t *object, const char *key) {
  const json_t *value = get(p, object, key, true);
  if (!value)
    return NAN;
  if (json_is_number(value))
    return json_number_value(value);
  malformed(p, "'%s' must be a finite number", key);
  return NAN;
}

static double get_time(struct place *p, const json_t *object) {
  double v = get_number(p, object, "predicted_time_s");
  if (v < 0)
    schedule_reader_tell(p->reader, p->iteration, p->group, "time",
                         "line %" PRId64 ": 'predicted_time_s' must not be negative, got %g", p->reader->lines.line, v);
  return v;
}

static const json_t *get_array(struct place *p, const json_t *object, const char *key) {
  const json_t *value = get(p, object, key, true);
  if (!value || json_is_array(value))
    return value;
  malformed(p, "'%s' must be an array", key);
  return NULL;
}

static void get_string(struct place *p, const json_t *object, const char *key, char *out, size_t size) {
  const json_t *value = get(p, object, key, true);
  if (!value)
    return;
  if (!json_is_string(value))
    malformed(p, "'%s' must be a string", key);
  else if (json_string_length(value) >= size)
    malformed(p, "'%s' is longer than %zu bytes", key, size - 1);
  else
    snprintf(out, size, "%s", json_string_value(value));
}

/* Index of the string among `words` (NULL-terminated); -1 when the key is absent or wrong. */
static int get_word(struct place *p, const json_t *object, const char *key, bool required, const char *const *words) {
  const json_t *value = get(p, object, key, required);
  if (!value)
    return -1;
  char valid[128] = "";
  for (int i = 0; words[i]; i++) {
    if (json_is_string(value) && strcmp(json_string_value(value), words[i]) == 0)
      return i;
    size_t n = strlen(valid);
    snprintf(valid + n, sizeof valid - n, "%s\"%s\"", i ? ", " : "", words[i]);
  }
  malformed(p, "'%s' must be one of %s", key, valid);
  return -1;
}

static bool get_bool(struct place *p, const json_t *object, const char *key) {
  const json_t *value = get(p, object, key, true);
  if (value && !json_is_boolean(value))
    malformed(p, "'%s' must be true or false", key);
  return json_is_true(value);
}

/* A sample's name: id, or [id, offset] of a piece. */
static bool read_id(const json_t *value, uint32_t *id, uint32_t *offset) {
  const json_t *first = value, *second = NULL;
  if (json_is_array(value)) {
    if (json_array_size(value) != 2)
      return false;
    first = json_array_get(value, 0);
    second = json_array_get(value, 1);
    if (!json_is_integer(second))
      return false;
  }
  int64_t v = json_integer_value(first), o = second ? json_integer_value(second) : SCHEDULE_WHOLE;
  if (!json_is_integer(first) || v < 0 || v >= (int64_t)TRACE_MAX_SAMPLES || o < 0 ||
      (second && o > (int64_t)TRACE_MAX_LENGTH))
    return false;
  *id = (uint32_t)v;
  *offset = (uint32_t)o;
  return true;
}

/* ---- The header ---------------------------------------------------------------------------------------------------
 */

static const char *const header_keys[] = {
    "schema",        "world",     "gpus_per_node",    "model",     "cluster", "params",     "policy",     "trace",
    "samples_total", "dropped",   "infeasible",       "overlong",  "partial", "seed",       "zero",       "shard",
    "sp_kind",       "framework", "memory_cap_bytes", "weighting", "modules", "grad_dtype", "head_chunk", "offload",
    "memory_rule",   NULL};

static void id_list_add(struct schedule_id_list *list, uint32_t id, uint32_t offset) {
  if (list->n == list->cap) {
    list->cap = list->cap ? size_mul(list->cap, 2) : 64;
    list->ids = xrealloc(list->ids, size_mul(list->cap, sizeof *list->ids));
    list->offsets = xrealloc(list->offsets, size_mul(list->cap, sizeof *list->offsets));
  }
  list->ids[list->n] = id;
  list->offsets[list->n++] = offset;
}

static void read_id_list(struct place *p, const json_t *object, const char *key, struct schedule_id_list *list) {
  const json_t *array = get_array(p, object, key), *value;
  size_t i, bad = 0;
  json_array_foreach(array, i, value) {
    uint32_t id, offset;
    if (read_id(value, &id, &offset))
      id_list_add(list, id, offset);
    else if (bad++ == 0)
      malformed(p, "'%s' must hold sample ids or [id, offset], entry %zu is neither", key, i);
  }
}

static void read_params(struct place *p, const json_t *object, struct schedule_header *h) {
  static const char *const keys[] = {"file", "sha256", NULL};
  const json_t *params = get(p, object, "params", true);
  if (!params)
    return;
  if (!json_is_object(params)) {
    malformed(p, "'params' must be an object");
    return;
  }
  check_keys(p, params, keys);
  get_string(p, params, "file", h->params, sizeof h->params);
  get_string(p, params, "sha256", h->params_sha256, sizeof h->params_sha256);
}

static void read_modules(struct place *p, const json_t *object, struct schedule_reader *r) {
  const json_t *array = get_array(p, object, "modules");
  size_t n = json_array_size(array);
  if (!array)
    return;
  bool ok = n == 1 || n == 2;
  for (size_t i = 0; ok && i < n; i++) {
    const char *name = json_string_value(json_array_get(array, i));
    ok = name && strlen(name) < sizeof r->modules[i];
    snprintf(r->modules[i], sizeof r->modules[i], "%s", ok ? name : "");
  }
  if (!ok)
    malformed(p, "'modules' must be [\"layer\"] or [\"spatial\", \"temporal\"]");
  r->n_modules = ok ? (int)n : 0;
  r->is_2d = r->n_modules == 2;
}

static void read_options(struct place *p, const json_t *o, struct schedule_reader *r) {
  static const char *const shards[] = {"world", "node", NULL}, *const weightings[] = {"published", "per_token", NULL};
  static const char *const grad_dtypes[] = {"bf16", "fp32", NULL}, *const offloads[] = {"optimizer", NULL};
  static const char *const memory_rules[] = {"modelled", "published", NULL};
  const char *const kinds[] = {sp_kind_name(SP_ULYSSES), sp_kind_name(SP_RING), sp_kind_name(SP_DSP), NULL};
  struct schedule_header *h = &r->header;
  h->partial = get_bool(p, o, "partial");
  int64_t seed = 0;
  get_int(p, o, "seed", true, 0, INT64_MAX, &seed);
  h->seed = (uint64_t)seed;
  get_small_int(p, o, "zero", 0, 3, &h->zero);
  h->shard_node = get_word(p, o, "shard", true, shards) == 1;
  int kind = get_word(p, o, "sp_kind", true, kinds);
  r->has_sp_kind = kind >= 0;
  h->sp_kind = r->has_sp_kind ? (enum sp_kind)kind : SP_ULYSSES;
  int weighting = get_word(p, o, "weighting", true, weightings);
  r->has_weighting = weighting >= 0;
  snprintf(h->weighting, sizeof h->weighting, "%s", r->has_weighting ? weightings[weighting] : "");
  h->grad_bytes = get_word(p, o, "grad_dtype", false, grad_dtypes) == 1 ? 4 : 2;
  get_int(p, o, "head_chunk", false, 0, INT64_MAX, &h->head_chunk);
  h->offload_optimizer = get_word(p, o, "offload", false, offloads) == 0;
  h->memory_rule = get_word(p, o, "memory_rule", false, memory_rules) == 1 ? MEMORY_PUBLISHED : MEMORY_MODELLED;
}

static void read_header(struct place *p, const json_t *o, struct schedule_reader *r) {
  struct schedule_header *h = &r->header;
  check_keys(p, o, header_keys);
  get_small_int(p, o, "world", 1, SCHEDULE_MAX_WORLD, &h->world);
  get_small_int(p, o, "gpus_per_node", 1, SCHEDULE_MAX_WORLD, &h->gpus_per_node);
  get_string(p, o, "model", h->model, sizeof h->model);
  get_string(p, o, "cluster", h->cluster, sizeof h->cluster);
  read_params(p, o, h);
  get_string(p, o, "policy", h->policy, sizeof h->policy);
  get_string(p, o, "trace", h->trace, sizeof h->trace);
  get_int(p, o, "samples_total", true, 0, TRACE_MAX_SAMPLES, &h->samples_total);
  read_id_list(p, o, "dropped", &r->dropped);
  read_id_list(p, o, "infeasible", &r->infeasible);
  read_id_list(p, o, "overlong", &r->overlong);
  read_options(p, o, r);
  get_string(p, o, "framework", h->framework, sizeof h->framework);
  get_int(p, o, "memory_cap_bytes", true, 1, INT64_MAX, &h->memory_cap_bytes);
  read_modules(p, o, r);
}

static int not_a_schedule(const struct schedule_reader *r, const char *schema, struct err *err) {
  if (schema && strncmp(schema, "dcpsim.schedule/", strlen("dcpsim.schedule/")) == 0)
    return err_set(err, "schedule '%s' line %" PRId64 ": its schema is \"%.60s\", this version of dcpsim reads \"%s\"",
                   r->lines.path, r->lines.line, schema, SCHEDULE_SCHEMA);
  return err_set(err, "'%s' is not a schedule: its first line must be a JSON object with \"schema\": \"%s\"",
                 r->lines.path, SCHEDULE_SCHEMA);
}

static int open_header(struct schedule_reader *r, struct err *err) {
  int status = json_lines_next(&r->lines, err);
  if (status <= 0)
    return status < 0 ? -1 : not_a_schedule(r, NULL, err);
  json_error_t e;
  json_t *o = json_loadb(r->lines.text, r->lines.size, JSON_REJECT_DUPLICATES, &e);
  if (!o && r->lines.text[0] == '{')
    return err_set(err, "schedule '%s' line %" PRId64 " column %d: %.160s", r->lines.path, r->lines.line, e.column,
                   e.text);
  const char *schema = json_string_value(json_object_get(o, "schema"));
  if (schema && strcmp(schema, SCHEDULE_SCHEMA) == 0) {
    struct place p = {.reader = r, .rule = "header", .iteration = -1, .group = -1, .micro_batch = -1};
    read_header(&p, o, r);
    status = 0;
  } else {
    status = not_a_schedule(r, schema, err);
  }
  json_decref(o);
  return status;
}

/* With r->lines open. */
static int reader_open(struct schedule_reader *r, void (*finding)(void *context, const struct schedule_finding *f),
                       void *context, struct err *err) {
  r->finding = finding;
  r->context = context;
  r->header = (struct schedule_header){
      .world = -1, .gpus_per_node = -1, .zero = -1, .samples_total = -1, .memory_cap_bytes = -1};
  if (open_header(r, err) == 0)
    return 0;
  schedule_reader_close(r);
  return -1;
}

int schedule_reader_open(struct schedule_reader *r, const char *path,
                         void (*finding)(void *context, const struct schedule_finding *f), void *context,
                         struct err *err) {
  *r = (struct schedule_reader){0};
  return json_lines_open(&r->lines, "schedule", path, err) < 0 ? -1 : reader_open(r, finding, context, err);
}

int schedule_reader_open_file(struct schedule_reader *r, FILE *file, const char *path,
                              void (*finding)(void *context, const struct schedule_finding *f), void *context,
                              struct err *err) {
  *r = (struct schedule_reader){0};
  json_lines_open_file(&r->lines, "schedule", path, file);
  return reader_open(r, finding, context, err);
}

static void id_list_release(struct schedule_id_list *list) {
  free(list->ids);
  free(list->offsets);
  *list = (struct schedule_id_list){0};
}

void schedule_reader_close(struct schedule_reader *r) {
  json_lines_release(&r->lines);
  id_list_release(&r->dropped);
  id_list_release(&r->infeasible);
  id_list_release(&r->overlong);
}

/* ---- Iterations ---------------------------------------------------------------------------------------------------
 */

static void step_clear(struct schedule_step *s, bool is_2d) {
  plan_iteration_clear(&s->plan);
  s->samples.n = 0;
  s->samples.is_2d = is_2d;
  s->iteration = -1;
  s->complete = false;
}

void schedule_step_release(struct schedule_step *s) {
  plan_iteration_release(&s->plan);
  sample_set_release(&s->samples);
  free(s->weights);
  free(s->group_time_s);
  *s = (struct schedule_step){0};
}

static uint32_t step_add_sample(struct schedule_step *s, uint32_t id, uint32_t offset, struct sample shape) {
  struct sample_set *set = &s->samples;
  if (set->n == s->samples_cap) {
    s->samples_cap = s->samples_cap ? s->samples_cap * 2 : 256;
    size_t n = (size_t)s->samples_cap;
    set->samples = xrealloc(set->samples, size_mul(n, sizeof *set->samples));
    set->ids = xrealloc(set->ids, size_mul(n, sizeof *set->ids));
    set->offsets = xrealloc(set->offsets, size_mul(n, sizeof *set->offsets));
  }
  set->samples[set->n] = shape;
  set->ids[set->n] = id;
  set->offsets[set->n] = offset;
  return (uint32_t)set->n++;
}

/* [tokens] or [frames, positions]. */
static bool read_shape(const json_t *value, bool is_2d, struct sample *shape) {
  int64_t v[2] = {0, 1};
  size_t n = is_2d ? 2 : 1;
  if (!json_is_array(value) || json_array_size(value) != n)
    return false;
  for (size_t i = 0; i < n; i++) {
    const json_t *extent = json_array_get(value, i);
    v[i] = json_integer_value(extent);
    if (!json_is_integer(extent) || v[i] < 1 || v[i] > (int64_t)TRACE_MAX_LENGTH)
      return false;
  }
  if (v[0] * v[1] > (int64_t)TRACE_MAX_LENGTH)
    return false;
  *shape = (struct sample){(uint32_t)v[0], (uint32_t)v[1]};
  return true;
}

static void read_samples(struct place *p, const json_t *o, struct schedule_step *s, struct plan_micro_batch *mb) {
  const json_t *ids = get_array(p, o, "samples"), *shapes = get_array(p, o, "shapes");
  size_t n = json_array_size(ids);
  const char *form = s->samples.is_2d ? "[frames, positions]" : "[tokens]";
  if (!ids || !shapes)
    return;
  if (n == 0 || json_array_size(shapes) != n) {
    malformed(p, "'samples' and 'shapes' must be equally long and not empty, have %zu and %zu", n,
              json_array_size(shapes));
    return;
  }
  uint32_t *entries = plan_pool(&s->plan, n);
  mb->samples = entries;
  for (size_t i = 0; i < n; i++) {
    uint32_t id, offset;
    struct sample shape;
    if (!read_id(json_array_get(ids, i), &id, &offset))
      malformed(p, "entry %zu of 'samples' must be a sample id or [id, offset]", i);
    else if (!read_shape(json_array_get(shapes, i), s->samples.is_2d, &shape))
      malformed(p, "entry %zu of 'shapes' must be %s, 1 to %u tokens", i, form, TRACE_MAX_LENGTH);
    else
      entries[mb->count++] = step_add_sample(s, id, offset, shape);
  }
}

static void read_recompute(struct place *p, const json_t *o, int n_modules, struct plan_micro_batch *mb) {
  const json_t *array = get_array(p, o, "recompute_layers");
  if (!array || n_modules == 0)
    return;
  bool ok = json_array_size(array) == (size_t)n_modules;
  for (int m = 0; ok && m < n_modules; m++) {
    const json_t *count = json_array_get(array, (size_t)m);
    int64_t v = json_integer_value(count);
    ok = json_is_integer(count) && v >= INT32_MIN && v <= INT32_MAX;
    mb->recompute_blocks[m] = ok ? (int)v : 0;
  }
  if (!ok)
    malformed(p, "'recompute_layers' must hold one integer per module (%d)", n_modules);
}

static void read_micro_batch(struct place *p, const json_t *o, struct schedule_step *s) {
  static const char *const keys[] = {"samples", "shapes", "layout", "padded_shape", "recompute_layers", "weight", NULL};
  static const char *const layouts[] = {"padded", "packed", NULL};
  if (!json_is_object(o)) {
    malformed(p, "a micro-batch must be an object");
    return;
  }
  check_keys(p, o, keys);
  struct plan_micro_batch *mb = plan_add_micro_batch(&s->plan);
  mb->bucket = -1;
  read_samples(p, o, s, mb);
  read_recompute(p, o, p->reader->n_modules, mb);
  int layout = get_word(p, o, "layout", true, layouts);
  mb->packed = layout == 1;
  const json_t *padded = get(p, o, "padded_shape", layout == 0);
  if (padded && layout == 1)
    malformed(p, "'padded_shape' does not belong to layout \"packed\"");
  else if (padded && !read_shape(padded, s->samples.is_2d, &mb->shape))
    malformed(p, "'padded_shape' must be %s, 1 to %u tokens", s->samples.is_2d ? "[frames, positions]" : "[tokens]",
              TRACE_MAX_LENGTH);
  VEC_RESERVE(s->weights, s->weights_cap, s->plan.n_micro_batches);
  s->weights[s->plan.n_micro_batches - 1] = get_number(p, o, "weight");
}

/* first_rank 0, sp 0 when malformed. */
static void read_ranks(struct place *p, const json_t *o, int64_t *first, int64_t *end) {
  const json_t *ranks = get_array(p, o, "ranks");
  const json_t *a = json_array_get(ranks, 0), *b = json_array_get(ranks, 1);
  if (!ranks)
    return;
  *first = json_integer_value(a);
  *end = json_integer_value(b);
  bool ok = json_array_size(ranks) == 2 && json_is_integer(a) && json_is_integer(b);
  if (ok && *first >= 0 && *end > *first && *end <= SCHEDULE_MAX_WORLD)
    return;
  malformed(p, "'ranks' must be [first, one past last]");
  *first = *end = 0;
}

/* `time_s` NaN: not known. */
static void add_group(struct schedule_step *s, int64_t first, int64_t end, int64_t round, double time_s) {
  plan_add_group(&s->plan, (int)first, (int)(end - first), -1)->round = (int)round;
  VEC_RESERVE(s->group_time_s, s->group_times_cap, s->plan.n_groups);
  s->group_time_s[s->plan.n_groups - 1] = time_s;
}

static void read_group(struct place *p, const json_t *o, struct schedule_step *s) {
  static const char *const keys[] = {"ranks", "round", "micro_batches", "predicted_time_s", NULL};
  int64_t first = 0, end = 0, round = 0;
  if (!json_is_object(o)) {
    malformed(p, "a group must be an object");
    add_group(s, 0, 0, 0, NAN);
    return;
  }
  check_keys(p, o, keys);
  read_ranks(p, o, &first, &end);
  get_int(p, o, "round", false, 0, 1000000, &round);
  add_group(s, first, end, round, get_time(p, o));
  const json_t *array = get_array(p, o, "micro_batches"), *value;
  size_t i;
  if (array && json_array_size(array) == 0)
    malformed(p, "'micro_batches' is empty");
  json_array_foreach(array, i, value) {
    p->micro_batch = (int64_t)i;
    read_micro_batch(p, value, s);
  }
  p->micro_batch = -1;
}

static void read_step(struct schedule_reader *r, const json_t *o, struct schedule_step *s) {
  static const char *const keys[] = {"iteration", "predicted_time_s", "groups", NULL};
  struct place p = {.reader = r, .rule = "format", .iteration = -1, .group = -1, .micro_batch = -1, .ok = true};
  step_clear(s, r->is_2d);
  get_int(&p, o, "iteration", true, 0, INT64_MAX, &s->iteration);
  p.iteration = s->iteration;
  check_keys(&p, o, keys);
  s->predicted_time_s = get_time(&p, o);
  const json_t *array = get_array(&p, o, "groups"), *value;
  size_t i;
  if (array && json_array_size(array) == 0)
    malformed(&p, "'groups' is empty");
  json_array_foreach(array, i, value) {
    p.group = (int64_t)i;
    read_group(&p, value, s);
  }
  s->complete = p.ok;
}

int schedule_reader_next(struct schedule_reader *r, struct schedule_step *step, struct err *err) {
  int status;
  while ((status = json_lines_next(&r->lines, err)) == 1) {
    json_error_t e;
    json_t *o = json_loadb(r->lines.text, r->lines.size, JSON_REJECT_DUPLICATES, &e);
    if (json_is_object(o)) {
      read_step(r, o, step);
      json_decref(o);
      return 1;
    }
    r->unreadable_lines++;
    schedule_reader_tell(r, -1, -1, "json", "line %" PRId64 " column %d: %.160s", r->lines.line, o ? 1 : e.column,
                         o ? "an iteration must be a JSON object" : e.text);
    json_decref(o);
  }
  return status;
}
