/* dcpsim plan */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/number_text.h"
#include "sim/base/output.h"
#include "sim/base/text_stream.h"
#include "sim/cli/cli.h"
#include "sim/cli/cmd_plan_profile.h"
#include "sim/experiment/experiment.h"

static void help(FILE *out) {
  fprintf(out,
          "usage: dcpsim plan [EXPERIMENT.json] --policy P --trace T --model M --cluster C [options]\n"
          "       dcpsim plan --policy P --profile FILE [--no-shuffle] [--drop-last] [--max-gas N] [--min-gas N]\n\n"
          "The iterations that one policy makes, without simulating them: groups, their SP, samples per micro-batch,\n"
          "planned times in seconds. With --profile from measured bucket times, without trace, model and cluster.\n");
  options_help(OPTIONS_PLAN, out);
}

/* ---- One iteration ---- */

struct printer {
  FILE *out;
  struct json_writer *w; /* NULL: a table */
  int64_t iterations;
  FILE *profile; /* NULL: not asked for */
};

static double frac(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* A bucket's name; the padded shape where a policy has no buckets; NULL for a pack. */
static const char *bucket_name(const struct profile *profile, const struct plan_iteration *it,
                               const struct plan_group *g, char buf[40]) {
  const struct plan_micro_batch *m = &it->micro_batches[g->first_micro_batch];
  if (g->bucket >= 0)
    return profile->buckets[g->bucket].name;
  if (m->packed)
    return NULL;
  if (m->shape.b > 1)
    snprintf(buf, 40, "%" PRIu32 "x%" PRIu32, m->shape.a, m->shape.b);
  else
    snprintf(buf, 40, "%" PRIu32, m->shape.a);
  return buf;
}

static void json_group(struct json_writer *w, const struct profile *profile, const struct plan_iteration *it,
                       const struct plan_group *g) {
  char buf[40];
  const char *name = bucket_name(profile, it, g, buf);
  json_begin_object(w);
  json_key(w, "bucket");
  if (name)
    json_str(w, name);
  else
    json_put_null(w);
  json_key_int(w, "sp", g->sp);
  json_key(w, "micro_batches");
  json_begin_array(w);
  for (size_t i = 0; i < g->n_micro_batches; i++)
    json_int(w, it->micro_batches[g->first_micro_batch + i].count);
  json_end_array(w);
  json_key_double(w, "time_s", g->time_s);
  json_end_object(w);
}

static void json_iteration(struct json_writer *w, const struct profile *profile, const struct plan_iteration *it) {
  json_begin_object(w);
  json_key(w, "groups");
  json_begin_array(w);
  for (size_t i = 0; i < it->n_groups; i++)
    json_group(w, profile, it, &it->groups[i]);
  json_end_array(w);
  json_key(w, "gas");
  json_begin_array(w);
  for (size_t i = 0; i < it->n_groups; i++)
    json_int(w, it->groups[i].planned_gas);
  json_end_array(w);
  json_key_double(w, "time_s", it->time_s);
  json_key_double(w, "imbalance_frac", frac(it->imbalance_s, it->time_s));
  json_end_object(w);
}

static bool same_group(const struct plan_iteration *it, const struct plan_group *a, const struct plan_group *b) {
  const struct plan_micro_batch *x = &it->micro_batches[a->first_micro_batch],
                                *y = &it->micro_batches[b->first_micro_batch];
  if (a->bucket != b->bucket || a->sp != b->sp || a->n_micro_batches != b->n_micro_batches)
    return false;
  for (size_t i = 0; i < a->n_micro_batches; i++)
    if (x[i].count != y[i].count || x[i].shape.a != y[i].shape.a || x[i].shape.b != y[i].shape.b)
      return false;
  return true;
}

/* Runs of equal groups and micro-batches are written once: "3 x 2048 SP 2: 4x16 1x7". */
static void table_iteration(struct printer *p, const struct profile *profile, const struct plan_iteration *it) {
  char buf[40];
  fprintf(p->out, "%9" PRId64 " %12s %10.2f  ", p->iterations, duration_text(it->time_s).text,
          100 * frac(it->imbalance_s, it->time_s));
  for (size_t i = 0, same; i < it->n_groups; i += same) {
    const struct plan_group *g = &it->groups[i];
    for (same = 1; i + same < it->n_groups && same_group(it, g, g + same);)
      same++;
    const char *name = bucket_name(profile, it, g, buf);
    fprintf(p->out, "%s%zu x %s SP %d:", i ? "; " : "", same, name ? name : "pack", g->sp);
    for (size_t j = 0, run; j < g->n_micro_batches; j += run) {
      const struct plan_micro_batch *m = &it->micro_batches[g->first_micro_batch + j];
      for (run = 1; j + run < g->n_micro_batches && m[run].count == m->count;)
        run++;
      fprintf(p->out, " %zux%" PRId64, run, m->count);
    }
  }
  fprintf(p->out, "\n");
}

static void print_iteration(void *context, const struct profile *profile, const struct plan_iteration *it) {
  struct printer *p = context;
  if (p->w)
    json_iteration(p->w, profile, it);
  else
    table_iteration(p, profile, it);
  p->iterations++;
}

static void print_profile(void *context, const struct profile *profile) {
  const struct printer *p = context;
  profile_write(p->profile, profile);
}

/* ---- The plan ---- */

static void print_head(struct printer *p, const struct experiment *x) {
  if (!p->w) {
    fprintf(p->out, "policy %s, %s on %s, %s (%d GPUs)\n", x->policies[0]->name, x->trace.name, x->model.name,
            x->cluster.name, system_world(&x->system));
    fprintf(p->out, "%9s %12s %10s  %s\n", "iteration", "time", "imbal. %",
            "groups: number x bucket SP: micro-batches x samples");
    return;
  }
  json_begin_object(p->w);
  json_key_str(p->w, "schema", "dcpsim.plan/1");
  json_key_str(p->w, "policy", x->policies[0]->name);
  json_key_int(p->w, "world", system_world(&x->system));
  json_key(p->w, "iterations");
  json_begin_array(p->w);
}

static void print_totals(struct printer *p, const struct experiment_plan *plan, const struct policy_result *r) {
  if (!p->w) {
    fprintf(p->out,
            "total: %" PRId64 " iterations, %s, imbalance %.2f %%, %s samples, %s dropped, %s infeasible, %s "
            "overlong, %s remaining\n",
            p->iterations, duration_text(plan->time_s).text, 100 * frac(plan->imbalance_s, plan->time_s),
            grouped_text(r->samples).text, grouped_text(r->samples_dropped).text,
            grouped_text(r->samples_infeasible).text, grouped_text(r->samples_overlong).text,
            grouped_text(r->samples_remaining).text);
    return;
  }
  json_end_array(p->w);
  json_key_double(p->w, "time_s", plan->time_s);
  json_key_double(p->w, "imbalance_frac", frac(plan->imbalance_s, plan->time_s));
  json_key_int(p->w, "samples", r->samples);
  json_key_int(p->w, "samples_dropped", r->samples_dropped);
  json_key_int(p->w, "samples_infeasible", r->samples_infeasible);
  json_key_int(p->w, "samples_overlong", r->samples_overlong);
  json_key_int(p->w, "samples_remaining", r->samples_remaining);
  json_end_object(p->w);
  fputc('\n', p->out);
}

static int print_plan(struct printer *p, const struct experiment *x, struct err *err) {
  struct experiment_plan plan = {
      .context = p, .profile = p->profile ? print_profile : NULL, .iteration = print_iteration};
  struct policy_result result;
  if (p->profile && !(x->policies[0]->flags & POLICY_BUCKETED))
    return err_usage(err, "plan: --save-profile: policy '%s' plans without bucket times", x->policies[0]->name);
  print_head(p, x);
  if (experiment_plan(x, &plan, &result, err) < 0)
    return -1;
  print_totals(p, &plan, &result);
  return 0;
}

static int plan_from_models(const struct experiment_options *o, FILE *out, struct err *err) {
  struct experiment x;
  struct json_writer w = {.file = out};
  struct output profile = {0};
  int rc = -1;
  if (o->save_profile && output_open(&profile, o->save_profile, err) < 0)
    return -1;
  struct printer p = {.out = out, .w = o->json ? &w : NULL, .profile = profile.file};
  if (experiment_open(&x, o, err) == 0) {
    rc = print_plan(&p, &x, err);
    experiment_close(&x);
  }
  if (rc == 0 && o->save_profile)
    rc = output_commit(&profile, err);
  output_discard(&profile);
  return rc;
}

static int plan_from_profile(const struct experiment_options *o, FILE *out, struct err *err) {
  struct plan_profile_options p = {.policy = o->policy,
                                   .profile_path = o->profile,
                                   .pick = o->pick,
                                   .no_shuffle = o->no_shuffle,
                                   .drop_last = o->drop_last,
                                   .json = o->json,
                                   .max_gas = (int)o->max_gas,
                                   .min_gas = (int)o->min_gas,
                                   .seed = (uint64_t)o->seed};
  if (o->trace || o->model || o->cluster)
    return err_usage(err, "plan: --profile already says what --trace, --model and --cluster would");
  if (o->save_profile)
    return err_usage(err, "plan: --save-profile writes modelled bucket times, --profile brings measured ones");
  return plan_profile_run(&p, out, err);
}

/* Printed as a whole or, after an error, not at all. */
static int plan(const struct experiment_options *o, struct err *err) {
  char *text = NULL;
  size_t size = 0;
  struct output out;
  if (!o->policy)
    return err_usage(err, "plan: --policy NAME is missing (see: dcpsim list policies)");
  if (strchr(o->policy, ','))
    return err_usage(err, "plan: --policy takes one policy, got '%.80s'", o->policy);
  FILE *memory = text_stream_begin(&text, &size);
  int rc = o->profile ? plan_from_profile(o, memory, err) : plan_from_models(o, memory, err);
  text_stream_end(memory);
  if (rc == 0 && (rc = output_open(&out, "-", err)) == 0) {
    fwrite(text, 1, size, out.file);
    rc = output_commit(&out, err);
  }
  free(text);
  return rc;
}

int cmd_plan(int argc, char **argv) {
  struct experiment_options o;
  struct err err = {.set = false};
  bool want_help;
  options_init(&o);
  int rc = options_parse(&o, OPTIONS_PLAN, argc - 1, argv + 1, &want_help, &err);
  if (rc == 0 && want_help)
    help(stdout);
  else if (rc == 0)
    rc = plan(&o, &err);
  options_release(&o);
  return rc < 0 ? cli_fail(&err) : 0;
}
