#include "sim/experiment/experiment.h"

#include <stdlib.h>
#include <string.h>

#include "models/memory.h"
#include "sim/base/units.h"
#include "sim/experiment/overlong.h"
#include "sim/experiment/shared_inputs.h"

const char *const share_names[SHARES] = {"compute",   "padding",   "recompute", "sp_exchange",
                                         "grad_sync", "optimizer", "host",      "idle"};

/* ---- What to run on what ---- */

static int check_required(const struct experiment_options *o, struct err *err) {
  const char *missing = !o->trace ? "--trace" : !o->model ? "--model" : !o->cluster ? "--cluster" : NULL;
  if (missing)
    return err_usage(err, "%s is missing (see --help)", missing);
  if (o->epoch && o->steps > 0)
    return err_usage(err, "--epoch and --steps exclude each other");
  return 0;
}

static void settle(char **option, const char *value) {
  if (!*option)
    *option = xstrdup(value);
}

static int load_params(struct experiment *x, struct err *err) {
  if (!x->shared)
    return params_load(&x->params, x->options.params, err);
  x->params = shared_inputs_params(x->shared, x->options.params, err);
  return x->params ? 0 : -1;
}

/* Those that --params names, else the cluster's. */
static int find_params(struct experiment *x, struct err *err) {
  struct experiment_options *o = &x->options;
  if (!o->params && strcmp(x->cluster.gpu, "cpu") == 0)
    return err_usage(err, "cluster '%s' has no parameters of its own: calibrate run and fit make a file for --params",
                     x->cluster.name);
  settle(&o->params, x->cluster.gpu);
  return load_params(x, err);
}

static int load_system(struct experiment *x, struct err *err) {
  struct experiment_options *o = &x->options;
  if (transformer_load(&x->model, o->model, err) < 0 || cluster_load(&x->cluster, o->cluster, err) < 0)
    return -1;
  settle(&o->framework, strcmp(x->model.name, "stdit3-xl-2") == 0 ? "eager_apex" : "fused");
  settle(&o->sp_kind, x->model.is_2d ? "dsp" : "ulysses");
  settle(&o->pick, o->no_shuffle ? "deterministic" : "published");
  if (find_params(x, err) < 0)
    return -1;
  x->system = (struct system){
      .model = &x->model,
      .cluster = &x->cluster,
      .params = x->params,
      .framework = framework_find(o->framework, err),
      .parallel = {.zero = (int)o->zero,
                   .shard_node = strcmp(o->shard, "node") == 0,
                   .sp_kind = strcmp(o->sp_kind, "ulysses") == 0 ? SP_ULYSSES
                              : strcmp(o->sp_kind, "ring") == 0  ? SP_RING
                                                                 : SP_DSP,
                   .grad_bytes = strcmp(o->grad_dtype, "fp32") == 0 ? 4 : 2,
                   .head_chunk = o->head_chunk,
                   .offload_optimizer = o->offload != NULL,
                   .memory_rule = strcmp(o->memory_rule, "published") == 0 ? MEMORY_PUBLISHED : MEMORY_MODELLED}};
  x->memory_cap_bytes = memory_cap_bytes(&x->system, o->memory_cap_frac);
  return x->system.framework ? 0 : -1;
}

static int check_sp(struct experiment *x, struct err *err) {
  struct experiment_options *o = &x->options;
  int world = system_world(&x->system);
  const char *why = NULL;
  if ((x->system.parallel.sp_kind == SP_DSP) != x->model.is_2d)
    return err_usage(err, "--sp-kind %s does not fit model '%s': 2D models use dsp, 1D models ulysses or ring",
                     o->sp_kind, x->model.name);
  if (o->max_sp > world)
    return err_usage(err, "--max-sp %lld is more than the %d GPUs of '%s'", (long long)o->max_sp, world,
                     x->cluster.name);
  if (o->max_sp > 0 && o->sp > o->max_sp)
    return err_usage(err, "--sp %lld is more than --max-sp %lld", (long long)o->sp, (long long)o->max_sp);
  if (o->sp > 0 && !system_sp_valid(&x->system, (int)o->sp, &why))
    return err_usage(err, "--sp %lld on the %d GPUs of '%s': %s", (long long)o->sp, world, x->cluster.name, why);
  if (o->sp > 0 && world % o->sp != 0)
    return err_usage(err, "--sp %lld does not divide the %d GPUs of '%s'", (long long)o->sp, world, x->cluster.name);
  if (o->straggler_rank >= world)
    return err_usage(err, "--straggler rank %lld: '%s' has ranks 0 to %d", (long long)o->straggler_rank,
                     x->cluster.name, world - 1);
  o->max_sp = o->max_sp > 0 ? o->max_sp : world;
  for (int sp = 1; sp <= o->max_sp && x->n_sps < MAX_SPS; sp *= 2)
    if (system_sp_valid(&x->system, sp, NULL))
      x->sps[x->n_sps++] = sp;
  return 0;
}

