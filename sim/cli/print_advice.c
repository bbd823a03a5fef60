/* The words come from the result's JSON object, as they do in a page: both say the same. */
#include "sim/cli/print_advice.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/text_stream.h"
#include "sim/base/units.h"
#include "sim/experiment/result.h"
#include "sim/report/advice_text.h"

#define TOPIC_COLUMN 13
#define WIDTH 118

/* Where the lines go: the commands follow the sentences. */
struct printer {
  FILE *out;
  bool commands;
};

static void print_line(void *context, const char *topic, const char *text) {
  struct printer *p = context;
  size_t at = TOPIC_COLUMN;
  fprintf(p->out, "  %-*s", TOPIC_COLUMN - 2, topic);
  while (*text) {
    size_t n = strcspn(text, " ");
    if (at + n + 1 > WIDTH) {
      fprintf(p->out, "\n%*s", TOPIC_COLUMN, "");
      at = TOPIC_COLUMN;
    }
    fprintf(p->out, "%s%.*s", at > TOPIC_COLUMN ? " " : "", (int)n, text);
    at += n + (at > TOPIC_COLUMN);
    text += n;
    text += *text == ' ';
  }
  fputc('\n', p->out);
}

/* On one line, to be copied. */
static void print_command(void *context, const char *what, const char *command) {
  struct printer *p = context;
  if (!p->commands)
    fprintf(p->out, "\n  What to use, and the extra runs behind this\n");
  p->commands = true;
  fprintf(p->out, "  %s: %s\n", what, command);
}

int print_advice(FILE *out, const struct experiment *x, const struct policy_result *results,
                 const struct advice *advice, struct err *err) {
  struct printer p = {.out = out};
  struct advice_sink sink = {&p, print_line, print_command};
  struct json_doc doc;
  char *text = NULL;
  size_t size;
  FILE *file = text_stream_begin(&text, &size);
  struct json_writer w = {.file = file};
  result_write_json(&w, x, results, NULL, advice);
  text_stream_end(file);
  int rc = json_doc_parse(&doc, "result", "of this run", text, "dcpsim.result/1", err);
  if (rc == 0) {
    fprintf(out, "\nAdvice\n");
    rc = advice_text(&doc, &sink, err);
    json_doc_release(&doc);
  }
  free(text);
  return rc;
}
