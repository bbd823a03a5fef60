#include "sim/cli/cmd_plan_profile.h"

#include <inttypes.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/policy/policy.h"

struct totals {
  double time_s, imbalance_s;
  int64_t iterations, samples, dropped;
};

/* One of the two ways to print; `w` is set for JSON. */
struct printer {
  FILE *out;
  struct json_writer *w;
  const struct profile *profile;
};

static int find_pick(const char *name, bool no_shuffle, enum pick *pick, struct err *err) {
  static const char *const names[] = {
      [PICK_PUBLISHED] = "published", [PICK_PROPORTIONAL] = "proportional", [PICK_DETERMINISTIC] = "deterministic"};
  *pick = no_shuffle ? PICK_DETERMINISTIC : PICK_PUBLISHED;
  if (!name)
    return 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) {
      *pick = (enum pick)i;
      return 0;
    }
  return err_usage(err, "unknown pick '%s' (valid: published, proportional, deterministic)", name);
}

static double imbalance_frac(double imbalance_s, double time_s) { return time_s > 0 ? imbalance_s / time_s : 0; }

static void json_group(struct printer *p, const struct plan_iteration *it, const struct plan_group *g) {
  json_begin_object(p->w);
  json_key_str(p->w, "bucket", p->profile->buckets[g->bucket].name);
  json_key_int(p->w, "sp", g->sp);
  json_key(p->w, "micro_batches");
  json_begin_array(p->w);
  for (size_t i = 0; i < g->n_micro_batches; i++)
    json_int(p->w, it->micro_batches[g->first_micro_batch + i].count);
  json_end_array(p->w);
  json_key_double(p->w, "time_s", g->time_s);
  json_end_object(p->w);
}

static void json_iteration(struct printer *p, const struct plan_iteration *it) {
  json_begin_object(p->w);
  json_key(p->w, "groups");
  json_begin_array(p->w);
  for (size_t i = 0; i < it->n_groups; i++)
    json_group(p, it, &it->groups[i]);
  json_end_array(p->w);
  json_key(p->w, "gas");
  json_begin_array(p->w);
  for (size_t i = 0; i < it->n_groups; i++)
    json_int(p->w, it->groups[i].planned_gas);
  json_end_array(p->w);
  json_key_double(p->w, "time_s", it->time_s);
  json_key_double(p->w, "imbalance_frac", imbalance_frac(it->imbalance_s, it->time_s));
  json_end_object(p->w);
}

static bool is_same_group(const struct plan_iteration *it, const struct plan_group *a, const struct plan_group *b) {
  if (a->bucket != b->bucket || a->sp != b->sp || a->n_micro_batches != b->n_micro_batches)
    return false;
  for (size_t i = 0; i < a->n_micro_batches; i++)
    if (it->micro_batches[a->first_micro_batch + i].count != it->micro_batches[b->first_micro_batch + i].count)
      return false;
  return true;
}

/* Runs of equal micro-batches and of equal groups are written once: "3 x b1 SP 2: 4x16 1x7". */
static void table_iteration(struct printer *p, const struct plan_iteration *it, int64_t number) {
  fprintf(p->out, "%9" PRId64 " %12.6g %10.2f  ", number, it->time_s,
          100 * imbalance_frac(it->imbalance_s, it->time_s));
  for (size_t i = 0, same; i < it->n_groups; i += same) {
    const struct plan_group *g = &it->groups[i];
    for (same = 1; i + same < it->n_groups && is_same_group(it, g, g + same);)
      same++;
    fprintf(p->out, "%s%zu x %s SP %d:", i ? "; " : "", same, p->profile->buckets[g->bucket].name, g->sp);
    for (size_t j = 0, run; j < g->n_micro_batches; j += run) {
      int64_t count = it->micro_batches[g->first_micro_batch + j].count;
      for (run = 1; j + run < g->n_micro_batches && it->micro_batches[g->first_micro_batch + j + run].count == count;)
        run++;
      fprintf(p->out, " %zux%" PRId64, run, count);
    }
  }
  fprintf(p->out, "\n");
}

