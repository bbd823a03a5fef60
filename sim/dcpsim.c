/* dcpsim.c: the library's calls. Each runs inside memory_guard, and gives its error to the caller's buffer. */
#include "sim/dcpsim.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/experiment.h"
#include "sim/experiment/shared_inputs.h"
#include "sim/plan/schedule.h"
#include "sim/plan/schedule_read.h"
#include "traces/trace.h"

struct dcpsim_schedule {
  char *path; /* for messages */
  struct schedule_reader reader;
  struct err malformed; /* the first thing that the reader found wrong */
  struct dcpsim_header header;
  char *header_line;
  struct dcpsim_sample *header_samples;
  struct schedule_step read; /* the present step as it was read, and as it is handed out */
  struct dcpsim_step step;
  struct dcpsim_group *groups;
  struct dcpsim_micro_batch *micro_batches;
  struct dcpsim_sample *samples;
  size_t groups_cap, micro_batches_cap, samples_cap;
};

int dcpsim_api(void) { return DCPSIM_API; }
const char *dcpsim_version(void) { return DCPSIM_VERSION; }

/* Runs work(call, err) and hands its error on. In the C locale, whatever the program's is: numbers have a point. */
static int guarded(int (*work)(void *call, struct err *err), void *call, char *error, size_t error_size) {
  struct err err = {.set = false};
  locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), callers = uselocale(c);
  int rc = memory_guard(work, call, &err);
  uselocale(callers);
  freelocale(c);
  if (rc < 0 && error && error_size > 0)
    snprintf(error, error_size, "%s", err.msg);
  return rc;
}

/* ---- Opening ---- */

static void note_malformed(void *context, const struct schedule_finding *f) {
  struct dcpsim_schedule *s = context;
  if (!s->malformed.set)
    err_set(&s->malformed, "schedule '%s' %s", s->path, f->message);
}

static struct dcpsim_sample *add_ids(struct dcpsim_sample *to, const struct schedule_id_list *list,
                                     const struct dcpsim_sample **samples, size_t *n) {
  *samples = to;
  *n = list->n;
  for (size_t i = 0; i < list->n; i++)
    *to++ = (struct dcpsim_sample){.id = list->ids[i], .offset = list->offsets[i]};
  return to;
}

static void fill_header(struct dcpsim_schedule *s) {
  const struct schedule_reader *r = &s->reader;
  const struct schedule_header *h = &r->header;
  struct dcpsim_header *out = &s->header;
  s->header_line = xstrdup(r->lines.text);
  *out = (struct dcpsim_header){.line = s->header_line,
                                .world = h->world,
                                .gpus_per_node = h->gpus_per_node,
                                .policy = h->policy,
                                .trace = h->trace,
                                .model = h->model,
                                .cluster = h->cluster,
                                .weighting = h->weighting,
                                .modules = {r->modules[0], r->modules[1]},
                                .n_modules = r->n_modules,
                                .partial = h->partial,
                                .samples_total = h->samples_total};
  size_t n = r->dropped.n + r->infeasible.n + r->overlong.n;
  struct dcpsim_sample *to = s->header_samples = xcalloc(n + 1, sizeof *to);
  to = add_ids(to, &r->dropped, &out->dropped, &out->n_dropped);
  to = add_ids(to, &r->infeasible, &out->infeasible, &out->n_infeasible);
  add_ids(to, &r->overlong, &out->overlong, &out->n_overlong);
}

/* Reads `file`, which is the schedule's from now on, or the file called `path`. */
static int schedule_open(struct dcpsim_schedule **out, const char *path, FILE *file, struct err *err) {
  struct dcpsim_schedule *s = xcalloc(1, sizeof *s);
  s->path = xstrdup(path);
  int rc = file ? schedule_reader_open_file(&s->reader, file, s->path, note_malformed, s, err)
                : schedule_reader_open(&s->reader, s->path, note_malformed, s, err);
  if (rc == 0 && s->malformed.set)
    rc = err_set(err, "%s", s->malformed.msg);
  if (rc == 0)
    fill_header(s);
  else
    dcpsim_schedule_close(s);
  *out = rc == 0 ? s : NULL;
  return rc;
}

struct open_call {
  const char *path;
  struct dcpsim_schedule *schedule;
};

static int open_work(void *context, struct err *err) {
  struct open_call *call = context;
  if (strcmp(call->path, "-") == 0)
    return err_set(err, "schedule '-': a library does not read the program's standard input");
  return schedule_open(&call->schedule, call->path, NULL, err);
}

struct dcpsim_schedule *dcpsim_schedule_open(const char *path, char *error, size_t error_size) {
  struct open_call call = {path, NULL};
  return guarded(open_work, &call, error, error_size) < 0 ? NULL : call.schedule;
}

void dcpsim_schedule_close(struct dcpsim_schedule *s) {
  if (!s)
    return;
  schedule_reader_close(&s->reader);
  schedule_step_release(&s->read);
  free(s->path);
  free(s->header_line);
  free(s->header_samples);
  free(s->groups);
  free(s->micro_batches);
  free(s->samples);
  free(s);
}

