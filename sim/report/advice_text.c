#include "sim/report/advice_text.h"

#include <stdarg.h>
#include <string.h>

#include "sim/base/number_text.h"

#define LINE_BYTES 2000

/* One advice at work. After the first error the getters return zeros. */
struct words {
  const struct json_doc *doc;
  const struct advice_sink *sink;
  struct err *err;
  int rc;
  json_t *advice, *use, *fastest;
  double noise_frac;
  char line[LINE_BYTES];
};

/* ---- Reading ---- */

static double number(struct words *t, const json_t *object, const char *key) {
  double v = 0;
  if (t->rc == 0)
    t->rc = json_get_double(t->doc, object, key, true, -1e300, 1e300, &v, t->err);
  return v;
}

static const char *string(struct words *t, const json_t *object, const char *key) {
  const char *v = "";
  if (t->rc == 0)
    t->rc = json_get_string(t->doc, object, key, true, &v, t->err);
  return v;
}

static bool flag(struct words *t, const json_t *object, const char *key) {
  bool v = false;
  if (t->rc == 0)
    t->rc = json_get_bool(t->doc, object, key, true, &v, t->err);
  return v;
}

static json_t *array(struct words *t, const json_t *object, const char *key) {
  json_t *v = NULL;
  if (t->rc == 0)
    t->rc = json_get_array(t->doc, object, key, true, &v, t->err);
  return v;
}

static json_t *object(struct words *t, const json_t *parent, const char *key) {
  json_t *v = NULL;
  if (t->rc == 0)
    t->rc = json_get_object(t->doc, parent, key, true, &v, t->err);
  return v;
}

/* The extra run of a kind; NULL: there is none. */
static json_t *extra(struct words *t, const char *kind) {
  json_t *runs = array(t, t->advice, "extra_runs"), *run;
  size_t i;
  json_array_foreach(runs, i, run) if (strcmp(string(t, run, "kind"), kind) == 0) return run;
  return NULL;
}

static bool was_run(const json_t *run) { return run && json_object_get(run, "command"); }

static json_t *named(struct words *t, json_t *list, const char *key, const char *name) {
  json_t *v;
  size_t i;
  json_array_foreach(list, i, v) if (strcmp(string(t, v, key), name) == 0) return v;
  return NULL;
}

static json_t *best(struct words *t, json_t *policies) {
  json_t *v, *most = NULL;
  size_t i;
  json_array_foreach(policies, i, v) if (!most || number(t, v, "tokens_per_s") > number(t, most, "tokens_per_s")) most =
      v;
  return most;
}

/* ---- Writing ---- */

static void add(struct words *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct words *t, const char *fmt, ...) {
  size_t n = strlen(t->line);
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(t->line + n, sizeof t->line - n, fmt, ap);
  va_end(ap);
}

static void end(struct words *t, const char *topic) {
  if (t->rc == 0 && *t->line)
    t->sink->line(t->sink->context, topic, t->line);
  t->line[0] = '\0';
}

/* "1.53x (1.47-1.60)" */
static void add_times(struct words *t, const json_t *from, const char *key, const char *interval_key) {
  const json_t *interval = json_object_get(from, interval_key);
  double low = json_number_value(json_array_get(interval, 0)), high = json_number_value(json_array_get(interval, 1));
  add(t, "%.2fx", number(t, from, key));
  if (low < high)
    add(t, " (%.2f-%.2f)", low, high);
}

/* A change of tokens/s that the interval could hide. */
static bool within_noise(const struct words *t, double ratio) {
  return ratio <= 1 + t->noise_frac && ratio >= 1 - t->noise_frac;
}

static const char *recompute_words(const char *rule) {
  return strcmp(rule, "none") == 0       ? "without recomputation"
         : strcmp(rule, "adaptive") == 0 ? "recomputing only what memory demands"
                                         : "recomputing every layer";
}

/* ---- Topics ---- */

