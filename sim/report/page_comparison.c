/* All results side by side: speedups, and which inputs are not the same everywhere. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/number_text.h"
#include "sim/base/units.h"
#include "sim/report/html.h"
#include "sim/report/page.h"
#include "sim/report/page_parts.h"
#include "sim/report/plot_kinds.h"

/* The results among the inputs. */
struct results {
  const struct page_input *v[PAGE_MAX_INPUTS];
  const char *paths[PAGE_MAX_INPUTS];
  int number[PAGE_MAX_INPUTS]; /* of the section */
  int n;
};

static struct results find_results(const struct page *page) {
  struct results r = {.n = 0};
  for (int i = 0; i < page->n; i++)
    if (page->inputs[i].kind == INPUT_RESULT) {
      r.v[r.n] = &page->inputs[i];
      r.paths[r.n] = page->inputs[i].path;
      r.number[r.n++] = i + 1;
    }
  return r;
}

static const struct result_policy *find_policy(const struct result_view *v, const char *name) {
  for (int i = 0; i < v->n; i++)
    if (strcmp(v->policies[i].name, name) == 0)
      return &v->policies[i];
  return NULL;
}

/* The names of all policies, as they appear first. */
static int policy_names(const struct results *r, const char **names, int max) {
  int n = 0;
  for (int i = 0; i < r->n; i++)
    for (int p = 0; p < r->v[i]->view.n; p++) {
      int k = 0;
      while (k < n && strcmp(names[k], r->v[i]->view.policies[p].name) != 0)
        k++;
      if (k == n && n < max)
        names[n++] = r->v[i]->view.policies[p].name;
    }
  return n;
}

static void write_result_name(FILE *out, const struct results *r, int i) {
  fprintf(out, "<th scope=\"row\"><a href=\"#r%d\">", r->number[i]);
  html_printf(out, "%d. %s", r->number[i], r->v[i]->view.subtitle);
  fputs("</a></th>", out);
}

static void write_speedups(FILE *out, const struct results *r, bool tokens) {
  const char *names[RESULT_MAX_POLICIES];
  int n = policy_names(r, names, RESULT_MAX_POLICIES);
  char text[64];
  html_table_begin(out, tokens ? "Tokens per second" : "Speedup over each result's baseline");
  html_th(out, "result", NULL);
  for (int k = 0; k < n; k++)
    html_th(out, names[k], NULL);
  html_table_rows(out);
  for (int i = 0; i < r->n; i++) {
    html_row_begin(out);
    write_result_name(out, r, i);
    for (int k = 0; k < n; k++) {
      const struct result_policy *p = find_policy(&r->v[i]->view, names[k]);
      if (!p) {
        html_number(out, -1, "\xe2\x80\x93");
        continue;
      }
      snprintf(text, sizeof text, "%.2f\xc3\x97", p->speedup);
      html_number(out, tokens ? p->tokens_per_s : p->speedup, tokens ? si_text(p->tokens_per_s).text : text);
    }
    html_row_end(out);
  }
  html_table_end(out);
}

static const json_t *option_of(const struct results *r, int i, const char *key) {
  return json_object_get(json_object_get(r->v[i]->doc.root, "options"), key);
}

static bool differs(const struct results *r, const char *key) {
  for (int i = 1; i < r->n; i++) {
    const json_t *a = option_of(r, 0, key), *b = option_of(r, i, key);
    if ((a || b) && !(a && b && json_equal((json_t *)a, (json_t *)b)))
      return true;
  }
  return false;
}

/* Options that are not alike in all results; where results went is no difference. */
static void write_differences(FILE *out, const struct results *r) {
  const char *key;
  json_t *value;
  char text[512];
  bool any = false;
  json_object_foreach(json_object_get(r->v[0]->doc.root, "options"), key, value) {
    if (page_option_is_output(key) || !differs(r, key))
      continue;
    if (!any) {
      html_table_begin(out, "Inputs that differ");
      html_th(out, "option", NULL);
      for (int i = 0; i < r->n; i++) {
        snprintf(text, sizeof text, "result %d", r->number[i]);
        html_th_text(out, text, r->v[i]->view.subtitle);
      }
      html_table_rows(out);
    }
    any = true;
    html_row_begin(out);
    html_row_name(out, key);
    for (int i = 0; i < r->n; i++) {
      page_option_text(option_of(r, i, key), text, sizeof text);
      html_cell(out, *text ? text : "\xe2\x80\x93");
    }
    html_row_end(out);
  }
  if (any)
    html_table_end(out);
  else
    fputs("<p>All options are alike.</p>\n", out);
}

int page_comparison(struct page *page, struct err *err) {
  struct results r = find_results(page);
  bool sizes = false;
  if (r.n < 2)
    return 0;
  fputs("<section id=\"comparison\">\n<h2>Comparison</h2>\n", page->out);
  write_speedups(page->out, &r, false);
  write_speedups(page->out, &r, true);
  write_differences(page->out, &r);
  for (int i = 1; i < r.n; i++)
    sizes = sizes || r.v[i]->view.gpus != r.v[0]->view.gpus;
  struct plot_input plot = {.path = r.paths[0], .paths = r.paths, .n_paths = r.n};
  if (sizes && page_figure(page, &plot_imbalance_gpus, &plot, "Imbalance against the number of GPUs.", err) < 0)
    return -1;
  fputs("</section>\n", page->out);
  return 0;
}
