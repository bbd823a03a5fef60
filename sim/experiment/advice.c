#include "sim/experiment/advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/options_command.h"
#include "sim/experiment/policy_setup.h"

#define CUT_FRAC 0.001 /* of the samples */

const char *const extra_names[EXTRAS] = {"no_recompute", "adaptive", "equal_steps", "cut", "nodes_x2", "nodes_x4"};

/* What every extra run starts from. */
struct base {
  struct advice *advice;
  const struct experiment *x;
  const struct experiment_options *asked;
  const struct policy_result *results;
};

/* ---- Options of extra runs ---- */

static void set(struct experiment_options *o, const char *name, const char *value) {
  ASSERT(options_set(o, name, value, NULL) == 0);
}

static void set_int(struct experiment_options *o, const char *name, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", (long long)value);
  set(o, name, text);
}

static bool in_list(const char *list, const char *name) {
  size_t n = strlen(name);
  for (const char *at = list; (at = strstr(at, name)); at += n)
    if ((at == list || at[-1] == ',') && (at[n] == ',' || at[n] == '\0'))
      return true;
  return false;
}

static void set_policies(struct experiment_options *o, const char *list) {
  set(o, "policy", list);
  if (o->baseline && !in_list(list, o->baseline)) {
    free(o->baseline);
    o->baseline = NULL;
  }
}

/* What was asked for; speedups of extra runs need neither shuffles nor draws unless they are quoted. */
static void base_options(struct experiment_options *o, const struct experiment_options *asked) {
  options_copy(o, asked);
  set_int(o, "seeds", 1);
  set_int(o, "draws", 0);
}

/* ---- Extra runs ---- */

static void run_extra(struct base *b, enum extra_kind kind, const struct experiment_options *o) {
  struct extra_run *e = &b->advice->extras[kind];
  struct experiment x;
  struct err err = {.set = false};
  char label[64];
  snprintf(label, sizeof label, "extra run %d of up to %d", kind + 1, EXTRAS);
  if (experiment_open_shared(&x, o, b->x->shared, &err) < 0) {
    snprintf(e->why_not, sizeof e->why_not, "%.299s", err.msg);
    return;
  }
  x.progress_label = label;
  if (experiment_run(&x, NULL, e->results, &err) < 0) {
    snprintf(e->why_not, sizeof e->why_not, "%.299s", err.msg);
  } else {
    e->command = options_command(o);
    e->n = x.n_policies;
    e->gpus = system_world(&x.system);
    e->samples_over = x.samples_overlong - b->x->samples_overlong;
    e->tokens_over = x.tokens_overlong - b->x->tokens_overlong;
  }
  experiment_close(&x);
}

static void skip(struct base *b, enum extra_kind kind, const char *why) {
  snprintf(b->advice->extras[kind].why_not, sizeof b->advice->extras[kind].why_not, "%s", why);
}

/* Whether the policy holds as much with this rule of recomputation as with the experiment's. */
static bool holds_as_much(const struct experiment *with_rule, const struct experiment *x, int policy) {
  int sps[MAX_SPS], n_sps;
  bool before, after;
  if (policy_setup_sps(x, x->policies[policy], sps, &n_sps, &before, NULL) < 0 ||
      policy_setup_sps(with_rule, x->policies[policy], sps, &n_sps, &after, NULL) < 0)
    return false;
  return after || !before;
}

static void add_name(char *list, size_t size, const char *name) {
  size_t n = strlen(list);
  snprintf(list + n, size - n, "%s%s", n ? "," : "", name);
}

/* Policies that recompute every layer: without, where that fits; else as little as they must. */
static void run_recompute(struct base *b) {
  const struct experiment *x = b->x;
  struct experiment_options o;
  struct experiment none;
  char fitting[600] = "", others[600] = "";
  struct err err = {.set = false};
  base_options(&o, b->asked);
  set(&o, "recompute", "none");
  bool opened = experiment_open_shared(&none, &o, x->shared, &err) == 0;
  for (int i = 0; i < x->n_policies; i++)
    if (experiment_fit(x, x->policies[i]).recompute == RECOMPUTE_FULL) {
      bool fits = opened && holds_as_much(&none, x, i);
      add_name(fits ? fitting : others, sizeof fitting, x->policies[i]->name);
    }
  if (opened)
    experiment_close(&none);
  bool any = *fitting || *others;
  if (*fitting) {
    set_policies(&o, fitting);
    run_extra(b, EXTRA_NO_RECOMPUTE, &o);
  } else {
    skip(b, EXTRA_NO_RECOMPUTE,
         any ? "the longest samples do not fit without recomputation" : "no policy recomputes every layer");
  }
  options_release(&o);
  base_options(&o, b->asked);
  if (*others) {
    set(&o, "recompute", "adaptive");
    set_policies(&o, others);
    run_extra(b, EXTRA_ADAPTIVE, &o);
  } else {
    skip(b, EXTRA_ADAPTIVE, any ? "all fit without recomputation" : "no policy recomputes every layer");
  }
  options_release(&o);
}

