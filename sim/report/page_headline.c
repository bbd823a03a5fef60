/* What a result says, in words. */
#include <math.h>
#include <string.h>

#include "sim/base/number_text.h"
#include "sim/report/html.h"
#include "sim/report/page_parts.h"

#define LIKE 1.5        /* optimizer steps within this factor are alike */
#define NAMED_FRAC 0.01 /* changes of less than this share of the time are not named */
#define NAMED_CHANGES 3

static const struct result_policy *fastest(const struct result_view *v) {
  const struct result_policy *best = &v->policies[0];
  for (int i = 1; i < v->n; i++)
    if (v->policies[i].tokens_per_s > best->tokens_per_s)
      best = &v->policies[i];
  return best;
}

static const struct result_policy *fastest_but(const struct result_view *v, const struct result_policy * not ) {
  const struct result_policy *best = NULL;
  for (int i = 0; i < v->n; i++)
    if (&v->policies[i] != not &&(!best || v->policies[i].tokens_per_s > best->tokens_per_s))
      best = &v->policies[i];
  return best;
}

/* The policy that speedups compare with; the first whose speedup is 1 where the options do not say. */
static const struct result_policy *baseline_of(const struct page_input *in) {
  const struct result_view *v = &in->view;
  const char *name = json_string_value(json_object_get(json_object_get(in->doc.root, "options"), "baseline"));
  for (int i = 0; name && i < v->n; i++)
    if (strcmp(v->policies[i].name, name) == 0)
      return &v->policies[i];
  for (int i = 0; i < v->n; i++)
    if (v->policies[i].speedup == 1)
      return &v->policies[i];
  return NULL;
}

static bool shows_no_difference(const struct result_policy *p) { return p->speedup_low < 1 && p->speedup_high > 1; }

static void write_range(FILE *out, const struct result_policy *p) {
  if (p->speedup_low < p->speedup_high)
    html_printf(out, " (%.2f\xe2\x81\xa0\xe2\x80\x93\xe2\x81\xa0%.2f)", p->speedup_low, p->speedup_high);
}

void page_headline(FILE *out, const struct page_input *in) {
  const struct result_policy *best = fastest(&in->view), *base = baseline_of(in);
  if (in->view.n == 1 || !base || !(base->tokens_per_s > 0)) {
    html_printf(out, "%s trains %s tokens per second", best->name, si_text(best->tokens_per_s).text);
    if (base && !(base->tokens_per_s > 0))
      html_printf(out, "; %s ran no step", base->name);
  } else if (best == base) {
    const struct result_policy *next = fastest_but(&in->view, base);
    html_printf(out, "No policy beats %s; the next, %s, reaches %.2f\xc3\x97", base->name, next->name, next->speedup);
    write_range(out, next);
    if (shows_no_difference(next))
      html_printf(out, ", which is no difference shown");
  } else if (shows_no_difference(best)) {
    html_printf(out, "No difference shown: %s reaches %.2f\xc3\x97", best->name, best->speedup);
    write_range(out, best);
    html_printf(out, " the throughput of %s", base->name);
  } else {
    html_printf(out, "%s trains %.2f\xc3\x97", best->name, best->speedup);
    write_range(out, best);
    html_printf(out, " as fast as %s", base->name);
  }
}

/* Changes of GPU time per token from base to best, as shares of base's time per token, by size of the change. */
static void write_changes(FILE *out, const struct result_policy *best, const struct result_policy *base) {
  double change[SHARES];
  bool named[SHARES] = {false};
  double ratio = base->tokens_per_s / best->tokens_per_s;
  for (int i = 0; i < SHARES; i++)
    change[i] = best->share[i] * ratio - base->share[i];
  html_printf(out, "Per token %s takes %.0f %% less GPU time than %s", best->name, 100 * (1 - ratio), base->name);
  for (int n = 0; n < NAMED_CHANGES; n++) {
    int at = -1;
    for (int i = 0; i < SHARES; i++)
      if (!named[i] && fabs(change[i]) >= NAMED_FRAC && (at < 0 || fabs(change[i]) > fabs(change[at])))
        at = i;
    if (at < 0)
      break;
    named[at] = true;
    html_printf(out, "%s %s %s%.1f points", n ? "," : ":", share_styles[at].label,
                change[at] < 0 ? "\xe2\x88\x92" : "+", 100 * fabs(change[at]));
  }
  html_printf(out, " (of %s\xe2\x80\x99s time). ", base->name);
}

static json_t *policy_object(const struct page_input *in, const struct result_policy *p) {
  return json_array_get(json_object_get(in->doc.root, "policies"), (size_t)(p - in->view.policies));
}

static int write_reservations(FILE *out, const struct page_input *in, const struct result_policy *best,
                              const struct result_policy *base, struct err *err) {
  double step_best, step_base;
  int64_t tokens_best, tokens_base;
  json_t *a = policy_object(in, best), *b = policy_object(in, base);
  if (json_get_double(&in->doc, a, "tokens_per_step", true, 0, 1e300, &step_best, err) < 0 ||
      json_get_double(&in->doc, b, "tokens_per_step", true, 0, 1e300, &step_base, err) < 0 ||
      json_get_int(&in->doc, a, "tokens", true, 0, INT64_MAX, &tokens_best, err) < 0 ||
      json_get_int(&in->doc, b, "tokens", true, 0, INT64_MAX, &tokens_base, err) < 0)
    return -1;
  if (step_best > LIKE * step_base || step_base > LIKE * step_best)
    html_printf(out,
                "But an optimizer step of %s holds %s tokens, one of %s %s: that is another training run, and "
                "--tokens-per-step would make them alike. ",
                best->name, si_text(step_best).text, base->name, si_text(step_base).text);
  if (tokens_best != tokens_base)
    html_printf(out, "The two ran different samples (%s and %s tokens in all). ", si_text(tokens_best).text,
                si_text(tokens_base).text);
  return 0;
}

int page_findings(FILE *out, const struct page_input *in, struct err *err) {
  const struct result_policy *best = fastest(&in->view), *base = baseline_of(in);
  fputs("<p class=\"findings\">", out);
  if (base && best == base)
    best = fastest_but(&in->view, base);
  html_printf(out, "%s. ", in->view.subtitle);
  if (base && best && base->tokens_per_s > 0) {
    html_printf(out, "%s processes %s real tokens per second, %s %s. ", best->name, si_text(best->tokens_per_s).text,
                base->name, si_text(base->tokens_per_s).text);
    if (best->tokens_per_s > base->tokens_per_s)
      write_changes(out, best, base);
    if (write_reservations(out, in, best, base, err) < 0)
      return -1;
  }
  fputs("</p>\n", out);
  return 0;
}
