#include "calib/fit_params.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_version.h>
#include <stdlib.h>
#include <string.h>

#include "calib/check.h"
#include "calib/fit_section.h"
#include "calib/number_list.h"
#include "calib/text_file.h"
#include "sim/base/libraries.h"
#include "sim/base/sha256.h"
#include "sim/base/share.h"
#include "sim/base/text_stream.h"
#include "sim/base/units.h"

#define CONSTANTS_SCHEMA "dcpsim.constants/1"

int fit_constants_read(struct json_doc *constants, const char *device, const char *path, struct err *err) {
  char relative[128], found[4096];
  if (!path) {
    snprintf(relative, sizeof relative, "calib/data/constants_%.60s.json", device);
    if (share_path(found, sizeof found, relative))
      return err_usage(err, "no constants for device '%s' (%s); --constants names the file", device, relative);
    path = found;
  }
  return json_doc_read(constants, "constants", path, CONSTANTS_SCHEMA, err);
}

static int replace(char **section, char *text) {
  if (!text)
    return -1;
  free(*section);
  *section = text;
  return 0;
}

/* A section of the defaults, if the section is still missing and there are any. */
static void take_default(char **section, const struct fit_source *source, const char *key) {
  const json_t *value = source->defaults ? json_object_get(source->defaults, key) : NULL;
  if (!*section && value)
    *section = json_dumps(value, JSON_COMPACT);
}

int fit_update(struct fit_sections *sections, int which, const struct fit_source *source,
               const struct json_doc *constants, struct err *err) {
  libraries_begin(); /* of GSL: no error but exhausted memory ends the program */
  if (which & SECTION_GEMM && replace(&sections->gemm, source->measured ? fit_measured_gemm(source, constants, err)
                                                                        : fit_gemm(source, constants, err)))
    return -1;
  if (which & SECTION_ATTENTION && replace(&sections->attention, source->measured ? fit_measured_attention(source, err)
                                                                                  : fit_attention(source, err)))
    return -1;
  if (which & SECTION_NETWORK && replace(&sections->network, fit_network(source, constants, err)))
    return -1;
  take_default(&sections->gemm, source, "gemm");
  take_default(&sections->attention, source, "attention");
  take_default(&sections->network, source, "network");
  return 0;
}

void fit_sections_release(struct fit_sections *s) {
  free(s->gemm);
  free(s->attention);
  free(s->network);
  *s = (struct fit_sections){NULL, NULL, NULL};
}

/* The keys of the constants that are copied as they are. */
static const char *const copied[] = {"memory_bound", "host", "in_step", "overlap", "reserve"};