/* ---- Policies ---- */

static int add_policy(struct experiment *x, const char *name, struct err *err) {
  const struct policy *p = policy_find(name, err);
  if (!p)
    return -1;
  for (int i = 0; i < x->n_policies; i++)
    if (x->policies[i] == p)
      return err_usage(err, "policy '%s' is named twice", name);
  if (x->n_policies == MAX_POLICIES)
    return err_usage(err, "more than %d policies", MAX_POLICIES);
  x->policies[x->n_policies++] = p;
  return 0;
}

static int find_baseline(struct experiment *x, struct err *err) {
  const char *wanted = x->options.baseline ? x->options.baseline : "bucket";
  for (int i = 0; i < x->n_policies; i++)
    if (strcmp(x->policies[i]->name, wanted) == 0)
      x->baseline = i;
  for (int i = 0; i < x->n_policies; i++)
    if (!x->options.baseline && (x->policies[i]->flags & POLICY_GIVEN))
      x->baseline = i;
  if (x->options.baseline && strcmp(x->policies[x->baseline]->name, wanted) != 0)
    return policy_find(wanted, err)
               ? err_usage(err, "--baseline '%s' is not one of the policies '%s'", wanted, x->options.policy)
               : -1;
  settle(&x->options.baseline, x->policies[x->baseline]->name);
  return 0;
}

static int find_policies(struct experiment *x, struct err *err) {
  char *names = xstrdup(x->options.policy), *rest = names, *name;
  int rc = 0;
  while (rc == 0 && (name = strsep(&rest, ",")))
    rc = add_policy(x, name, err);
  free(names);
  return rc == 0 ? find_baseline(x, err) : -1;
}

/* Those asked for, before anything is loaded. */
static int find_named_policies(struct experiment *x, struct err *err) {
  return x->options.policy ? find_policies(x, err) : 0;
}

/* The default ones depend on the trace, and given on its batches. */
static int find_default_policies(struct experiment *x, struct err *err) {
  if (!x->options.policy) {
    settle(&x->options.policy, x->samples.batch ? "given," DEFAULT_POLICIES : DEFAULT_POLICIES);
    return find_policies(x, err);
  }
  for (int i = 0; i < x->n_policies; i++)
    if ((x->policies[i]->flags & POLICY_GIVEN) && !x->samples.batch)
      return err_set(err, "policy '%s': trace '%s' holds no batches (a file {\"batches\": [[512, 77], [2048]]} does)",
                     x->policies[i]->name, x->trace.name);
  return 0;
}

struct fit experiment_fit(const struct experiment *x, const struct policy *policy) {
  const char *rule = x->options.recompute;
  enum recompute_rule recompute = policy->flags & POLICY_ADAPTS_RECOMPUTE ? RECOMPUTE_ADAPTIVE : RECOMPUTE_FULL;
  if (rule)
    recompute = strcmp(rule, "full") == 0   ? RECOMPUTE_FULL
                : strcmp(rule, "none") == 0 ? RECOMPUTE_NONE
                                            : RECOMPUTE_ADAPTIVE;
  return (struct fit){.system = &x->system,
                      .cap_bytes = x->memory_cap_bytes,
                      .unequal_counts = policy->flags & POLICY_UNEQUAL_COUNTS,
                      .recompute = recompute,
                      .round_gib = x->options.round_gib};
}

/* ---- Samples ---- */

static int load_trace(struct experiment *x, struct err *err) {
  const struct experiment_options *o = &x->options;
  struct trace_options to = {.format = o->format,
                             .column = o->column,
                             .skip_bad = o->skip_bad,
                             .draws = o->samples,
                             .seed = (uint64_t)o->seed};
  if (x->trace.samples) /* the caller's */
    return 0;
  return x->shared ? shared_inputs_trace(x->shared, &x->trace, o->trace, &to, err)
                   : trace_load(&x->trace, o->trace, &to, err);
}

