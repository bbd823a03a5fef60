/* What a step may take at the most. Times come from parameters, models and lengths of the outside world, so more is an
 * error and not our mistake; what is within these limits cannot overflow the clock. */
#include "sim/base/err.h"
#include "sim/base/number_text.h"
#include "sim/base/units.h"
#include "sim/engine/step_state.h"
#include "sim/plan/program_time.h"

_Static_assert(OP_MAX_NS < MAX_WORK_NS, "classes count an op's work");

int64_t step_max_ns(const struct system *s) { return INT64_MAX / 4 / system_world(s); }

int step_overlong(const struct system *s, double seconds, struct err *err) {
  return err_set(err, "a step takes over %s with parameters '%s': more than the %s that one on %d GPUs may",
                 duration_text(seconds).text, params_name(s->params), duration_text(s_from_ns(step_max_ns(s))).text,
                 system_world(s));
}

double step_slowest_factor(const struct system *s, const struct step_input *in) {
  double f = 1;
  for (int r = 0; in->factors && r < system_world(s); r++)
    f = r == 0 || in->factors[r] > f ? in->factors[r] : f;
  return f;
}

static int check_program(const struct engine *e, const struct program *p, double factor, struct err *err) {
  const char *params = params_name(e->system->params);
  const struct op *op = &p->ops[p->longest];
  if (program_check(p, params, err) < 0)
    return -1;
  if ((double)op->ns * factor <= (double)OP_MAX_NS)
    return 0;
  return err_set(err,
                 "one %s takes %s on a rank slowed by a factor of %.3g, with parameters '%s': more than the hour "
                 "that an operation may",
                 op->name, duration_text(s_from_ns(op->ns) * factor).text, factor, params);
}

int step_check_collectives(struct engine *e, struct err *err) {
  for (size_t i = 0; i < e->tail.n_ops && !e->tail_checked; i++)
    if (e->tail.ops[i].kind == OP_POST &&
        collectives_check(e->system, e->tail.ops[i].collective, e->tail.ops[i].bytes, err) < 0)
      return -1;
  e->tail_checked = true;
  for (size_t i = 0; i < e->collectives.n && !e->collectives_checked; i++)
    if (collectives_check(e->system, e->collectives.v[i].kind, e->collectives.v[i].bytes, err) < 0)
      return -1;
  e->collectives_checked = e->have_collectives;
  return 0;
}

int step_check(struct engine *e, const struct step_input *in, struct err *err) {
  double slowest = step_slowest_factor(e->system, in), factor = slowest > 1 ? slowest : 1;
  double total_ns = 0, round_ns = 0;
  int round = 0;
  if (check_program(e, &e->tail, factor, err) < 0 || step_check_collectives(e, err) < 0)
    return -1;
  for (int i = 0; i < in->n_groups; i++) {
    const struct step_group *g = &in->groups[i];
    double group_ns = 0;
    for (int m = 0; m < g->n_micro_batches; m++) {
      if (check_program(e, g->programs[m], factor, err) < 0)
        return -1;
      group_ns += (double)g->programs[m]->cold.time_ns * factor;
    }
    if (g->round != round)
      round_ns = 0;
    round = g->round;
    total_ns += group_ns > round_ns ? group_ns - round_ns : 0; /* the longest of each round */
    round_ns = group_ns > round_ns ? group_ns : round_ns;
  }
  return total_ns <= (double)step_max_ns(e->system) ? 0 : step_overlong(e->system, total_ns * 1e-9, err);
}
