/* The advice of a result: sentences by topic, and the commands behind them. */
#include "sim/report/advice_text.h"
#include "sim/report/html.h"
#include "sim/report/page_parts.h"

struct section {
  FILE *out;
  bool commands;
};

static void write_line(void *context, const char *topic, const char *text) {
  struct section *s = context;
  fputs("<dt>", s->out);
  html_text(s->out, topic);
  fputs("</dt><dd>", s->out);
  html_text(s->out, text);
  fputs("</dd>\n", s->out);
}

static void write_command(void *context, const char *what, const char *command) {
  struct section *s = context;
  if (!s->commands)
    fputs("</dl>\n<details><summary>What to use, and the extra runs behind this</summary>\n", s->out);
  s->commands = true;
  fputs("<p>", s->out);
  html_text(s->out, what);
  fputs("</p><pre class=\"command\"><code>", s->out);
  html_text(s->out, command);
  fputs("</code></pre>\n", s->out);
}

int page_advice(FILE *out, const struct page_input *in, struct err *err) {
  struct section s = {.out = out};
  struct advice_sink sink = {&s, write_line, write_command};
  if (!json_object_get(in->doc.root, "advice"))
    return 0;
  fputs("<h3>Advice</h3>\n<dl class=\"advice\">\n", out);
  if (advice_text(&in->doc, &sink, err) < 0)
    return -1;
  fputs(s.commands ? "</details>\n" : "</dl>\n", out);
  return 0;
}