/* The rule of recomputation to use, with the policies that were run under it. */
static void use_recompute(struct experiment_options *o, const struct advice *a) {
  char list[600] = "";
  if (a->use_extra < 0)
    return;
  const struct extra_run *e = &a->extras[a->use_extra];
  for (int i = 0; i < e->n; i++)
    add_name(list, sizeof list, e->results[i].name);
  set(o, "recompute", a->use_extra == EXTRA_NO_RECOMPUTE ? "none" : "adaptive");
  set_policies(o, list);
}

static int ascending(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* The length that all but 0.1 % of the samples keep to; *longest: of all. */
static int64_t cut_length(const struct experiment *x, int64_t *longest) {
  int64_t n = x->samples.n, *tokens = xmalloc(size_mul((size_t)n, sizeof *tokens));
  for (int64_t i = 0; i < n; i++)
    tokens[i] = sample_tokens(x->samples.samples[i]);
  qsort(tokens, (size_t)n, sizeof *tokens, ascending);
  int64_t cut = tokens[n - 1 - (int64_t)((double)n * CUT_FRAC)];
  *longest = tokens[n - 1];
  free(tokens);
  return cut;
}

static void run_cut(struct base *b) {
  struct extra_run *e = &b->advice->extras[EXTRA_CUT];
  struct experiment_options o;
  int64_t longest, cut = cut_length(b->x, &longest);
  b->advice->trace_longest = longest;
  if (b->asked->max_length > 0 && strcmp(b->asked->overlong, "split") == 0) {
    skip(b, EXTRA_CUT, "--overlong split has cut the long samples already");
    return;
  }
  if (cut == longest) {
    skip(b, EXTRA_CUT,
         (double)b->x->samples.n * CUT_FRAC < 1 ? "0.1 % of the samples is less than one"
                                                : "the longest 0.1 % are no longer than the next");
    return;
  }
  base_options(&o, b->asked);
  use_recompute(&o, b->advice);
  set_int(&o, "max-length", cut);
  set(&o, "overlong", "drop");
  e->max_length = cut;
  run_extra(b, EXTRA_CUT, &o);
  options_release(&o);
}

bool advice_steps_alike(const struct policy_result *a, const struct policy_result *b) {
  const double x = a->tokens_per_step, y = b->tokens_per_step;
  return (x > y ? x / y : y / x) <= ADVICE_ALIKE;
}

static void run_equal_steps(struct base *b) {
  const struct policy_result *use = &b->results[b->advice->use], *against = &b->results[b->advice->against];
  struct extra_run *e = &b->advice->extras[EXTRA_EQUAL_STEPS];
  struct experiment_options o;
  char list[80];
  if (use == against || !(use->tokens_per_step > 0) || !(against->tokens_per_step > 0) ||
      advice_steps_alike(use, against)) {
    skip(b, EXTRA_EQUAL_STEPS, use == against ? "there is one policy" : "optimizer steps are alike");
    return;
  }
  snprintf(list, sizeof list, "%s,%s", use->name, against->name);
  options_copy(&o, b->asked);
  set_policies(&o, list);
  set(&o, "baseline", against->name);
  e->step_tokens = (int64_t)ceil(fmax(use->tokens_per_step, against->tokens_per_step));
  set_int(&o, "tokens-per-step", e->step_tokens);
  run_extra(b, EXTRA_EQUAL_STEPS, &o);
  options_release(&o);
}

/* ---- What to use ---- */

bool advice_lead_is_shown(const struct policy_result *r) {
  return !(r->lead_interval[0] <= 1 && r->lead_interval[1] >= 1);
}

int advice_fastest(const struct experiment *x, const struct policy_result *results) {
  int fastest = 0;
  for (int i = 1; i < x->n_policies; i++)
    if (results[i].tokens_per_s > results[fastest].tokens_per_s)
      fastest = i;
  return fastest;
}

/* The fastest; the baseline where the fastest is not shown to beat it. */
static void choose_policy(struct advice *a, const struct experiment *x, const struct policy_result *results) {
  int fastest = advice_fastest(x, results), next = -1;
  for (int i = 0; i < x->n_policies; i++)
    if (i != fastest && (next < 0 || results[i].tokens_per_s > results[next].tokens_per_s))
      next = i;
  a->against = fastest != x->baseline ? x->baseline : next >= 0 ? next : fastest;
  const struct policy_result *r = &results[a->against];
  a->shown = a->against != fastest && advice_lead_is_shown(r);
  if (r->lead > 0)
    a->noise_frac = (r->lead_interval[1] - r->lead_interval[0]) / 2 / r->lead;
  a->use = fastest;
  if (!a->shown && a->against == x->baseline) {
    a->use = x->baseline;
    a->against = fastest;
  }
}

static const struct policy_result *best_of(const struct extra_run *e) {
  const struct policy_result *best = NULL;
  for (int i = 0; i < e->n; i++)
    if (!best || e->results[i].tokens_per_s > best->tokens_per_s)
      best = &e->results[i];
  return best;
}

/* The policy that is chosen, if the best is not faster by more than the interval; else the best. */
static const struct policy_result *choice_of(const struct extra_run *e, const char *chosen, double noise_frac) {
  const struct policy_result *best = best_of(e);
  for (int i = 0; i < e->n; i++)
    if (strcmp(e->results[i].name, chosen) == 0 && e->results[i].tokens_per_s * (1 + noise_frac) >= best->tokens_per_s)
      return &e->results[i];
  return best;
}

/* Another rule of recomputation, where it beats the choice by more than the interval and leaves out no more. */
static void choose_recompute(struct base *b) {
  struct advice *a = b->advice;
  const struct policy_result *use = &b->results[a->use];
  double wanted = use->tokens_per_s * (1 + a->noise_frac);
  a->use_extra = -1;
  for (int kind = EXTRA_NO_RECOMPUTE; kind <= EXTRA_ADAPTIVE; kind++) {
    const struct policy_result *r = choice_of(&a->extras[kind], use->name, a->noise_frac);
    if (!r || r->tokens_per_s <= wanted ||
        r->tokens_infeasible + r->tokens_dropped > use->tokens_infeasible + use->tokens_dropped)
      continue;
    wanted = r->tokens_per_s;
    a->use_extra = kind;
    for (int i = 0; i < b->x->n_policies; i++)
      if (strcmp(b->results[i].name, r->name) == 0)
        a->use = i;
  }
}

const struct policy_result *advice_used(const struct advice *a, const struct policy_result *results) {
  const struct extra_run *e = a->use_extra >= 0 ? &a->extras[a->use_extra] : NULL;
  for (int i = 0; e && i < e->n; i++)
    if (strcmp(e->results[i].name, results[a->use].name) == 0)
      return &e->results[i];
  return &results[a->use];
}

static void use_options(struct experiment_options *o, const struct base *b) {
  const struct advice *a = b->advice;
  options_copy(o, b->asked);
  set_int(o, "seeds", 1); /* one policy has no speedup that draws would move */
  use_recompute(o, a);
  set_policies(o, b->results[a->use].name);
}

/* With the settings that the run settled. */
static void make_use_command(struct base *b) {
  struct experiment_options o;
  const struct policy_result *r = advice_used(b->advice, b->results);
  use_options(&o, b);
  if (r->sp > 0)
    set_int(&o, "sp", r->sp);
  if (r->batch > 0)
    set_int(&o, "batch", r->batch);
  if (r->pack_tokens > 0)
    set_int(&o, "pack-tokens", r->pack_tokens);
  b->advice->use_command = options_command(&o);
  options_release(&o);
}

static void run_nodes(struct base *b, enum extra_kind kind, int times) {
  struct experiment_options o;
  char name[64];
  if (!cluster_preset_resize(b->asked->cluster, b->x->cluster.nodes * times, name, sizeof name)) {
    skip(b, kind, "only clusters named GPU_GxN can be given more nodes");
    return;
  }
  use_options(&o, b);
  set(&o, "cluster", name);
  run_extra(b, kind, &o);
  options_release(&o);
}

void advice_make(struct advice *a, const struct experiment *x, const struct experiment_options *asked,
                 const struct policy_result *results) {
  struct base b = {a, x, asked, results};
  *a = (struct advice){.use_extra = -1};
  for (int i = 0; i < x->n_policies; i++)
    for (int k = 0; k < x->n_sps; k++)
      a->longest[i][k] = policy_setup_longest(x, x->policies[i], x->sps[k]);
  choose_policy(a, x, results);
  run_recompute(&b);
  run_equal_steps(&b);
  choose_recompute(&b);
  make_use_command(&b);
  run_cut(&b);
  run_nodes(&b, EXTRA_NODES_X2, 2);
  run_nodes(&b, EXTRA_NODES_X4, 4);
}

void advice_release(struct advice *a) {
  for (int i = 0; i < EXTRAS; i++)
    free(a->extras[i].command);
  free(a->use_command);
  *a = (struct advice){0};
}
