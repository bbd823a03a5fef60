/* dcpsim check SCHEDULE */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/output.h"
#include "sim/base/units.h"
#include "sim/cli/cli.h"
#include "sim/plan/schedule.h"

#define MAX_PRINTED 1000 /* findings in the readable list; --json has them all */

struct kept_finding {
  int64_t iteration, group;
  const char *rule;
  char *message;
};

struct findings {
  struct kept_finding *v;
  size_t n, cap;
};

static void keep(void *context, const struct schedule_finding *f) {
  struct findings *all = context;
  struct kept_finding kept = {f->iteration, f->group, f->rule, xstrdup(f->message)};
  VEC_PUSH(all->v, all->n, all->cap, kept);
}

static void findings_release(struct findings *all) {
  for (size_t i = 0; i < all->n; i++)
    free(all->v[i].message);
  free(all->v);
}

static void key_index(struct json_writer *w, const char *key, int64_t index) {
  json_key(w, key);
  if (index < 0)
    json_put_null(w);
  else
    json_int(w, index);
}

static void print_json(FILE *out, const struct schedule_check *summary, const struct findings *all) {
  struct json_writer w = {.file = out, .indent = true};
  json_begin_object(&w);
  json_key_str(&w, "schema", "dcpsim.check_schedule/1");
  json_key_bool(&w, "ok", all->n == 0);
  json_key_int(&w, "iterations", summary->iterations);
  json_key_int(&w, "samples", summary->samples);
  json_key(&w, "findings");
  json_begin_array(&w);
  for (size_t i = 0; i < all->n; i++) {
    json_begin_object(&w);
    key_index(&w, "iteration", all->v[i].iteration);
    key_index(&w, "group", all->v[i].group);
    json_key_str(&w, "rule", all->v[i].rule);
    json_key_str(&w, "message", all->v[i].message);
    json_end_object(&w);
  }
  json_end_array(&w);
  json_end_object(&w);
  fputc('\n', out);
}

static void print_text(FILE *out, const struct schedule_check *summary, const struct findings *all) {
  for (size_t i = 0; i < all->n && i < MAX_PRINTED; i++) {
    const struct kept_finding *f = &all->v[i];
    if (f->iteration >= 0)
      fprintf(out, "iteration %" PRId64, f->iteration);
    if (f->group >= 0)
      fprintf(out, "%sgroup %" PRId64, f->iteration >= 0 ? ", " : "", f->group);
    fprintf(out, "%s%s: %s\n", f->iteration >= 0 || f->group >= 0 ? ": " : "", f->rule, f->message);
  }
  if (all->n > MAX_PRINTED)
    fprintf(out, "... and %zu more (--json lists all)\n", all->n - MAX_PRINTED);
  if (all->n > 0)
    fprintf(out, "not ok: %zu finding%s in ", all->n, all->n == 1 ? "" : "s");
  else
    fputs("ok: ", out);
  fprintf(out, "%" PRId64 " iterations, %" PRId64 " samples\n", summary->iterations, summary->samples);
}

/* 0 ok, 1 findings, -1 error. */
static int check(const char *path, bool json, struct err *err) {
  struct findings all = {0};
  struct schedule_check summary;
  struct output out;
  int status = schedule_check(path, &summary, keep, &all, err) < 0 ? -1 : output_open(&out, "-", err);
  if (status == 0) {
    (json ? print_json : print_text)(out.file, &summary, &all);
    status = output_commit(&out, err);
  }
  if (status == 0)
    status = all.n > 0;
  findings_release(&all);
  return status;
}

static void help(FILE *out) {
  fprintf(out,
          "usage: dcpsim check SCHEDULE [--json]\n\n"
          "Validates a schedule (dcpsim.schedule/1, JSON Lines, - for stdin) and lists every finding by rule:\n"
          "  header      keys and types; the model, cluster and parameters it names load and are unchanged\n"
          "  json        lines that cannot be parsed\n"
          "  format      keys, types and sizes inside an iteration\n"
          "  iteration   iterations are numbered 0, 1, 2, ...\n"
          "  coverage    scheduled, dropped, infeasible and overlong samples are disjoint and, unless the schedule is\n"
          "              partial, are all samples; the pieces of a split sample cover it once\n"
          "  ranks       groups are aligned powers of two, disjoint, within the cluster\n"
          "  shape       every sample fits the padded shape of its micro-batch\n"
          "  recompute   recomputed blocks are between none and all of the model's\n"
          "  memory      no micro-batch's peak is over the cap of the header\n"
          "  weights     micro-batch weights follow the header's rule and sum to 1 in each iteration (1e-9)\n"
          "  time        predicted times are not negative\n\n"
          "  --json      print dcpsim.check_schedule/1; an iteration or group of null: of the whole schedule\n\n"
          "Exit status: 0 without findings, 1 with findings or when the file cannot be read, 2 usage.\n"
          "The readable list ends after %d findings; --json has all.\n",
          MAX_PRINTED);
}

static int run(int argc, char **argv, struct err *err) {
  static const struct option options[] = {{"help", no_argument, NULL, 'h'}, {"json", no_argument, NULL, 'j'}, {0}};
  bool json = false;
  int code;
  while ((code = cli_option("check", argc, argv, ":h", options, err)) != -1) {
    if (code == 'h') {
      help(stdout);
      return 0;
    }
    if (code == '?')
      return -1;
    json = true;
  }
  if (argc - optind != 1)
    return err_usage(err, "check: expected one SCHEDULE, got %d (dcpsim check --help)", argc - optind);
  return check(argv[optind], json, err);
}

/* argv[0] is "check". */
int cmd_check(int argc, char **argv) {
  struct err err = {.set = false};
  int status = run(argc, argv, &err);
  if (status >= 0)
    return status;
  return cli_fail(&err);
}
