#include "sim/experiment/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/options_table.h"

/* ---- Setting from text ---------------------------------------------------------------------------------------------
 */

static int set_int(int64_t *out, const struct option_spec *s, const char *label, const char *text, struct err *err) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (s->unset && strcmp(text, s->unset) == 0) {
    *out = 0;
    return 0;
  }
  bool open = s->max >= OPTION_NO_LIMIT;
  if (errno == 0 && end != text && *end == '\0' && *text != ' ' && (double)v >= s->min &&
      (open || (double)v <= s->max)) {
    *out = v;
    return 0;
  }
  const char *word = s->unset && strchr(s->unset, ' ') == NULL ? s->unset : NULL;
  char range[80];
  snprintf(range, sizeof range, open ? ">= %.0f" : "from %.0f to %.0f", s->min, s->max);
  return err_usage(err, "%s must be an integer %s%s%s, got '%.60s'%s", label, range, word ? " or " : "",
                   word ? word : "", text, end != text && *end && strchr("kKmMgG", *end) ? ": write all digits" : "");
}

static int set_real(double *out, const struct option_spec *s, const char *label, const char *text, struct err *err) {
  char *end, low[32], high[32];
  double v = strtod(text, &end);
  if (end != text && *end == '\0' && *text != ' ' && v >= s->min && v <= s->max) {
    *out = v;
    return 0;
  }
  double_text(s->min, low);
  double_text(s->max, high);
  return err_usage(err, "%s must be a number from %s to %s, got '%.60s'", label, low, high, text);
}

bool option_next_word(const char **list, char separator, const char **word, size_t *n) {
  if (!*list)
    return false;
  const char *end = strchr(*list, separator);
  *word = *list;
  *n = end ? (size_t)(end - *list) : strlen(*list);
  *list = end ? end + 1 : NULL;
  return true;
}

static int check_choice(const struct option_spec *s, const char *label, const char *text, struct err *err) {
  const char *list = s->values, *word;
  size_t n;
  char valid[200] = "";
  while (option_next_word(&list, '|', &word, &n)) {
    if (strlen(text) == n && memcmp(text, word, n) == 0)
      return 0;
    size_t at = strlen(valid);
    snprintf(valid + at, sizeof valid - at, "%s%.*s", at ? ", " : "", (int)n, word);
  }
  return err_usage(err, "%s '%.60s' is not valid (valid: %s)", label, text, valid);
}

static int set_text(char **out, const struct option_spec *s, const char *label, const char *text, struct err *err) {
  if (*text == '\0')
    return err_usage(err, "%s must not be empty", label);
  if (s->values && check_choice(s, label, text, err) < 0)
    return -1;
  free(*out);
  *out = xstrdup(text);
  return 0;
}

static int set_bounds(struct experiment_options *o, const struct option_spec *s, const char *label, const char *text,
                      struct err *err) {
  const char *list = text, *word;
  size_t n;
  int count = 0;
  int64_t bounds[MAX_BUCKET_BOUNDS];
  while (option_next_word(&list, ',', &word, &n)) {
    char one[32];
    if (count == MAX_BUCKET_BOUNDS)
      return err_usage(err, "%s has more than %d bounds", label, MAX_BUCKET_BOUNDS);
    snprintf(one, sizeof one, "%.*s", (int)(n < 31 ? n : 31), word);
    if (set_int(&bounds[count], s, label, one, err) < 0)
      return -1;
    if (count > 0 && bounds[count] <= bounds[count - 1])
      return err_usage(err, "%s must ascend, got %" PRId64 " after %" PRId64, label, bounds[count], bounds[count - 1]);
    count++;
  }
  memcpy(o->bucket_bounds, bounds, sizeof bounds[0] * (size_t)count);
  o->n_bucket_bounds = count;
  return 0;
}

static int set_straggler(struct experiment_options *o, const struct option_spec *s, const char *label, const char *text,
                         struct err *err) {
  char *end, *end_factor;
  errno = 0;
  long long rank = strtoll(text, &end, 10);
  double factor = *end == ':' ? strtod(end + 1, &end_factor) : 0;
  if (errno || end == text || *end != ':' || end_factor == end + 1 || *end_factor || rank < 0 || rank > 1000000 ||
      !(factor >= s->min && factor <= s->max))
    return err_usage(err, "%s must be RANK:FACTOR with a factor from %g to %g, as in 3:1.5, got '%.60s'", label, s->min,
                     s->max, text);
  o->straggler_rank = rank;
  o->straggler_factor = factor;
  return 0;
}

int option_set(struct experiment_options *o, const struct option_spec *s, const char *label, const char *text,
               struct err *err) {
  switch (s->type) {
  case TYPE_FLAG:
    *(bool *)option_field(o, s) = strcmp(text, "true") == 0;
    return 0;
  case TYPE_INT:
    return set_int(option_field(o, s), s, label, text, err);
  case TYPE_REAL:
    return set_real(option_field(o, s), s, label, text, err);
  case TYPE_TEXT:
  case TYPE_LIST:
    return set_text(option_field(o, s), s, label, text, err);
  case TYPE_BOUNDS:
    return set_bounds(o, s, label, text, err);
  case TYPE_STRAGGLER:
    return set_straggler(o, s, label, text, err);
  }
  return -1;
}