char *fit_text(const struct fit_sections *sections, const struct fit_source *source, const struct json_doc *constants,
               const char *about) {
  char *text = NULL;
  size_t size;
  FILE *out = text_stream_begin(&text, &size);
  fprintf(out, "{\n  \"schema\": \"dcpsim.params/1\",\n  \"gpu\": \"%s\",\n", source->device);
  if (source->element_bytes == 4)
    fprintf(out, "  \"element_bytes\": 4,\n");
  fprintf(out, "  \"source\": ");
  for (size_t i = 0; i < 1 + sizeof copied / sizeof *copied; i++) {
    const char *key = i == 0 ? "source" : copied[i - 1];
    char *value = source->measured && strcmp(key, "memory_bound") == 0
                      ? fit_measured_memory(source, constants)
                      : json_dumps(json_object_get(constants->root, key),
                                   JSON_ENCODE_ANY | JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    if (i > 0)
      fprintf(out, "  \"%s\": ", key);
    number_list_indent(out, value ? value : "null", 2);
    fprintf(out, ",\n");
    free(value);
  }
  fprintf(out, "  \"fit\": ");
  number_list_indent(out, about, 2);
  fprintf(out, ",\n  \"gemm\": %s,\n  \"attention\": %s,\n  \"network\": %s\n}\n", sections->gemm, sections->attention,
          sections->network);
  text_stream_end(out);
  return text;
}

/* ---- What the file says of itself ---- */

static int write_files(struct json_writer *w, const struct fit_source *s, const struct fit_rows *rows, bool sibling,
                       struct err *err) {
  for (size_t f = 0; f < rows->n_files; f++) {
    char *text, hash[65];
    size_t n, used = 0;
    if (text_file_read("rows", rows->files[f].table.path, &text, &n, err))
      return -1;
    sha256_hex(text, n, hash);
    free(text);
    for (size_t i = 0; i < rows->files[f].table.n_rows; i++)
      used += fit_uses(s, rows, f, i) && (!sibling || rows->files[f].v[i].op == ROW_OP_GEMM ||
                                          row_op_class(rows->files[f].v[i].op) == ROW_COLLECTIVE);
    json_begin_object(w);
    json_key_str(w, "file", rows->files[f].table.path);
    json_key_str(w, "sha256", hash);
    json_key_int(w, "rows", (int64_t)rows->files[f].table.n_rows);
    json_key_int(w, "rows_used", (int64_t)used);
    if (sibling)
      json_key_bool(w, "sibling", true);
    json_end_object(w);
  }
  return 0;
}

static void write_errors(struct json_writer *w, const struct check *check) {
  json_key(w, "abs_rel_error");
  json_begin_array(w);
  for (size_t i = 0; check && i < check->n_groups; i++) {
    const struct check_group *g = &check->groups[i];
    char number[2][32];
    if (fit_is_test(g->op, g->at_once))
      continue;
    json_begin_object(w);
    json_key_str(w, "operation", row_op_name(g->op));
    json_key_int(w, "rows", (int64_t)g->rows);
    snprintf(number[0], sizeof number[0], "%.3g", g->median);
    snprintf(number[1], sizeof number[1], "%.3g", g->p90);
    json_key_double(w, "median", strtod(number[0], NULL));
    json_key_double(w, "p90", strtod(number[1], NULL));
    json_end_object(w);
  }
  json_end_array(w);
}

/* Smallest and largest value of every shape column, by operation. */
static void write_ranges(struct json_writer *w, const struct fit_source *s) {
  json_key(w, "range");
  json_begin_object(w);
  for (int op = 0; op < ROW_OPS; op++) {
    int64_t least[ROW_SHAPE_MAX], most[ROW_SHAPE_MAX] = {0};
    const char *const *columns = row_shape_columns(row_op_class((enum row_op)op));
    bool any = false;
    for (size_t f = 0; f < s->own.n_files; f++)
      for (size_t i = 0; i < s->own.files[f].table.n_rows; i++) {
        const struct row *row = &s->own.files[f].v[i];
        if ((int)row->op != op || !fit_uses(s, &s->own, f, i))
          continue;
        for (int k = 0; columns[k]; k++) {
          least[k] = any ? int64_min(least[k], row->shape[k]) : row->shape[k];
          most[k] = int64_max(most[k], row->shape[k]);
        }
        any = true;
      }
    if (!any)
      continue;
    json_key(w, row_op_name((enum row_op)op));
    json_begin_object(w);
    for (int k = 0; columns[k]; k++) {
      if (row_shape_is_optional(row_op_class((enum row_op)op), k))
        continue; /* always 1 in rows that take part */
      json_key(w, columns[k]);
      json_begin_array(w);
      json_int(w, least[k]);
      json_int(w, most[k]);
      json_end_array(w);
    }
    json_end_object(w);
  }
  json_end_object(w);
}

/* Distinct values of a text column, in order of appearance. */
static void write_distinct(struct json_writer *w, const struct fit_source *s, const char *key) {
  const char *seen[64];
  size_t n = 0;
  json_key(w, key);
  json_begin_array(w);
  for (size_t f = 0; f < s->own.n_files; f++) {
    const struct table *t = &s->own.files[f].table;
    const int column = table_column(t, key);
    for (size_t i = 0; column >= 0 && i < t->n_rows; i++) {
      const char *value = table_field(t, i, column);
      size_t k = 0;
      while (k < n && strcmp(seen[k], value) != 0)
        k++;
      if (!*value || k < n || n == 64 || !fit_uses(s, &s->own, f, i))
        continue;
      seen[n++] = value;
      json_str(w, value);
    }
  }
  json_end_array(w);
}

static char *about(const struct fit_source *s, const struct json_doc *constants, const struct check *check,
                   struct err *err) {
  char *text = NULL;
  size_t size;
  FILE *out = text_stream_begin(&text, &size);
  struct json_writer w = {.file = out, .indent = true, .depth = 0};
  json_begin_object(&w);
  json_key_str(&w, "device", s->device);
  json_key_str(&w, "made_by", "dcpsim " DCPSIM_VERSION " calibrate fit, GSL " GSL_VERSION);
  json_key(&w, "measured_with");
  const json_t *libraries = json_object_get(constants->root, "libraries");
  json_str(&w, json_is_string(libraries) ? json_string_value(libraries) : "not recorded");
  write_distinct(&w, s, "library");
  json_key(&w, "rows");
  json_begin_array(&w);
  int rc = write_files(&w, s, &s->own, false, err);
  if (rc == 0)
    rc = write_files(&w, s, &s->sibling, true, err);
  json_end_array(&w);
  write_errors(&w, check);
  write_ranges(&w, s);
  json_end_object(&w);
  text_stream_end(out);
  if (rc == 0)
    return text;
  free(text);
  return NULL;
}

/* The error of the file on its own rows: fitted, so no more than a floor of what unseen rows show. */
static int check_fit(struct check *check, const char *text, const struct fit_source *s,
                     const struct warning_sink *warnings, struct err *err) {
  struct params *params = NULL;
  struct cluster cluster;
  char name[80];
  (void)warnings;
  snprintf(name, sizeof name, "%.*s_8x1", (int)strcspn(s->device, "_"), s->device);
  if (cluster_load(&cluster, name, NULL) && cluster_load(&cluster, "h200_8x1", err))
    return -1;
  if (params_parse(&params, s->device, text, err))
    return -1;
  const struct row_predictor predictor = {params, &cluster};
  const struct check_options options = {.by = NULL, .warnings = NULL};
  int rc = check_run(check, &predictor, s->own.files, s->own.n_files, &options, err);
  params_free(params);
  return rc;
}

static int sections_with_rows(const struct fit_source *s) {
  static const int of_class[ROW_CLASSES] = {
      [ROW_GEMM] = SECTION_GEMM, [ROW_ATTENTION] = SECTION_ATTENTION, [ROW_COLLECTIVE] = SECTION_NETWORK};
  int which = 0;
  for (size_t f = 0; f < s->own.n_files; f++)
    for (size_t i = 0; i < s->own.files[f].table.n_rows; i++)
      which |= of_class[row_op_class(s->own.files[f].v[i].op)];
  return which;
}

int fit_write(FILE *out, const struct fit_source *source, const struct json_doc *constants,
              const struct warning_sink *warnings, struct err *err) {
  struct fit_sections sections = {NULL, NULL, NULL};
  struct check check = {0};
  char *text = NULL, *words = NULL;
  int rc = -1;
  if (fit_update(&sections, source->defaults ? sections_with_rows(source) : SECTION_ALL, source, constants, err))
    goto out;
  text = fit_text(&sections, source, constants, "{}");
  if (check_fit(&check, text, source, warnings, err))
    goto out;
  words = about(source, constants, &check, err);
  if (!words)
    goto out;
  free(text);
  text = fit_text(&sections, source, constants, words);
  fputs(text, out);
  rc = 0;
out:
  check_release(&check);
  free(text);
  free(words);
  fit_sections_release(&sections);
  return rc;
}