static void write_use(struct words *t) {
  const char *name = string(t, t->use, "name"), *fastest = string(t, t->fastest, "name");
  const char *against = string(t, t->advice, "against");
  json_t *leads = array(t, t->fastest, "leads");
  double left_out = number(t, t->use, "left_out_frac"), batch = number(t, t->use, "batch"),
         pack = number(t, t->use, "pack_tokens");
  add(t, "%s, %s", name, recompute_words(string(t, t->use, "recompute")));
  if (json_is_integer(json_object_get(t->use, "sp")))
    add(t, ", SP %.0f", number(t, t->use, "sp"));
  if (batch > 0)
    add(t, ", batch %.0f", batch);
  if (pack > 0)
    add(t, ", packs of up to %s tokens", grouped_text((int64_t)pack).text);
  add(t, ": %s tokens/s", si_text(number(t, t->use, "tokens_per_s")).text);
  if (strcmp(name, string(t, t->advice, "baseline")) != 0 || number(t, t->use, "speedup") > 1)
    add(t, ", %.2fx %s as it was run", number(t, t->use, "speedup"), string(t, t->advice, "baseline"));
  add(t, "; optimizer steps of %s tokens.", si_text(number(t, t->use, "tokens_per_step")).text);
  if (left_out > 0)
    add(t, " It leaves out %.2f %% of the tokens: they fit nowhere or its rule drops them.", 100 * left_out);
  end(t, "Use");
  if (json_array_size(leads) == 0) {
    add(t, "There is no other policy to compare with.");
  } else if (!flag(t, t->advice, "shown")) {
    const char *other = strcmp(against, fastest) == 0 ? string(t, t->advice, "baseline") : against;
    const json_t *lead = named(t, leads, "over", other);
    add(t, "No difference shown: %s reaches ", fastest);
    add_times(t, lead, "lead", "interval");
    add(t, " the tokens/s of %s, a tie within the interval.", other);
  }
  end(t, "");
}

/* The fastest policy against every other one. */
static void write_leads(struct words *t) {
  json_t *lead, *leads = array(t, t->fastest, "leads");
  size_t i;
  json_array_foreach(leads, i, lead) {
    add(t, i == 0 ? "%s reaches " : ", ", string(t, t->fastest, "name"));
    add_times(t, lead, "lead", "interval");
    add(t, " of %s%s", string(t, lead, "over"), flag(t, lead, "shown") ? "" : " (no difference shown)");
  }
  if (json_array_size(leads) > 0)
    add(t, ", in tokens/s.");
  end(t, "Compared");
}

static void write_equal_steps(struct words *t, const json_t *run) {
  json_t *policies = array(t, run, "policies"), *p = json_array_get(policies, 0), *q = json_array_get(policies, 1);
  json_t *interval = array(t, p, "speedup_interval");
  const char *other = string(t, q, "name");
  add(t, " With steps of at most %s tokens for both, %s reaches ", si_text(number(t, run, "step_tokens")).text,
      string(t, p, "name"));
  add_times(t, p, "speedup", "speedup_interval");
  add(t, " of %s (steps of %s and %s): ", other, si_text(number(t, p, "tokens_per_step")).text,
      si_text(number(t, q, "tokens_per_step")).text);
  if (json_number_value(json_array_get(interval, 0)) > 1)
    add(t, "it is faster in like steps, too.");
  else if (json_number_value(json_array_get(interval, 1)) < 1)
    add(t, "in like steps %s is faster.", other);
  else
    add(t, "in like steps no difference is shown.");
}

static void write_steps(struct words *t) {
  json_t *lead, *leads = array(t, t->fastest, "leads"), *run = extra(t, "equal_steps");
  const char *fastest = string(t, t->fastest, "name");
  double own = number(t, t->fastest, "tokens_per_step");
  size_t i, n = 0;
  json_array_foreach(leads, i, lead) {
    double other = number(t, lead, "tokens_per_step");
    if (flag(t, lead, "steps_alike"))
      continue;
    if (n++ == 0)
      add(t, "An optimizer step of %s holds %s tokens; ", fastest, si_text(own).text);
    else
      add(t, ", ");
    bool smaller = other < own;
    add(t, "of %s %s (%.1fx %s)", string(t, lead, "over"), si_text(other).text, smaller ? own / other : other / own,
        smaller ? "smaller" : "larger");
  }
  if (n > 0)
    add(t, ": other training runs, for the optimizer sees other batches.");
  else if (json_array_size(leads) > 0)
    add(t, "Optimizer steps of all policies hold about as many tokens (%s), so tokens/s compare.", si_text(own).text);
  if (was_run(run))
    write_equal_steps(t, run);
  end(t, "Steps");
}

