/* The options of a result: as a table, and as the command that makes it again. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/text_stream.h"
#include "sim/base/units.h"
#include "sim/experiment/options.h"
#include "sim/report/html.h"
#include "sim/report/page_parts.h"

bool page_option_is_output(const char *key) {
  static const char *const outputs[] = {"json", "csv", "result", "schedule", "timeline", "explain"};
  for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++)
    if (strcmp(key, outputs[i]) == 0)
      return true;
  return false;
}

/* The options object of an experiment that asks for nothing. */
static json_t *default_options(void) {
  struct experiment_options plain;
  char *text = NULL;
  size_t size;
  FILE *file = text_stream_begin(&text, &size);
  struct json_writer w = {.file = file};
  options_init(&plain);
  options_write_json(&w, &plain);
  options_release(&plain);
  text_stream_end(file);
  json_t *options = json_loads(text, 0, NULL);
  ASSERT(options);
  free(text);
  return options;
}

void page_option_text(const json_t *value, char *buf, size_t size) {
  size_t at = 0, i;
  const json_t *element;
  buf[0] = '\0';
  if (json_is_string(value)) {
    snprintf(buf, size, "%s", json_string_value(value));
  } else if (json_is_integer(value)) {
    snprintf(buf, size, "%lld", (long long)json_integer_value(value));
  } else if (json_is_real(value)) {
    char number[32];
    double_text(json_real_value(value), number);
    snprintf(buf, size, "%s", number);
  } else if (json_is_boolean(value)) {
    snprintf(buf, size, "%s", json_is_true(value) ? "true" : "false");
  }
  json_array_foreach((json_t *)value, i, element) {
    char one[512];
    page_option_text(element, one, sizeof one);
    at += (size_t)snprintf(buf + at, at < size ? size - at : 0, "%s%s", i ? "," : "", one);
    if (at >= size)
      break;
  }
}

static int get_options(const struct page_input *in, json_t **options, struct err *err) {
  return json_get_object(&in->doc, in->doc.root, "options", true, options, err);
}

int page_options(FILE *out, const struct page_input *in, struct err *err) {
  json_t *options, *value, *plain = default_options();
  const char *key;
  char text[4096];
  if (get_options(in, &options, err) < 0) {
    json_decref(plain);
    return -1;
  }
  fputs("<details><summary>All options</summary>\n<p>Marked: not the default, by request or because model and cluster "
        "decide it.</p>\n<dl class=\"options\">\n",
        out);
  json_object_foreach(options, key, value) {
    if (page_option_is_output(key))
      continue;
    page_option_text(value, text, sizeof text);
    fprintf(out, "<div%s><dt>", json_equal(value, json_object_get(plain, key)) ? "" : " class=\"set\"");
    html_text(out, key);
    fputs("</dt><dd>", out);
    html_text(out, *text ? text : "\xe2\x80\x93");
    fputs("</dd></div>\n", out);
  }
  fputs("</dl></details>\n", out);
  json_decref(plain);
  return 0;
}

/* One word for sh; plain where nothing in it is special. */
static void write_word(FILE *out, const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";
  if (*text && text[strspn(text, plain)] == '\0') {
    html_text(out, text);
    return;
  }
  html_text(out, "'");
  for (const char *s = text; *s; s++) {
    char one[2] = {*s, '\0'};
    html_text(out, *s == '\'' ? "'\\''" : one);
  }
  html_text(out, "'");
}

static void write_option(FILE *out, const char *key, const json_t *value) {
  char text[8192], name[64];
  snprintf(name, sizeof name, "%s", key);
  for (char *s = name; *s; s++)
    *s = *s == '_' ? '-' : *s;
  html_printf(out, " \\\n  --%s", name);
  if (json_is_true(value))
    return;
  page_option_text(value, text, sizeof text);
  fputc(' ', out);
  write_word(out, text);
}

int page_command(FILE *out, const struct page_input *in, struct err *err) {
  json_t *options, *value, *plain = default_options();
  const char *key;
  int rc = get_options(in, &options, err);
  if (rc == 0) {
    fputs("dcpsim simulate", out);
    json_object_foreach(options, key, value) {
      bool same = json_equal(value, json_object_get(plain, key));
      if (!page_option_is_output(key) && !same && !json_is_null(value) && !json_is_false(value))
        write_option(out, key, value);
    }
    fputs(" \\\n  --result again.json\ndcpsim report again.json -o again.html", out);
  }
  json_decref(plain);
  return rc;
}
