/* page_parts.h: the inside of a page, for page*.c only. Every function appends to `out`. */
#ifndef SIM_REPORT_PAGE_PARTS_H
#define SIM_REPORT_PAGE_PARTS_H
#include <stdio.h>

#include "sim/base/json.h"
#include "sim/report/input_kind.h"
#include "sim/report/plot.h"
#include "sim/report/result_view.h"
#include "sim/report/sweep_view.h"

struct page_input {
  const char *path; /* not owned */
  enum input_kind kind;
  struct json_doc doc;     /* INPUT_RESULT */
  struct result_view view; /* INPUT_RESULT: of the same file */
  struct sweep_view sweep; /* INPUT_SWEEP */
};

struct page {
  FILE *out;
  struct page_input *inputs;
  int n;
  int n_figures; /* so far: figures are numbered, and so are the names inside them */
};

/* page_style.c, made of page.css and page.js when dcpsim is built */
extern const char page_css[], page_js[];

/* A plot as inline SVG in the colours of the page; `label`: for readers who do not see it, escaped. */
int page_figure(struct page *page, const struct plot *plot, const struct plot_input *in, const char *label,
                struct err *err);

/* The headline of a result: what is fastest, by how much, with what reservations. */
void page_headline(FILE *out, const struct page_input *in);
/* The sentences under it: where the gain comes from, and what stands against a simple comparison. */
int page_findings(FILE *out, const struct page_input *in, struct err *err);
/* Everything about one result, or one sweep, but the headline. */
int page_result(struct page *page, const struct page_input *in, struct err *err);
int page_sweep(struct page *page, const struct page_input *in, struct err *err);
void page_sweep_headline(FILE *out, const struct page_input *in);
/* All results side by side, and which of their inputs differ. */
int page_comparison(struct page *page, struct err *err);
/* How far to trust the results: what is recorded about the error of each parameter file that they used. */
int page_trust(struct page *page, struct err *err);

/* The options of a result that are not the default, as a command line; quoted for sh. */
int page_command(FILE *out, const struct page_input *in, struct err *err);
/* Every option of a result, those that are not the default marked. */
int page_options(FILE *out, const struct page_input *in, struct err *err);
/* Where results went: no input. */
bool page_option_is_output(const char *key);
/* An option's value as on the command line: "bucket,dcp", "auto", "" for null. */
void page_option_text(const json_t *value, char *buf, size_t size);

#endif