static void add_ratios(struct words *t, json_t *policies) {
  json_t *p;
  size_t i;
  json_array_foreach(policies, i, p) add(t, "%s%s %.2fx", i ? ", " : "", string(t, p, "name"), number(t, p, "ratio"));
}

/* What to say of the best of the policies that ran under another rule of recomputation. */
static void compare_recompute(struct words *t, const json_t *p, const char *rule) {
  const char *name = string(t, p, "name"), *fastest = string(t, t->fastest, "name");
  double own = number(t, p, "tokens_per_s"), left = own > 0 ? number(t, t->fastest, "tokens_per_s") / own : 0;
  if (strcmp(name, fastest) == 0) {
    add(t, "None of them overtakes %s.", fastest);
    return;
  }
  add(t, "The best of them, %s %s, ", name, rule);
  if (within_noise(t, left))
    add(t, "ties with %s: what %s gains over it is recomputation.", fastest, fastest);
  else if (left < 1)
    add(t, "is %.2fx as fast as %s.", 1 / left, fastest);
  else
    add(t, "reaches %.2fx of %s: the rest of its lead is not recomputation.", 1 / left, fastest);
}

/* What recomputation costs those policies that recompute everything, and what is left of the fastest one's lead. */
static void write_recompute(struct words *t) {
  static const char *const kinds[] = {"no_recompute", "adaptive"};
  static const char *const rules[] = {"without it", "with only what memory demands"};
  const char *rule = NULL, *baseline = string(t, t->advice, "baseline");
  const char *fastest = string(t, t->fastest, "name");
  json_t *most = NULL, *base = NULL, *fastest_then = NULL;
  for (int k = 0; k < 2; k++) {
    json_t *run = extra(t, kinds[k]);
    if (!was_run(run))
      continue;
    json_t *policies = array(t, run, "policies"), *p = best(t, policies), *q = named(t, policies, "name", baseline);
    add(t, "%s: ", k == 0 ? "Without it" : *t->line ? "; only what memory demands" : "Only what memory demands");
    add_ratios(t, policies);
    if (q) {
      base = q;
      fastest_then = named(t, policies, "name", fastest);
    }
    if (!most || number(t, p, "tokens_per_s") > number(t, most, "tokens_per_s")) {
      most = p;
      rule = rules[k];
    }
  }
  if (most) {
    double own = base ? number(t, base, "tokens_per_s") : 0;
    add(t, " the tokens/s. ");
    if (own > 0 && strcmp(fastest, baseline) != 0 && flag(t, t->advice, "shown"))
      add(t, "Over such a %s, %s %s reaches %.2fx. ", baseline, fastest, fastest_then ? "so run" : "as it is",
          number(t, fastest_then ? fastest_then : t->fastest, "tokens_per_s") / own);
    compare_recompute(t, most, rule);
  } else {
    json_t *run = extra(t, kinds[0]);
    add(t, "Not tried: %s.", run ? string(t, run, "why_not") : "");
  }
  end(t, "Recompute");
}

static bool same_lengths(const json_t *a, const json_t *b) {
  return json_equal((json_t *)json_object_get(a, "by_sp"), (json_t *)json_object_get(b, "by_sp"));
}

static void write_longest(struct words *t) {
  json_t *longest = object(t, t->advice, "longest_that_fits"), *policies = array(t, longest, "policies"), *p, *value;
  size_t i;
  const char *sp;
  add(t, "The longest sample has %s tokens. What fits alone, in tokens, by SP degree:",
      grouped_text((int64_t)number(t, longest, "of_trace")).text);
  end(t, "Longest");
  json_array_foreach(policies, i, p) {
    bool told = false;
    for (size_t k = 0; k < i; k++)
      told = told || same_lengths(json_array_get(policies, k), p);
    if (told)
      continue;
    for (size_t k = i; k < json_array_size(policies); k++)
      if (same_lengths(json_array_get(policies, k), p))
        add(t, "%s%s", *t->line ? ", " : "", string(t, json_array_get(policies, k), "name"));
    add(t, ": ");
    json_t *by_sp = object(t, p, "by_sp");
    bool first = true;
    json_object_foreach(by_sp, sp, value) {
      add(t, "%s%s: %s", first ? "SP " : ", ", sp, si_text(number(t, by_sp, sp)).text);
      first = false;
    }
    end(t, "");
  }
}