void option_unset(struct experiment_options *o, const struct option_spec *s) {
  if (option_is_text(s)) {
    free(*(char **)option_field(o, s));
    *(char **)option_field(o, s) = NULL;
  } else if (s->type == TYPE_INT) {
    *(int64_t *)option_field(o, s) = 0;
  } else if (s->type == TYPE_BOUNDS) {
    o->n_bucket_bounds = 0;
  } else if (s->type == TYPE_STRAGGLER) {
    o->straggler_rank = -1;
  }
}

/* ---- All options ----------------------------------------------------------------------------------------------------
 */

void options_init(struct experiment_options *o) {
  *o = (struct experiment_options){.straggler_rank = -1, .straggler_factor = 1};
  for (const struct option_spec *s = option_specs; s->name; s++)
    if (s->initial)
      ASSERT(option_set(o, s, s->name, s->initial, NULL) == 0);
}

void options_copy(struct experiment_options *to, const struct experiment_options *from) {
  *to = *from;
  for (const struct option_spec *s = option_specs; s->name; s++)
    if (option_is_text(s)) {
      const char *text = *(char *const *)option_const_field(from, s);
      *(char **)option_field(to, s) = text ? xstrdup(text) : NULL;
    }
}

void options_release(struct experiment_options *o) {
  for (const struct option_spec *s = option_specs; s->name; s++)
    if (option_is_text(s))
      option_unset(o, s);
}

int options_set(struct experiment_options *o, const char *name, const char *value, struct err *err) {
  const struct option_spec *s = option_find(name, strlen(name));
  const char *names[MAX_OPTIONS + 1] = {NULL};
  int n = 0;
  for (const struct option_spec *known = option_specs; known->name; known++)
    names[n++] = known->name;
  const char *nearest = s ? NULL : nearest_word(name, names);
  if (!s)
    return err_usage(err, "unknown option '%.60s'%s%s%s", name, nearest ? ", did you mean '" : "",
                     nearest ? nearest : "", nearest ? "'?" : "");
  return option_set(o, s, s->name, value, err);
}

/* The option's value as text, "" when a set flag. False: as by default. */
static bool differs(const struct experiment_options *o, const struct option_spec *s, char *buf, size_t size) {
  struct experiment_options plain;
  const void *at = option_const_field(o, s);
  buf[0] = '\0';
  options_init(&plain);
  const void *initial = option_const_field(&plain, s);
  bool differ = false;
  if (s->type == TYPE_FLAG) {
    differ = *(const bool *)at != *(const bool *)initial;
  } else if (s->type == TYPE_INT) {
    differ = *(const int64_t *)at != *(const int64_t *)initial;
    snprintf(buf, size, "%" PRId64, *(const int64_t *)at);
  } else if (s->type == TYPE_REAL) {
    differ = *(const double *)at != *(const double *)initial;
    snprintf(buf, size, "%g", *(const double *)at);
  } else if (option_is_text(s)) {
    const char *a = *(char *const *)at, *b = *(char *const *)initial;
    differ = a && (!b || strcmp(a, b) != 0);
    snprintf(buf, size, "%s", a ? a : "");
  } else if (s->type == TYPE_BOUNDS) {
    differ = o->n_bucket_bounds > 0;
    snprintf(buf, size, "(%d)", o->n_bucket_bounds);
  } else {
    differ = o->straggler_rank >= 0;
    snprintf(buf, size, "%" PRId64 ":%g", o->straggler_rank, o->straggler_factor);
  }
  options_release(&plain);
  return differ;
}

bool options_is_output(const char *name) {
  const struct option_spec *named = option_find(name, strlen(name));
  const char *group = NULL;
  for (const struct option_spec *s = option_specs; named && s <= named; s++)
    group = s->group ? s->group : group;
  return group && strcmp(group, "Output") == 0;
}

void options_differences(const struct experiment_options *o, char *buf, size_t size) {
  static const char *const shown_elsewhere[] = {"trace",    "model", "cluster", "params",          "policy",
                                                "baseline", "seed",  "epoch",   "memory-cap-frac", NULL};
  size_t at = 0;
  buf[0] = '\0';
  for (const struct option_spec *s = option_specs; s->name && at < size; s++) {
    char value[80];
    bool elsewhere = options_is_output(s->name);
    for (int k = 0; shown_elsewhere[k]; k++)
      elsewhere = elsewhere || strcmp(shown_elsewhere[k], s->name) == 0;
    if (!elsewhere && differs(o, s, value, sizeof value))
      at += (size_t)snprintf(buf + at, size - at, "%s%s%s%s", at ? ", " : "", s->name, *value ? " " : "", value);
  }
}