const struct dcpsim_header *dcpsim_schedule_header(const struct dcpsim_schedule *s) { return &s->header; }

/* ---- Steps ---- */

static void fill_samples(struct dcpsim_schedule *s) {
  const struct sample_set *from = &s->read.samples;
  VEC_RESERVE(s->samples, s->samples_cap, (size_t)from->n);
  for (int64_t i = 0; i < from->n; i++)
    s->samples[i] = (struct dcpsim_sample){from->ids[i], from->offsets[i], {from->samples[i].a, from->samples[i].b}};
}

static void fill_micro_batches(struct dcpsim_schedule *s) {
  const struct plan_iteration *it = &s->read.plan;
  VEC_RESERVE(s->micro_batches, s->micro_batches_cap, it->n_micro_batches);
  for (size_t i = 0; i < it->n_micro_batches; i++) {
    const struct plan_micro_batch *from = &it->micro_batches[i];
    s->micro_batches[i] = (struct dcpsim_micro_batch){
        .samples = &s->samples[from->samples[0]], /* they stand side by side */
        .n_samples = (size_t)from->count,
        .packed = from->packed,
        .padded_extent = {from->packed ? 0 : from->shape.a, from->packed ? 0 : from->shape.b},
        .recompute_layers = {from->recompute_blocks[0], from->recompute_blocks[1]},
        .weight = s->read.weights[i]};
  }
}

static void fill_step(struct dcpsim_schedule *s) {
  const struct plan_iteration *it = &s->read.plan;
  fill_samples(s);
  fill_micro_batches(s);
  VEC_RESERVE(s->groups, s->groups_cap, it->n_groups);
  for (size_t g = 0; g < it->n_groups; g++) {
    const struct plan_group *from = &it->groups[g];
    size_t at = g;
    for (; at > 0 && s->groups[at - 1].round > from->round; at--) /* dcpsim writes them in order; others might not */
      s->groups[at] = s->groups[at - 1];
    s->groups[at] = (struct dcpsim_group){.first_rank = from->first_rank,
                                          .end_rank = from->first_rank + from->sp,
                                          .round = from->round,
                                          .micro_batches = &s->micro_batches[from->first_micro_batch],
                                          .n_micro_batches = from->n_micro_batches,
                                          .predicted_time_s = s->read.group_time_s[g]};
  }
  s->step = (struct dcpsim_step){.line = s->reader.lines.text,
                                 .iteration = s->read.iteration,
                                 .predicted_time_s = s->read.predicted_time_s,
                                 .groups = s->groups,
                                 .n_groups = it->n_groups};
}

static int next_work(void *context, struct err *err) {
  struct dcpsim_schedule *s = context;
  int status = schedule_reader_next(&s->reader, &s->read, err);
  if (s->malformed.set)
    return err_set(err, "%s", s->malformed.msg);
  if (status == 1)
    fill_step(s);
  return status < 0 ? DCPSIM_ERROR : status == 1 ? DCPSIM_OK : DCPSIM_END;
}

int dcpsim_schedule_next(struct dcpsim_schedule *s, const struct dcpsim_step **step, char *error, size_t error_size) {
  int rc = guarded(next_work, s, error, error_size);
  *step = rc == DCPSIM_OK ? &s->step : NULL;
  return rc;
}

/* ---- Planning ---- */

struct plan_call {
  const char *experiment;
  const uint32_t *frames, *positions; /* positions NULL: frames are tokens */
  size_t n;
  struct dcpsim_schedule *schedule;
};

/* Fields of an experiment that have no meaning for lengths that are given. */
static int check_options(const struct experiment_options *o, struct err *err) {
  const struct {
    const char *name;
    bool is_set;
  } refused[] = {{"format", o->format != NULL},
                 {"column", o->column != NULL},
                 {"skip_bad", o->skip_bad},
                 {"profile", o->profile != NULL},
                 {"json", o->json},
                 {"csv", o->csv != NULL},
                 {"result", o->result != NULL},
                 {"schedule", o->schedule != NULL},
                 {"timeline", o->timeline != NULL},
                 {"chakra", o->chakra != NULL},
                 {"explain", o->explain}};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
    if (refused[i].is_set)
      return err_usage(err, "experiment: '%s' has no meaning for lengths that the caller gives", refused[i].name);
  if (o->offload)
    return err_usage(err, "experiment: 'offload' is not modelled in time, so there is no schedule to give");
  if (!o->policy)
    return err_usage(err, "experiment: 'policy' is missing");
  if (strchr(o->policy, ','))
    return err_usage(err, "experiment: 'policy' must name one policy, got '%s'", o->policy);
  return 0;
}

static int read_options(struct experiment_options *o, const char *experiment, struct err *err) {
  if (options_read_text(o, "text", experiment, err) < 0 || check_options(o, err) < 0)
    return -1;
  if (!o->trace)
    o->trace = xstrdup("lengths");
  return 0;
}

