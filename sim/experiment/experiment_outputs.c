/* experiment_outputs.c: the files that a simulation writes per policy; they appear together, at the end. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/experiment.h"

#define PLACE "{policy}"
#define TIMELINE_SPANS 200000 /* as many as a viewer handles with ease */

/* The name with {policy} replaced; caller frees. */
static char *name_for(const char *pattern, const char *policy) {
  const char *at = strstr(pattern, PLACE);
  size_t size = strlen(pattern) + strlen(policy) + 1;
  char *name = xmalloc(size);
  if (at)
    snprintf(name, size, "%.*s%s%s", (int)(at - pattern), pattern, policy, at + strlen(PLACE));
  else
    snprintf(name, size, "%s", pattern);
  return name;
}

static int check_pattern(const struct experiment *x, const char *option, const char *pattern, struct err *err) {
  if (!pattern || x->n_policies == 1 || strstr(pattern, PLACE))
    return 0;
  return err_usage(err, "%s '%s': with %d policies the name must contain %s", option, pattern, x->n_policies, PLACE);
}

/* Tries to create what timeline_write will create later. */
static int check_writable(const char *path, struct err *err) {
  struct output out;
  if (output_open(&out, path, err) < 0)
    return -1;
  output_discard(&out);
  return 0;
}

static int open_chakra(const struct experiment *x, struct experiment_outputs *out, const char *policy,
                       struct err *err) {
  char *path = name_for(x->options.chakra, policy);
  out->want_chakra = true;
  int rc = output_folder_open(&out->chakra, path, chakra_step_files(&x->system), err);
  free(path);
  return rc;
}

int experiment_outputs_open(const struct experiment *x, struct experiment_outputs *outputs, struct err *err) {
  const struct experiment_options *o = &x->options;
  if (check_pattern(x, "--schedule", o->schedule, err) < 0 || check_pattern(x, "--timeline", o->timeline, err) < 0 ||
      check_pattern(x, "--chakra", o->chakra, err) < 0)
    return -1;
  for (int i = 0; i < x->n_policies; i++) {
    struct experiment_outputs *out = &outputs[i];
    const char *policy = x->policies[i]->name;
    out->want_explain = o->explain;
    if (o->schedule) {
      out->schedule_path = name_for(o->schedule, policy);
      if (schedule_writer_open(&out->schedule, out->schedule_path, err) < 0)
        return -1;
    }
    if (o->timeline) {
      out->timeline_path = name_for(o->timeline, policy);
      if (strcmp(out->timeline_path, "-") != 0 && check_writable(out->timeline_path, err) < 0)
        return -1;
      out->timeline.limit = TIMELINE_SPANS;
      snprintf(out->timeline.policy, sizeof out->timeline.policy, "%s", policy);
      snprintf(out->timeline.run, sizeof out->timeline.run, "%s on %s, %s", x->trace.name, x->model.name,
               x->cluster.name);
    }
    if (o->chakra && open_chakra(x, out, policy, err) < 0)
      return -1;
  }
  return 0;
}

static int commit_schedule(const struct experiment *x, struct experiment_outputs *out, struct err *err) {
  struct schedule_writer *w = out->schedule;
  out->schedule = NULL; /* closed by commit, whatever happens */
  return schedule_writer_commit(w, &out->header,
                                (struct schedule_ids){out->dropped, out->dropped_offsets, out->n_dropped},
                                (struct schedule_ids){out->infeasible, out->infeasible_offsets, out->n_infeasible},
                                (struct schedule_ids){x->overlong_ids, NULL, x->samples_overlong}, err);
}

int experiment_outputs_commit(const struct experiment *x, struct experiment_outputs *outputs, struct err *err) {
  for (int i = 0; i < x->n_policies; i++) {
    if (outputs[i].schedule && commit_schedule(x, &outputs[i], err) < 0)
      return -1;
    if (outputs[i].timeline_path && timeline_write(&outputs[i].timeline, outputs[i].timeline_path, err) < 0)
      return -1;
    if (outputs[i].chakra_summary.ranks > 0 && output_folder_commit(&outputs[i].chakra, err) < 0)
      return -1;
  }
  return 0;
}

void experiment_outputs_release(const struct experiment *x, struct experiment_outputs *outputs) {
  for (int i = 0; i < x->n_policies; i++) {
    struct experiment_outputs *out = &outputs[i];
    schedule_writer_discard(out->schedule);
    timeline_release(&out->timeline);
    output_folder_discard(&out->chakra);
    explain_release(&out->explain);
    free(out->schedule_path);
    free(out->timeline_path);
    free(out->dropped);
    free(out->dropped_offsets);
    free(out->infeasible);
    free(out->infeasible_offsets);
    *out = (struct experiment_outputs){0};
  }
}