static int load_samples(struct experiment *x, struct err *err) {
  const struct experiment_options *o = &x->options;
  if (load_trace(x, err) < 0)
    return -1;
  if (x->trace.is_2d != x->model.is_2d)
    return err_set(err, "trace '%s' has %s, but model '%s' trains on %s", x->trace.name,
                   x->trace.is_2d ? "videos (frames and positions)" : "lengths in tokens", x->model.name,
                   x->model.is_2d ? "videos (frames and positions)" : "text (lengths in tokens)");
  x->trace_samples = x->trace.n;
  x->trace_tokens = trace_tokens(&x->trace);
  if (overlong_apply(x, err) < 0)
    return -1;
  if (x->samples.n == 0)
    return err_set(err, "trace '%s': every sample is longer than --max-length %lld", x->trace.name,
                   (long long)o->max_length);
  return 0;
}

static int make_buckets(struct experiment *x, struct err *err) {
  const struct experiment_options *o = &x->options;
  struct sample_set *s = &x->samples;
  if (o->n_bucket_bounds > 0 && s->is_2d)
    return err_usage(err, "--bucket-bounds are for text: videos are bucketed by frames and resolution");
  if (bucketing_make(&x->bucketing, s->samples, s->n, s->is_2d, (int)o->buckets_per_octave, o->bucket_bounds,
                     o->n_bucket_bounds, err) < 0)
    return -1;
  s->bucket = x->bucketing.of_sample;
  x->bucket_tokens = xcalloc((size_t)x->bucketing.n + 1, sizeof *x->bucket_tokens);
  for (int64_t i = 0; i < s->n; i++)
    x->bucket_tokens[s->bucket[i]] += sample_tokens(s->samples[i]);
  return 0;
}

/* A model that fits no GPU fits with no policy: said once, with what the least sample needs at the best SP. */
static int check_model_fits(const struct experiment *x, struct err *err) {
  struct fit f = {.system = &x->system, .cap_bytes = x->memory_cap_bytes, .recompute = RECOMPUTE_FULL};
  struct sample least = x->samples.samples[0];
  for (int64_t i = 1; i < x->samples.n; i++)
    if (sample_tokens(x->samples.samples[i]) < sample_tokens(least))
      least = x->samples.samples[i];
  for (int i = 0; i < x->n_sps; i++)
    if (fit_padded(&f, x->sps[i], 1, least))
      return 0;
  fit_error(&f, x->sps[x->n_sps - 1], least, err);
  return err_prefix(err, "model '%s' fits no GPU of '%s'", x->model.name, x->cluster.name);
}

int experiment_open(struct experiment *x, const struct experiment_options *options, struct err *err) {
  return experiment_open_shared(x, options, NULL, err);
}

int experiment_open_shared(struct experiment *x, const struct experiment_options *options, struct shared_inputs *shared,
                           struct err *err) {
  struct trace none = {0};
  return experiment_open_lengths(x, options, shared, &none, err);
}

int experiment_open_lengths(struct experiment *x, const struct experiment_options *options,
                            struct shared_inputs *shared, struct trace *trace, struct err *err) {
  *x = (struct experiment){.shared = shared, .trace = *trace, .progress_label = "simulating"};
  *trace = (struct trace){0};
  options_copy(&x->options, options);
  options_differences(options, x->differences, sizeof x->differences);
  if (check_required(&x->options, err) == 0 && find_named_policies(x, err) == 0 && load_system(x, err) == 0 &&
      check_sp(x, err) == 0 && load_samples(x, err) == 0 && find_default_policies(x, err) == 0 &&
      make_buckets(x, err) == 0 && check_model_fits(x, err) == 0)
    return 0;
  experiment_close(x);
  return -1;
}

void experiment_close(struct experiment *x) {
  x->samples.bucket = NULL; /* the bucketing's */
  bucketing_release(&x->bucketing);
  sample_set_release(&x->samples);
  trace_release(&x->trace);
  if (!x->shared)
    params_free(x->params);
  options_release(&x->options);
  free(x->bucket_tokens);
  free(x->overlong_ids);
  *x = (struct experiment){0};
}
