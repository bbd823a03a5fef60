/* What a parameter file records about its own errors: of the fit, of training steps, of what was never measured. Read
 * from the file itself, and only where it still is the file that the result names by its hash. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/number_text.h"
#include "sim/base/sha256.h"
#include "sim/base/share.h"
#include "sim/report/html.h"
#include "sim/report/page_parts.h"

struct params_ref {
  const char *file, *sha256;
};

static int get_params(const struct page_input *in, struct params_ref *ref, struct err *err) {
  json_t *params;
  if (json_get_object(&in->doc, in->doc.root, "params", true, &params, err) < 0 ||
      json_get_string(&in->doc, params, "file", true, &ref->file, err) < 0 ||
      json_get_string(&in->doc, params, "sha256", true, &ref->sha256, err) < 0)
    return -1;
  return 0;
}

/* A shipped name, or a path. */
static void find_file(const char *file, char *path, size_t size) {
  char relative[300];
  snprintf(relative, sizeof relative, "calib/params/%.200s.json", file);
  if (strchr(file, '/') || share_path(path, size, relative) < 0)
    snprintf(path, size, "%s", file);
}

/* Some "range" of the fit: "seqlen 1 to 65,536; heads 1 to 96". Sizes in bytes are long numbers: with a prefix. */
static void write_range(FILE *out, const json_t *range) {
  const char *key;
  json_t *value;
  bool any = false;
  fputs("<td class=\"text\">", out);
  json_object_foreach((json_t *)range, key, value) {
    double low = json_number_value(json_array_get(value, 0)), high = json_number_value(json_array_get(value, 1));
    html_printf(out, "%s%s %s to %s", any ? "; " : "", key, si_text(low).text, si_text(high).text);
    any = true;
  }
  fputs(any ? "</td>" : "\xe2\x80\x93</td>", out);
}

static void write_percent(FILE *out, const json_t *value) {
  char text[32];
  snprintf(text, sizeof text, "%.1f %%", 100 * json_number_value(value));
  if (json_is_number(value))
    html_number(out, json_number_value(value), text);
  else
    html_number(out, -1, "\xe2\x80\x93");
}

static void write_fit(FILE *out, const json_t *fit) {
  const json_t *errors = json_object_get(fit, "abs_rel_error"), *ranges = json_object_get(fit, "range");
  const char *with = json_string_value(json_object_get(fit, "measured_with"));
  json_t *row;
  size_t i;
  html_table_begin(out, "Error on the measured rows that the file was fitted to");
  html_th(out, "operation", NULL);
  html_th(out, "rows", "measured kernel times");
  html_th(out, "median error", "|predicted - measured| / measured");
  html_th(out, "p90 error", NULL);
  html_th_text(out, "measured range", "outside it times are extrapolated");
  html_table_rows(out);
  json_array_foreach((json_t *)errors, i, row) {
    const char *operation = json_string_value(json_object_get(row, "operation"));
    int64_t rows = json_integer_value(json_object_get(row, "rows"));
    html_row_begin(out);
    html_row_name(out, operation ? operation : "?");
    html_number(out, (double)rows, grouped_text(rows).text);
    write_percent(out, json_object_get(row, "median"));
    write_percent(out, json_object_get(row, "p90"));
    write_range(out, json_object_get(ranges, operation ? operation : ""));
    html_row_end(out);
  }
  html_table_end(out);
  fputs("<p class=\"small\">Shapes between the rows err more: <code>dcpsim calibrate check --leave-out COLUMN</code> "
        "tells "
        "by how much.</p>\n",
        out);
  if (with) {
    fputs("<p class=\"small\">Measured with ", out);
    html_text(out, with);
    fputs(".</p>\n", out);
  }
}

/* The step-level scalars, each with the error on published training runs that its source records. */
static void write_in_step(FILE *out, const json_t *params) {
  const char *framework;
  json_t *scalars;
  fputs("<h4>Error on published training steps, by framework class</h4>\n<ul>\n", out);
  json_object_foreach((json_t *)json_object_get(params, "in_step"), framework, scalars) {
    const char *source = json_string_value(json_object_get(scalars, "source"));
    fputs("<li><b>", out);
    html_text(out, framework);
    fputs("</b>: ", out);
    html_text(out, source ? source : "no source recorded");
    fputs("</li>\n", out);
  }
  fputs("</ul>\n", out);
}