/* The name that a file of these lengths would have in a header. */
static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

static int make_trace(struct trace *t, const struct plan_call *call, const char *name, struct err *err) {
  if (call->n == 0 || call->n > TRACE_MAX_SAMPLES)
    return err_set(err, "lengths: there must be 1 to %u of them, got %zu", TRACE_MAX_SAMPLES, call->n);
  struct sample *samples = xmalloc(size_mul(call->n, sizeof *samples));
  for (size_t i = 0; i < call->n; i++) {
    samples[i] = (struct sample){call->frames[i], call->positions ? call->positions[i] : 1};
    int64_t tokens = sample_tokens(samples[i]);
    if (tokens >= 1 && tokens <= TRACE_MAX_LENGTH)
      continue;
    free(samples);
    return err_set(err, "lengths: sample %zu has %" PRId64 " tokens, must be 1 to %u", i, tokens, TRACE_MAX_LENGTH);
  }
  *t = (struct trace){.name = xstrdup(base_name(name)),
                      .format = "caller",
                      .is_2d = call->positions != NULL,
                      .samples = samples,
                      .n = (int64_t)call->n};
  return 0;
}

/* Runs the experiment; its schedule goes to `file`. */
static int write_schedule(const struct experiment *x, FILE *file, struct err *err) {
  struct experiment_outputs outputs = {0};
  struct policy_result result;
  int rc = schedule_writer_open_file(&outputs.schedule, file, err);
  if (rc == 0)
    rc = experiment_run(x, &outputs, &result, err);
  if (rc == 0)
    rc = experiment_outputs_commit(x, &outputs, err);
  if (rc == 0 && fseek(file, 0, SEEK_SET) != 0)
    rc = err_set(err, "cannot read back the schedule: %s", strerror(errno));
  experiment_outputs_release(x, &outputs);
  return rc;
}

static int plan_lengths(struct plan_call *call, const struct experiment_options *o, struct shared_inputs *shared,
                        struct err *err) {
  struct experiment x;
  struct trace trace;
  if (make_trace(&trace, call, o->trace, err) < 0 || experiment_open_lengths(&x, o, shared, &trace, err) < 0)
    return -1;
  FILE *file = tmpfile();
  int rc = file ? write_schedule(&x, file, err) : err_set(err, "cannot create a temporary file: %s", strerror(errno));
  experiment_close(&x);
  if (rc == 0)
    return schedule_open(&call->schedule, "plan", file, err);
  if (file)
    fclose(file);
  return -1;
}

static int plan_work(void *context, struct err *err) {
  struct plan_call *call = context;
  struct experiment_options o;
  options_init(&o);
  int rc = read_options(&o, call->experiment, err);
  if (rc == 0) { /* with inputs to share, an experiment keeps to this thread and draws no progress */
    struct shared_inputs *shared = shared_inputs_new(NULL);
    rc = plan_lengths(call, &o, shared, err);
    shared_inputs_free(shared);
  }
  options_release(&o);
  return rc;
}

static struct dcpsim_schedule *plan(struct plan_call *call, char *error, size_t error_size) {
  return guarded(plan_work, call, error, error_size) < 0 ? NULL : call->schedule;
}

struct dcpsim_schedule *dcpsim_plan_tokens(const char *experiment, const uint32_t *tokens, size_t n, char *error,
                                           size_t error_size) {
  struct plan_call call = {.experiment = experiment, .frames = tokens, .n = n};
  return plan(&call, error, error_size);
}

struct dcpsim_schedule *dcpsim_plan_frames(const char *experiment, const uint32_t *frames, const uint32_t *positions,
                                           size_t n, char *error, size_t error_size) {
  struct plan_call call = {.experiment = experiment, .frames = frames, .positions = positions, .n = n};
  return plan(&call, error, error_size);
}

/* ---- Checking ---- */

struct check_call {
  const char *path;
  void (*finding)(void *context, const struct dcpsim_finding *f);
  void *context;
  int64_t findings;
};

static void hand_out(void *context, const struct schedule_finding *f) {
  struct check_call *call = context;
  struct dcpsim_finding out = {f->iteration, f->group, f->rule, f->message};
  if (call->finding)
    call->finding(call->context, &out);
}

static int check_work(void *context, struct err *err) {
  struct check_call *call = context;
  struct schedule_check summary;
  if (strcmp(call->path, "-") == 0)
    return err_set(err, "schedule '-': a library does not read the program's standard input");
  call->findings = schedule_check(call->path, &summary, hand_out, call, err);
  return call->findings < 0 ? -1 : 0;
}

int64_t dcpsim_check(const char *path, void (*finding)(void *context, const struct dcpsim_finding *f), void *context,
                     char *error, size_t error_size) {
  struct check_call call = {path, finding, context, 0};
  return guarded(check_work, &call, error, error_size) < 0 ? DCPSIM_ERROR : call.findings;
}