static void print_head(struct printer *p, const struct policy *policy, int world) {
  if (!p->w) {
    fprintf(p->out, "policy %s, %d ranks\n", policy->name, world);
    fprintf(p->out, "%9s %12s %10s  %s\n", "iteration", "time (s)", "imbal. (%)",
            "groups: number x bucket SP: micro-batches x samples");
    return;
  }
  json_begin_object(p->w);
  json_key_str(p->w, "schema", "dcpsim.plan/1");
  json_key_str(p->w, "policy", policy->name);
  json_key_int(p->w, "world", world);
  json_key(p->w, "iterations");
  json_begin_array(p->w);
}

static void print_totals(struct printer *p, const struct totals *t) {
  double frac = imbalance_frac(t->imbalance_s, t->time_s);
  if (!p->w) {
    fprintf(p->out,
            "total: %" PRId64 " iterations, %.6g s, imbalance %.4g %%, %" PRId64 " samples, %" PRId64 " dropped\n",
            t->iterations, t->time_s, 100 * frac, t->samples, t->dropped);
    return;
  }
  json_end_array(p->w);
  json_key_double(p->w, "time_s", t->time_s);
  json_key_double(p->w, "imbalance_frac", frac);
  json_key_int(p->w, "samples", t->samples);
  json_key_int(p->w, "samples_dropped", t->dropped);
  json_end_object(p->w);
  fprintf(p->out, "\n");
}

static void add_totals(struct totals *t, const struct plan_iteration *it) {
  t->time_s += it->time_s;
  t->imbalance_s += it->imbalance_s;
  for (size_t i = 0; i < it->n_micro_batches; i++)
    t->samples += it->micro_batches[i].count;
  for (size_t i = 0; i < it->n_drops; i++)
    t->dropped += it->drops[i].count;
}

static int print_plan(struct printer *p, const struct policy *policy, struct policy_run *run, struct err *err) {
  struct plan_iteration it = {0};
  struct totals totals = {0};
  int rc;
  print_head(p, policy, p->profile->world);
  while ((rc = policy_next(run, &it, err)) > 0) {
    if (p->w)
      json_iteration(p, &it);
    else
      table_iteration(p, &it, totals.iterations);
    totals.iterations++;
    add_totals(&totals, &it);
  }
  add_totals(&totals, &it);
  if (rc == 0)
    print_totals(p, &totals);
  plan_iteration_release(&it);
  return rc;
}

static int fill_input(struct policy_input *in, const struct plan_profile_options *o, const struct policy *policy,
                      struct err *err) {
  struct policy_options *x = &in->options;
  if (policy->flags & POLICY_NEEDS_SAMPLES)
    return err_usage(err, "policy '%s' needs samples: it cannot be planned with --profile", policy->name);
  if (find_pick(o->pick, o->no_shuffle, &x->pick, err) < 0)
    return -1;
  x->remainder = o->drop_last ? REMAINDER_DROP_LAST : REMAINDER_KEEP_LAST;
  x->max_gas = o->max_gas ? o->max_gas : 5;
  x->min_gas = o->min_gas ? o->min_gas : policy->default_min_gas;
  x->shuffle = !o->no_shuffle;
  in->seed = o->seed;
  return 0;
}

int plan_profile_run(const struct plan_profile_options *o, FILE *out, struct err *err) {
  struct profile profile = {0};
  struct policy_run *run = NULL;
  struct json_writer writer = {.file = out};
  int rc = -1;
  const struct policy *policy = policy_find(o->policy, err);
  struct policy_input in = {.profile = &profile};
  if (!policy || fill_input(&in, o, policy, err) < 0 || profile_read(&profile, o->profile_path, err) < 0)
    return -1;
  in.world = profile.world;
  if (policy_open(&run, policy, &in, err) < 0) {
    err_prefix(err, "profile '%s'", o->profile_path);
    goto out;
  }
  struct printer printer = {out, o->json ? &writer : NULL, &profile};
  rc = print_plan(&printer, policy, run, err);
out:
  policy_close(run);
  profile_release(&profile);
  return rc;
}
