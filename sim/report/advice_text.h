/* advice_text.h: the "advice" object of a result in words, for the terminal and for pages. */
#ifndef SIM_REPORT_ADVICE_TEXT_H
#define SIM_REPORT_ADVICE_TEXT_H
#include "sim/base/json.h"

struct advice_sink {
  void *context;
  /* A sentence or two under a topic; "" continues the topic before. */
  void (*line)(void *context, const char *topic, const char *text);
  /* A command line, and what it makes. */
  void (*command)(void *context, const char *what, const char *command);
};

/* doc: the result. Nothing is written where it has no advice. */
int advice_text(const struct json_doc *doc, const struct advice_sink *sink, struct err *err);

#endif
