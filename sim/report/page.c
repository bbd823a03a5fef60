#include "sim/report/page.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/output.h"
#include "sim/base/text_stream.h"
#include "sim/base/units.h"
#include "sim/report/html.h"
#include "sim/report/page_parts.h"

/* ---- Figures ---- */

/* Colours of a picture on white paper, and what they are on a page that is light or dark; only inside tags. */
static const struct {
  const char *from, *to;
} repaints[] = {
    {"'rgb( 34,  34,  34)'", "'var(--ink)'"},   {"\"rgb(34,34,34)\"", "\"var(--ink)\""},
    {"'rgb(102, 102, 102)'", "'var(--faint)'"}, {"\"rgb(102,102,102)\"", "\"var(--faint)\""},
    {"'rgb(228, 228, 228)'", "'var(--line)'"},  {"'rgb(255, 255, 255)'", "'var(--card)'"},
    {"fill=\"black\"", "fill=\"var(--ink)\""},  {"color=\"black\"", "color=\"var(--ink)\""},
    {"\"rgb(0,0,0)\"", "\"var(--ink)\""},       {"fill=\"#ffffff\"", "fill=\"none\""},
    {"font-family=\"sans-serif\"", ""},
};

/* Names inside a picture are made its own: there are several in a page. */
static const char *const names[] = {"id='", "id=\"", "href='#", "url(#"};

/* Writes the tag at s, repainted and renamed; returns its end. */
static const char *write_tag(FILE *out, const char *s, int figure) {
  while (*s && *s != '>') {
    size_t skip = 0;
    for (size_t i = 0; !skip && i < sizeof repaints / sizeof *repaints; i++)
      if (strncmp(s, repaints[i].from, strlen(repaints[i].from)) == 0) {
        fputs(repaints[i].to, out);
        skip = strlen(repaints[i].from);
      }
    for (size_t i = 0; !skip && i < sizeof names / sizeof *names; i++)
      if (strncmp(s, names[i], strlen(names[i])) == 0) {
        fprintf(out, "%sf%d-", names[i], figure);
        skip = strlen(names[i]);
      }
    if (!skip)
      fputc(*s, out);
    s += skip ? skip : 1;
  }
  return s;
}

/* gnuplot's file without its head. */
static int write_svg(FILE *out, const char *svg, const char *label, int figure, struct err *err) {
  const char *s = strstr(svg, "</desc>");
  if (!s || !strstr(s, "</svg>"))
    return err_set(err, "gnuplot made a picture that is not the SVG expected of it");
  fputs("<svg viewBox=\"0 0 900 500\" role=\"img\" aria-label=\"", out);
  html_text(out, label);
  fputs("\">", out);
  for (s += strlen("</desc>"); *s;) {
    if (*s == '<')
      s = write_tag(out, s, figure);
    else
      fputc(*s++, out);
  }
  return 0;
}

int page_figure(struct page *page, const struct plot *plot, const struct plot_input *in, const char *label,
                struct err *err) {
  char *svg = NULL;
  size_t size;
  FILE *file = text_stream_begin(&svg, &size);
  int rc = plot_write(plot, in, "svg", file, err);
  text_stream_end(file);
  if (rc == 0) {
    int figure = ++page->n_figures;
    fputs("<figure class=\"scroll\" tabindex=\"0\">", page->out);
    rc = write_svg(page->out, svg, label, figure, err);
    fputs("</figure>\n", page->out);
  }
  free(svg);
  return rc;
}

/* ---- The page ---- */

static int read_input(struct page_input *in, const char *path, struct err *err) {
  in->path = path;
  if (strcmp(path, "-") == 0)
    return err_usage(err, "report: RESULT cannot be -: it is read more than once");
  if (input_kind_read(&in->kind, path, err) < 0)
    return -1;
  if (in->kind == INPUT_SWEEP)
    return sweep_view_read(&in->sweep, path, err);
  if (result_view_read(&in->view, path, err) < 0)
    return -1;
  return json_doc_read(&in->doc, "result", path, "dcpsim.result/1", err);
}