static bool is_guess(const char *source) {
  return strncmp(source, "guess", 5) == 0 || strstr(source, ": guess") != NULL;
}

/* Every object of the file whose source says that it is a guess. */
static int write_guesses(FILE *out, const json_t *object, const char *place, int n) {
  const char *key;
  json_t *value;
  const char *source = json_string_value(json_object_get(object, "source"));
  if (source && is_guess(source)) {
    fputs(n++ ? "" : "<h4>Guessed, not measured</h4>\n<ul>\n", out);
    fputs("<li><b>", out);
    html_text(out, place);
    fputs("</b>: ", out);
    html_text(out, source);
    fputs("</li>\n", out);
  }
  json_object_foreach((json_t *)object, key, value) {
    char inner[200];
    snprintf(inner, sizeof inner, "%.120s%s%.60s", place, *place ? " " : "", key);
    if (json_is_object(value))
      n = write_guesses(out, value, inner, n);
  }
  return n;
}

static void write_file_trust(FILE *out, const json_t *params) {
  const char *source = json_string_value(json_object_get(params, "source"));
  if (source) {
    fputs("<p>", out);
    html_text(out, source);
    fputs(".</p>\n", out);
  }
  if (json_array_size(json_object_get(json_object_get(params, "fit"), "abs_rel_error")) > 0)
    write_fit(out, json_object_get(params, "fit"));
  else
    fputs("<p class=\"warning\">The file records no error of a fit.</p>\n", out);
  if (json_object_size(json_object_get(params, "in_step")) > 0)
    write_in_step(out, params);
  if (write_guesses(out, params, "", 0) > 0)
    fputs("</ul>\n", out);
}

static void write_params(FILE *out, const struct params_ref *ref) {
  struct json_doc doc;
  struct err err = {.set = false};
  char path[4096], sha256[65] = "";
  find_file(ref->file, path, sizeof path);
  int rc = json_doc_read(&doc, "parameters", path, "dcpsim.params/1", &err);
  fputs("<h3>", out);
  html_printf(out, "Parameters %s", ref->file);
  fputs("</h3>\n", out);
  if (rc == 0)
    sha256_hex(doc.text, strlen(doc.text), sha256);
  if (rc == 0 && strcmp(sha256, ref->sha256) == 0) {
    write_file_trust(out, doc.root);
  } else {
    fputs("<p class=\"warning\">", out);
    if (rc < 0)
      html_printf(out, "What it records about its errors cannot be shown: %s.", err.msg);
    else
      html_printf(
          out,
          "The file of that name has changed since (sha256 %.12s\xe2\x80\xa6, the results used %.12s\xe2\x80\xa6): "
          "what it records about its errors is not about these results.",
          sha256, ref->sha256);
    fputs("</p>\n", out);
  }
  if (rc == 0)
    json_doc_release(&doc);
}

int page_trust(struct page *page, struct err *err) {
  struct params_ref refs[64];
  int n = 0;
  fputs("<section id=\"trust\">\n<h2>How far to trust these numbers</h2>\n"
        "<p>Every time is predicted from a parameter file fitted to measured kernels and collectives. Speedups are "
        "ratios "
        "of such predictions: errors that all policies share cancel, errors that only one policy meets do not.</p>\n",
        page->out);
  for (int i = 0; i < page->n; i++) {
    if (page->inputs[i].kind != INPUT_RESULT)
      continue;
    int k = 0;
    if (get_params(&page->inputs[i], &refs[n], err) < 0)
      return -1;
    while (k < n && strcmp(refs[k].sha256, refs[n].sha256) != 0)
      k++;
    if (k == n)
      write_params(page->out, &refs[n++]);
  }
  if (n == 0)
    fputs("<p>The table of a sweep does not name its parameter file; <code>dcpsim simulate --result</code> of a point "
          "does.</p>\n",
          page->out);
  fputs("</section>\n", page->out);
  return 0;
}