static void write_cut(struct words *t) {
  json_t *run = extra(t, "cut");
  if (!was_run(run)) {
    add(t, "Not tried: %s.", run ? string(t, run, "why_not") : "");
    end(t, "Cutting");
    return;
  }
  json_t *policies = array(t, run, "policies"), *p = best(t, policies);
  double before = number(t, t->use, "tokens_per_s"), gain = before > 0 ? number(t, p, "tokens_per_s") / before : 0;
  add(t, "Dropping the %s samples over %s tokens (%.1f %% of the tokens) gives ",
      grouped_text((int64_t)number(t, run, "samples_over")).text,
      grouped_text((int64_t)number(t, run, "max_length")).text, 100 * number(t, run, "tokens_over_frac"));
  add_ratios(t, policies);
  add(t, " the tokens/s. Best then is %s%s with %s: ",
      strcmp(string(t, p, "name"), string(t, t->use, "name")) == 0 ? "still " : "", string(t, p, "name"),
      si_text(number(t, p, "tokens_per_s")).text);
  if (within_noise(t, gain))
    add(t, "%.2fx is within the interval, not worth it.", gain);
  else if (gain < 1)
    add(t, "%.2fx, it does not help.", gain);
  else
    add(t, "%.2fx what is to be used now.", gain);
  end(t, "Cutting");
}

static void write_nodes(struct words *t) {
  static const char *const kinds[] = {"nodes_x2", "nodes_x4"};
  double gpus = number(t, t->use, "gpus"), cost = number(t, t->use, "gpu_hours_per_billion_tokens");
  for (int k = 0; k < 2; k++) {
    json_t *run = extra(t, kinds[k]);
    if (!was_run(run)) {
      add(t, "Not tried: %s.", run ? string(t, run, "why_not") : "");
      end(t, k == 0 ? "More GPUs" : "");
      continue;
    }
    json_t *p = json_array_get(array(t, run, "policies"), 0);
    double now = number(t, run, "gpus"), ratio = number(t, p, "ratio"), per_gpu = now > 0 ? ratio * gpus / now : 0;
    add(t,
        "%.0f: %.2fx the tokens/s (%s), %.2fx per GPU; %.3g GPU-hours per billion tokens, now %.3g; steps of %s tokens",
        now, ratio, si_text(number(t, p, "tokens_per_s")).text, per_gpu, number(t, p, "gpu_hours_per_billion_tokens"),
        cost, si_text(number(t, p, "tokens_per_step")).text);
    add(t, "%s",
        ratio <= 1 + t->noise_frac ? ": no faster, not worth it."
        : within_noise(t, per_gpu) ? ": faster at the same cost, within the interval."
        : per_gpu < 1              ? ": faster, but dearer per token."
                                   : ": faster and cheaper per token.");
    end(t, k == 0 ? "More GPUs" : "");
  }
}

static void write_commands(struct words *t) {
  json_t *runs = array(t, t->advice, "extra_runs"), *run;
  size_t i;
  const char *command = string(t, t->use, "command");
  if (t->rc == 0)
    t->sink->command(t->sink->context, "use", command);
  json_array_foreach(runs, i, run) {
    const char *kind = string(t, run, "kind");
    if (was_run(run) && t->rc == 0)
      t->sink->command(t->sink->context, kind, json_string_value(json_object_get(run, "command")));
  }
}

int advice_text(const struct json_doc *doc, const struct advice_sink *sink, struct err *err) {
  struct words t = {.doc = doc, .sink = sink, .err = err};
  if (!json_object_get(doc->root, "advice"))
    return 0;
  t.advice = object(&t, doc->root, "advice");
  t.use = object(&t, t.advice, "use");
  t.fastest = object(&t, t.advice, "fastest");
  t.noise_frac = number(&t, t.advice, "noise_frac");
  write_use(&t);
  write_leads(&t);
  write_steps(&t);
  write_recompute(&t);
  write_longest(&t);
  write_cut(&t);
  write_nodes(&t);
  write_commands(&t);
  return t.rc;
}
