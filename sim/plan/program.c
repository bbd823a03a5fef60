#include "sim/plan/program.h"

#include <stdlib.h>

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

int64_t program_op_count(const struct program *p) {
  int64_t n = 0;
  for (size_t i = 0; i < p->n_sections; i++)
    n += (int64_t)p->sections[i].n_ops * p->sections[i].repeat;
  return n;
}
