/* exchange_2d.c: between a rank's positions of all frames and its frames of all positions. Part j of the buffer that
 * rank i sends holds i's positions of j's frames, or back; all parts are equally large, what is missing is zero. */
#include "sim/base/units.h"
#include "sim/execute/state_2d.h"

/* `count` copies of `rows` rows, by row numbers. */
struct row_copy {
  int64_t count, rows;
  int64_t at, step;           /* in the rows */
  int64_t part_at, part_step; /* in the buffer */
};

static int copy_rows(struct player *p, const struct row_copy *c, void *rows, void *buffer, bool unpack,
                     struct err *err) {
  const int64_t h = p->model->hidden;
  void *here = element_at(p, rows, c->at * h), *there = element_at(p, buffer, c->part_at * h);
  struct copy_call call = {.extent = {c->count, 1, 1}, .width = c->rows * h};
  call.src = unpack ? there : here;
  call.dst = unpack ? here : there;
  call.src_stride[0] = h * (unpack ? c->part_step : c->step);
  call.dst_stride[0] = h * (unpack ? c->step : c->part_step);
  return c->count > 0 && c->rows > 0 ? run_copy(p, call, err) : 0;
}

static int64_t between(int64_t low, int64_t x, int64_t high) { return int64_max(low, int64_min(x, high)); }

/* This rank's positions of rank j's frames. */
static struct row_copy local_part(const struct state_2d *s, const struct run *r, int64_t j) {
  struct row_copy c = {.part_at = j * s->part_rows + r->part_at};
  if (r->frames_each == 0) { /* images */
    c.count = 1;
    c.rows = between(0, r->count - j * r->units, r->units) * r->local;
    c.at = r->local_at + j * r->units * r->local;
    return c;
  }
  c.count = r->count;
  c.rows = between(0, r->frames - j * r->frames_each, r->frames_each) * r->local;
  c.at = r->local_at + j * r->frames_each * r->local;
  c.step = r->frames * r->local;
  c.part_step = r->frames_each * r->local;
  return c;
}

/* Rank j's positions of this rank's frames. */
static struct row_copy frames_part(const struct state_2d *s, const struct run *r, int64_t j) {
  return (struct row_copy){.count = r->units,
                           .rows = between(0, r->positions - j * r->local, r->local),
                           .at = r->frames_at + j * r->local,
                           .step = r->positions,
                           .part_at = j * s->part_rows + r->part_at,
                           .part_step = r->local};
}

static int copy_side(struct player *p, bool local, void *rows, void *buffer, bool unpack, struct err *err) {
  const struct state_2d *s = state_2d(p);
  for (int64_t j = 0; j < p->group->ranks; j++)
    for (size_t i = 0; i < s->n_runs; i++) {
      struct row_copy c = local ? local_part(s, &s->runs[i], j) : frames_part(s, &s->runs[i], j);
      if (copy_rows(p, &c, rows, buffer, unpack, err))
        return -1;
    }
  return 0;
}

int exchange_2d_pack(struct player *p, bool to_frames, void *from, struct err *err) {
  struct state_2d *s = state_2d(p);
  int64_t n = s->part_rows * p->group->ranks * p->model->hidden;
  return (s->uneven && clear_elements(p, s->send, n, err)) || copy_side(p, to_frames, from, s->send, false, err) ? -1
                                                                                                                 : 0;
}

int exchange_2d_run(struct player *p, struct err *err) {
  struct state_2d *s = state_2d(p);
  return run_exchange(p, p->group, s->send, s->recv, s->part_rows * p->model->hidden, err);
}

int exchange_2d_unpack(struct player *p, bool to_frames, void *into, struct err *err) {
  return copy_side(p, !to_frames, into, state_2d(p)->recv, true, err);
}
