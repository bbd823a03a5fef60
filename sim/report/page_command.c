/* The options of a result: as a table, and as the command that makes it again. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/text_stream.h"
#include "sim/base/units.h"
#include "sim/experiment/options_command.h"
#include "sim/report/html.h"
#include "sim/report/page_parts.h"

static int get_options(const struct page_input *in, json_t **options, struct err *err) {
  return json_get_object(&in->doc, in->doc.root, "options", true, options, err);
}

int page_options(FILE *out, const struct page_input *in, struct err *err) {
  json_t *options, *value, *plain = options_default_json();
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
    if (options_is_output(key))
      continue;
    options_value_text(value, text, sizeof text);
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

int page_command(FILE *out, const struct page_input *in, struct err *err) {
  json_t *options;
  char *command = NULL;
  size_t size;
  if (get_options(in, &options, err) < 0)
    return -1;
  FILE *file = text_stream_begin(&command, &size);
  options_command_write(file, options, " \\\n  ");
  text_stream_end(file);
  html_text(out, command);
  fputs(" \\\n  --result again.json\ndcpsim report again.json -o again.html", out);
  free(command);
  return 0;
}
