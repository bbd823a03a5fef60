/* dcpsim simulate */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/output.h"
#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/cli/print_advice.h"
#include "sim/cli/print_result.h"
#include "sim/experiment/result.h"
#include "sim/experiment/shared_inputs.h"

static void help(FILE *out) {
  fprintf(out,
          "usage: dcpsim simulate [EXPERIMENT.json] --trace T --model M --cluster C [options]\n\n"
          "Trains the model on the trace's lengths under each policy, in virtual time, and compares them: tokens/s,\n"
          "speedup, where the time goes, memory, distance from a bound that no policy can beat. Every option is also\n"
          "a field of the experiment file (dcpsim.experiment/1), dashes as underscores; the command line wins.\n");
  options_help(OPTIONS_SIMULATE, out);
  fprintf(out,
          "\nUnits: tokens, seconds, GiB; a speedup compares real tokens per second. Exit code: 0 ok, 1 failure, 2 "
          "usage.\n");
}

/* At most one thing can go to stdout. */
static int check_stdout(const struct experiment_options *o, struct err *err) {
  const char *const paths[] = {o->csv, o->result, o->schedule, o->timeline};
  int n = o->json;
  for (int i = 0; i < 4; i++)
    n += paths[i] && strcmp(paths[i], "-") == 0;
  return n <= 1 ? 0 : err_usage(err, "simulate: only one of --json and the files named - can go to stdout");
}

static int check_options(const struct experiment_options *o, struct err *err) {
  if (o->profile)
    return err_usage(err, "simulate: 'profile' is for plan: simulating needs the models");
  if (o->save_profile)
    return err_usage(err, "simulate: 'save_profile' is for plan");
  if (o->offload)
    return err_usage(err,
                     "simulate: --offload %s: how long an optimizer on the host takes is not modelled, so there "
                     "is no time to give (plan accepts it, for memory)",
                     o->offload);
  if (o->chakra && strcmp(o->chakra, "-") == 0)
    return err_usage(err, "simulate: --chakra names a folder, it cannot go to stdout");
  return check_stdout(o, err);
}

static bool is_stdout(const char *path) { return path && strcmp(path, "-") == 0; }

/* What goes to stdout: JSON, or the tables unless a file was asked for there. */
static int print(const struct experiment *x, const struct policy_result *results,
                 const struct experiment_outputs *outputs, const struct advice *advice, struct err *err) {
  const struct experiment_options *o = &x->options;
  struct json_writer w = {.indent = true};
  struct output out;
  if (is_stdout(o->csv) || is_stdout(o->result) || is_stdout(o->schedule) || is_stdout(o->timeline))
    return 0;
  if (output_open(&out, "-", err) < 0)
    return -1;
  w.file = out.file;
  int rc = 0;
  if (o->json) {
    result_write_json(&w, x, results, outputs, advice);
    fputc('\n', out.file);
  } else {
    print_results(out.file, x, results);
    for (int i = 0; o->explain && i < x->n_policies; i++)
      print_explain(out.file, &results[i], &outputs[i].explain);
    if (advice)
      rc = print_advice(out.file, x, results, advice, err);
  }
  return rc < 0 ? -1 : output_commit(&out, err);
}

#define UNMEASURED_FRAC 0.01 /* of the compute time: what is less changes no answer */

/* Of the policy whose time rests most on GEMMs smaller than any measured. */
static void warn_unmeasured(const struct experiment *x, const struct policy_result *results) {
  const struct policy_result *most = &results[0];
  for (int i = 1; i < x->n_policies; i++)
    if (results[i].unmeasured_frac > most->unmeasured_frac)
      most = &results[i];
  if (most->unmeasured_frac > UNMEASURED_FRAC)
    log_warn("%s: %.1f %% of the compute time is in GEMMs smaller than any measured for parameters '%s', counted as "
             "the smallest measured",
             most->name, 100 * most->unmeasured_frac, params_name(x->params));
}

static void warn(const struct experiment *x, const struct policy_result *results,
                 const struct experiment_outputs *outputs) {
  for (int i = 0; i < x->n_policies; i++)
    if (results[i].steps == 0)
      log_warn("policy '%s' ran no step: its rule dropped every sample", results[i].name);
  for (int i = 0; i < x->n_policies; i++)
    if (outputs[i].chakra_summary.ranks > 0)
      log_note(
          "%s: %lld Chakra nodes of %d ranks; durations are whole microseconds, the compute of a rank is off by at "
          "most %.3f us",
          results[i].name, (long long)outputs[i].chakra_summary.nodes, outputs[i].chakra_summary.ranks,
          outputs[i].chakra_summary.rounding_s * 1e6);
  warn_unmeasured(x, results);
  char text[256];
  if (params_range_warning(x->params, text, sizeof text))
    log_warn("%s", text);
}

/* Opened, run, printed; `shared`: for the extra runs of --advise, else NULL. */
static int simulate(const struct experiment_options *o, struct shared_inputs *shared, struct err *err) {
  struct experiment x;
  struct experiment_outputs outputs[MAX_POLICIES] = {{0}};
  struct policy_result results[MAX_POLICIES];
  struct advice *advice = NULL;
  struct output csv = {0}, result = {0};
  int rc = -1;
  if (experiment_open_shared(&x, o, shared, err) < 0)
    return -1;
  if (experiment_outputs_open(&x, outputs, err) < 0 || (o->csv && output_open(&csv, o->csv, err) < 0) ||
      (o->result && output_open(&result, o->result, err) < 0))
    goto out;
  if (experiment_run(&x, outputs, results, err) < 0)
    goto out;
  if (o->advise) {
    advice = xmalloc(sizeof *advice);
    advice_make(advice, &x, o, results);
  }
  if (experiment_outputs_commit(&x, outputs, err) < 0)
    goto out;
  if (o->csv) {
    result_write_csv(csv.file, &x, results);
    if (output_commit(&csv, err) < 0)
      goto out;
  }
  if (o->result) {
    struct json_writer w = {.file = result.file, .indent = true};
    result_write_json(&w, &x, results, outputs, advice);
    fputc('\n', result.file);
    if (output_commit(&result, err) < 0)
      goto out;
  }
  rc = print(&x, results, outputs, advice, err);
  if (rc == 0)
    warn(&x, results, outputs);
out:
  if (advice)
    advice_release(advice);
  free(advice);
  output_discard(&csv);
  output_discard(&result);
  experiment_outputs_release(&x, outputs);
  experiment_close(&x);
  return rc;
}

static int simulate_shared(const struct experiment_options *o, struct err *err) {
  struct trace_store *traces = o->advise ? trace_store_new() : NULL;
  struct shared_inputs *shared = o->advise ? shared_inputs_for_threads(traces) : NULL;
  int rc = simulate(o, shared, err);
  shared_inputs_free(shared);
  trace_store_free(traces);
  return rc;
}

int cmd_simulate(int argc, char **argv) {
  struct experiment_options o;
  struct err err = {.set = false};
  bool want_help;
  options_init(&o);
  int rc = options_parse(&o, OPTIONS_SIMULATE, argc - 1, argv + 1, &want_help, &err);
  if (rc == 0 && want_help)
    help(stdout);
  else if (rc == 0)
    rc = check_options(&o, &err) < 0 ? -1 : simulate_shared(&o, &err);
  options_release(&o);
  return rc < 0 ? cli_fail(&err) : 0;
}
