#include "sim/plan/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/base/number_text.h"
#include "sim/base/units.h"

void program_release(struct program *p) {
  free(p->ops);
  free(p->sections);
  *p = (struct program){0};
}

void program_begin_section(struct program *p, enum section_place place, int repeat) {
  struct section s = {(int)p->n_ops, 0, repeat, (uint8_t)place};
  VEC_PUSH(p->sections, p->n_sections, p->sections_cap, s);
}

struct op *program_add(struct program *p, enum op_kind kind, const char *name) {
  struct op op = {.name = name, .kind = (uint8_t)kind, .category = TIMELINE_CAT_COMPUTE, .kernels = 1};
  VEC_PUSH(p->ops, p->n_ops, p->ops_cap, op);
  p->sections[p->n_sections - 1].n_ops++;
  return &p->ops[p->n_ops - 1];
}

void program_set_time(struct program *p, struct op *op, double seconds) {
  if (seconds <= s_from_ns(OP_MAX_NS)) {
    op->ns = seconds < 1e-6 ? (int64_t)ceil(seconds * 1e9) : ns_from_s(seconds);
    return;
  }
  op->ns = OP_MAX_NS;
  if (!p->overlong) {
    p->overlong = op->name;
    p->overlong_s = seconds;
  }
}

int program_check(const struct program *p, const char *params_name, struct err *err) {
  if (!p->overlong)
    return 0;
  char what[120] = "the step's end"; /* its tail has no tokens */
  if (p->padded_work[WORK_TOKENS] > 0)
    snprintf(what, sizeof what, "a micro-batch of %.0f tokens at SP %d", p->padded_work[WORK_TOKENS], p->sp);
  if (!*p->overlong)
    return err_set(err, "%s takes %s with parameters '%s': more than the %s that it may", what,
                   duration_text(p->overlong_s).text, params_name, duration_text(s_from_ns(PROGRAM_MAX_NS)).text);
  return err_set(err, "one %s of %s takes %s with parameters '%s': more than the hour that an operation may",
                 p->overlong, what, duration_text(p->overlong_s).text, params_name);
}

int64_t program_op_count(const struct program *p) {
  int64_t n = 0;
  for (size_t i = 0; i < p->n_sections; i++)
    n += (int64_t)p->sections[i].n_ops * p->sections[i].repeat;
  return n;
}