static void release_inputs(struct page *page) {
  for (int i = 0; i < page->n; i++) {
    json_doc_release(&page->inputs[i].doc);
    sweep_view_release(&page->inputs[i].sweep);
  }
  free(page->inputs);
}

static void write_title(FILE *out, const struct page_input *in) {
  if (in->kind == INPUT_RESULT)
    html_text(out, in->view.subtitle);
  else
    html_printf(out, "Sweep %s", in->path);
}

static void write_headline(FILE *out, const struct page_input *in) {
  if (in->kind == INPUT_RESULT)
    page_headline(out, in);
  else
    page_sweep_headline(out, in);
}

/* The policy keeps what the file promises: it loads nothing. */
static void write_head(const struct page *page) {
  FILE *out = page->out;
  fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline'\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"dcpsim " DCPSIM_VERSION
        "\">\n<title>",
        out);
  write_title(out, &page->inputs[0]);
  if (page->n > 1)
    html_printf(out, " and %d more", page->n - 1);
  fprintf(out, "</title>\n<style>\n%s</style>\n</head>\n<body>\n", page_css);
}

static void write_contents(const struct page *page) {
  FILE *out = page->out;
  fputs("<header><p class=\"kind\">dcpsim report: simulated training throughput</p>\n<h1>", out);
  if (page->n == 1)
    write_headline(out, &page->inputs[0]);
  else
    fprintf(out, "%d studies side by side", page->n);
  fputs("</h1>\n", out);
  if (page->n > 1) {
    fputs("<ol class=\"contents\">\n", out);
    for (int i = 0; i < page->n; i++) {
      fprintf(out, "<li><a href=\"#r%d\">", i + 1);
      write_title(out, &page->inputs[i]);
      fputs("</a>: ", out);
      write_headline(out, &page->inputs[i]);
      fputs("</li>\n", out);
    }
    fputs("</ol>\n", out);
  }
  fputs("</header>\n<main>\n", out);
}

static int write_input(struct page *page, int i, struct err *err) {
  const struct page_input *in = &page->inputs[i];
  fprintf(page->out, "<section class=\"study\" id=\"r%d\">\n", i + 1);
  if (page->n > 1) {
    fprintf(page->out, "<h2><span class=\"number\">%d</span> ", i + 1);
    write_title(page->out, in);
    fputs("</h2>\n<p class=\"lead\">", page->out);
    write_headline(page->out, in);
    fputs("</p>\n", page->out);
  }
  if ((in->kind == INPUT_RESULT ? page_result : page_sweep)(page, in, err) < 0)
    return -1;
  fputs("</section>\n", page->out);
  return 0;
}

static int write_page(struct page *page, struct err *err) {
  write_head(page);
  write_contents(page);
  if (page->n > 1 && page_comparison(page, err) < 0)
    return -1;
  for (int i = 0; i < page->n; i++)
    if (write_input(page, i, err) < 0)
      return -1;
  if (page_trust(page, err) < 0)
    return -1;
  fprintf(
      page->out,
      "</main>\n<footer>Made by dcpsim " DCPSIM_VERSION
      ". This file holds everything it shows and loads nothing.</footer>\n<script>\n%s</script>\n</body>\n</html>\n",
      page_js);
  return 0;
}

int page_write(const char *const *paths, int n, const char *out_path, struct err *err) {
  struct page page = {.inputs = xcalloc((size_t)n, sizeof *page.inputs), .n = n};
  struct output out = {0};
  int rc = 0;
  for (int i = 0; rc == 0 && i < n; i++)
    rc = read_input(&page.inputs[i], paths[i], err);
  if (rc == 0)
    rc = output_open(&out, out_path, err);
  page.out = out.file;
  if (rc == 0)
    rc = write_page(&page, err);
  if (rc == 0)
    rc = output_commit(&out, err);
  output_discard(&out);
  release_inputs(&page);
  return rc;
}
