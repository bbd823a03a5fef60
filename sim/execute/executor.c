#include "sim/execute/execute.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/progress.h"
#include "sim/base/units.h"
#include "sim/execute/player.h"
#include "sim/execute/stand_in.h"
#include "sim/execute/virtual.h"

struct executor {
  struct player player;
  struct execute_options options;
  const struct model_actions *actions;
  struct execute_op *ops;
  size_t n_ops, ops_cap;
  int64_t step; /* from 1, for AdamW */
  struct virtual_clock clock;
  bool stands_in; /* the other ranks do not exist */
  /* Of the step being played. */
  const struct execute_step *in;
  struct timeline *timeline;
  int64_t start_ns, before_ns;         /* of the step; all steps before it, for spans */
  int32_t first_rank, sp, micro_batch; /* for spans */
  int64_t played;                      /* ops of this micro-batch */
  int64_t posted, joined;              /* stands_in: gradients ready, collectives waited for */
  /* What a watchdog's thread reads: executor_position. */
  _Atomic int64_t iteration, serial;
  _Atomic(const char *) op;
};

/* ---- measuring ---- */

static struct execute_op *op_entry(struct executor *x, const char *name, uint8_t category, bool waited) {
  char marked[64];
  bool backward = x->player.backward && category != TIMELINE_CAT_GRAD_SYNC;
  if (waited) {
    snprintf(marked, sizeof marked, "%s (waited)", name);
    name = marked;
  }
  for (size_t i = 0; i < x->n_ops; i++)
    if (x->ops[i].category == category && x->ops[i].backward == backward && strcmp(x->ops[i].name, name) == 0)
      return &x->ops[i];
  struct execute_op op = {
      .name = waited ? xstrdup(name) : name, .waited = waited, .category = category, .backward = backward};
  VEC_PUSH(x->ops, x->n_ops, x->ops_cap, op);
  return &x->ops[x->n_ops - 1];
}

static void measured(struct executor *x, const char *name, enum timeline_stream stream, uint8_t category,
                     double predicted_s, int64_t from_ns) {
  int64_t now = wall_clock_ns();
  struct execute_op *op = op_entry(x, name, category, x->stands_in && stream != TIMELINE_COMPUTE);
  op->count++;
  op->predicted_s += predicted_s;
  op->measured_s += s_from_ns(now - from_ns);
  if (x->timeline)
    timeline_add(x->timeline, (struct timeline_span){.start_ns = x->before_ns + from_ns - x->start_ns,
                                                     .end_ns = x->before_ns + now - x->start_ns,
                                                     .name = op->name,
                                                     .stream = (uint8_t)stream,
                                                     .category = category,
                                                     .iteration = (int32_t)x->in->iteration,
                                                     .first_rank = x->first_rank,
                                                     .sp = x->sp,
                                                     .micro_batch = x->micro_batch});
}

/* An operation failed: says where. */
static int failed(const struct executor *x, const char *op, struct err *err) {
  return err_prefix(err, "execute: rank %d, iteration %lld, %s", x->player.world->rank, (long long)x->in->iteration,
                    op);
}

static void enter(struct executor *x, const char *op) {
  x->op = op;
  x->serial++;
}

/* ---- one micro-batch ---- */

static const struct action *action_find(const struct model_actions *m, const char *name) {
  for (const struct action *const *table = m->actions; *table; table++)
    for (const struct action *a = *table; a->name; a++)
      if (strcmp(a->name, name) == 0)
        return a;
  return NULL;
}

static int run_action(struct executor *x, const struct op *op, double predicted_s, struct err *err) {
  if (x->options.is_virtual) {
    if (op->kind == OP_EXCHANGE)
      virtual_exchange(&x->clock, x->sp, predicted_s);
    else
      virtual_work(&x->clock, predicted_s);
    return 0;
  }
  if (x->stands_in && op->kind == OP_EXCHANGE)
    stand_in_expect(x->player.world, predicted_s);
  const struct action *action = action_find(x->actions, op->name);
  if (!action)
    return err_set(err, "nothing is known to do for this operation");
  return action->run(&x->player, err) || device_wait(x->player.device, NULL, err) ? -1 : 0;
}

static int play_op(struct executor *x, const struct op *op, struct err *err) {
  const double *predicted = x->player.mb->predicted_s;
  double predicted_s = predicted ? predicted[x->played] : s_from_ns(op->ns);
  bool exchange = op->kind == OP_EXCHANGE;
  uint8_t category = exchange ? TIMELINE_CAT_SP_EXCHANGE : op->kind == OP_HOST ? TIMELINE_CAT_HOST : op->category;
  int64_t from = wall_clock_ns();
  x->played++;
  enter(x, op->name);
  if (run_action(x, op, predicted_s, err))
    return failed(x, op->name, err);
  measured(x, op->name, exchange ? TIMELINE_EXCHANGE : TIMELINE_COMPUTE, category, predicted_s, from);
  return 0;
}

/* Seconds of the simulated collectives that start with this rank's next post. */
static double next_collectives_s(struct executor *x) {
  const struct execute_step *in = x->in;
  double seconds = 0;
  x->posted++;
  for (; x->joined < in->n_collectives && in->collectives[x->joined].after_post <= x->posted; x->joined++)
    seconds += in->collectives[x->joined].seconds;
  return seconds;
}

/* What a post means at this place: a range is gathered, or gradients are complete and are reduced. */
static int run_post(struct executor *x, bool gather, struct err *err) {
  struct player *p = &x->player;
  if (gather)
    return weights_gather(&p->weights, x->actions->gather_range(p), err);
  return weights_reduce(&p->weights, x->actions->range(p), err);
}

/* A post of the program: all ranks meet, if there is something to exchange. */
static int post(struct executor *x, const struct op *op, struct err *err) {
  struct player *p = &x->player;
  int64_t from = wall_clock_ns();
  if (x->options.is_virtual) {
    virtual_post(&x->clock, x->in);
    return 0;
  }
  double predicted_s = x->stands_in ? next_collectives_s(x) : 0;
  bool gather = op->collective == COLLECTIVE_ALL_GATHER;
  if (!gather && p->place == SECTION_TURN && p->weights.ranges[x->actions->range(p)].held)
    return 0; /* grows on, until the end */
  enter(x, op->name);
  if (x->stands_in)
    stand_in_expect(p->world, predicted_s);
  if (run_post(x, gather, err) || device_wait(p->device, NULL, err))
    return failed(x, op->name, err);
  p->gathered += gather;
  measured(x, op->name, TIMELINE_SYNC, TIMELINE_CAT_GRAD_SYNC, predicted_s, from);
  return 0;
}

/* Zero 3: where gradients are about to grow, there must be room. */
static int begin_grad(struct executor *x, struct err *err) {
  struct player *p = &x->player;
  int64_t from = wall_clock_ns();
  if (x->options.is_virtual || !p->weights.gathers || p->place < SECTION_TURN)
    return 0;
  int range = x->actions->range(p);
  if (p->weights.ranges[range].grad) /* of a held range, begun before */
    return 0;
  p->backward = true;
  enter(x, "gradient_clear");
  if (weights_begin_grad(&p->weights, range, err) || device_wait(p->device, NULL, err))
    return failed(x, "gradient_clear", err);
  measured(x, "gradient_clear", TIMELINE_COMPUTE, TIMELINE_CAT_COMPUTE, 0, from);
  return 0;
}

enum play { PLAY_OPS = 1, PLAY_POSTS = 2 };

static void place(struct player *p, const struct section *s, int repeat, int *backward_layer) {
  p->place = s->place;
  p->layer = -1;
  if (s->place == SECTION_FORWARD)
    p->layer = repeat;
  if (s->place == SECTION_BACKWARD)
    p->layer = --*backward_layer;
}

static int play_program(struct executor *x, const struct program *program, int what, struct err *err) {
  struct player *p = &x->player;
  int backward_layer = p->model->layers;
  p->gathered = 0;
  for (size_t i = 0; i < program->n_sections; i++) {
    const struct section *s = &program->sections[i];
    for (int repeat = 0; repeat < s->repeat; repeat++) {
      place(p, s, repeat, &backward_layer);
      if (begin_grad(x, err))
        return -1;
      for (int j = 0; j < s->n_ops; j++) {
        const struct op *op = &program->ops[s->first_op + j];
        p->op = op;
        if (op->kind != OP_EXCHANGE) /* an exchange goes the way of the operation before it */
          p->backward = s->place == SECTION_BACKWARD && op->category != TIMELINE_CAT_RECOMPUTE;
        if (op->kind != OP_POST && op->kind != OP_WAIT && what & PLAY_OPS && play_op(x, op, err))
          return -1;
        bool posted = (repeat + 1 == s->repeat ? op->last_bytes : op->bytes) >= 0;
        if (op->kind == OP_POST && what & PLAY_POSTS && posted && post(x, op, err))
          return -1;
        if (op->kind == OP_WAIT && what & PLAY_POSTS && x->options.is_virtual)
          virtual_wait(&x->clock, x->in, op->lag);
      }
    }
  }
  p->backward = false;
  return 0;
}

static int measure_micro_batch(struct executor *x, const struct execute_group *g, int i, struct err *err) {
  struct player *p = &x->player;
  p->mb = &g->micro_batches[i];
  return communicator_group(p->world, g->sp, 1, &p->group, err) || x->actions->measure(p, err) ? -1 : 0;
}

static int begin_micro_batch(struct executor *x, const struct execute_group *g, int i, struct err *err) {
  struct player *p = &x->player;
  return measure_micro_batch(x, g, i, err) || arena_fit(p, x->actions->lay_out, err) || x->actions->fill(p, err) ? -1
                                                                                                                 : 0;
}

static int play_micro_batch(struct executor *x, const struct execute_group *g, int i, bool last, struct err *err) {
  struct player *p = &x->player;
  p->mb = &g->micro_batches[i];
  x->micro_batch = i;
  x->first_rank = g->first_rank;
  x->sp = g->sp;
  x->played = 0;
  enter(x, "inputs");
  if (!x->options.is_virtual && begin_micro_batch(x, g, i, err))
    return failed(x, "inputs", err);
  return play_program(x, p->mb->program, PLAY_OPS | (last ? PLAY_POSTS : 0), err);
}

/* ---- a step ---- */

static bool is_in(const struct execute_group *g, int rank) {
  return g->first_rank <= rank && rank < g->first_rank + g->sp;
}

/* Takes part in what all ranks do, with nothing of its own: in the order that every program has. */
static int join(struct executor *x, struct err *err) {
  x->micro_batch = -1;
  x->first_rank = 0;
  x->sp = x->player.world->ranks;
  return play_program(x, x->in->groups[0].micro_batches[0].program, PLAY_POSTS, err);
}

/* Ranks meet in every micro-batch: a round has as many as its longest group, and who has fewer joins the others'. */
static int play_together(struct executor *x, struct err *err) {
  const struct execute_step *in = x->in;
  int rank = x->player.world->rank;
  for (int g = 0, end; g < in->n_groups; g = end) {
    const struct execute_group *mine = NULL;
    int most = 0;
    for (end = g; end < in->n_groups && in->groups[end].round == in->groups[g].round; end++) {
      most = in->groups[end].n_micro_batches > most ? in->groups[end].n_micro_batches : most;
      mine = is_in(&in->groups[end], rank) ? &in->groups[end] : mine;
    }
    for (int i = 0; i < most; i++)
      if (mine && i < mine->n_micro_batches ? play_micro_batch(x, mine, i, true, err) : join(x, err))
        return -1;
  }
  return 0;
}

/* Ranks meet once, in their last micro-batch. */
static int play_apart(struct executor *x, struct err *err) {
  const struct execute_step *in = x->in;
  int rank = x->player.world->rank, last = -1;
  for (int g = 0; g < in->n_groups; g++)
    last = is_in(&in->groups[g], rank) ? g : last;
  for (int g = 0; g <= last; g++)
    for (int i = 0; is_in(&in->groups[g], rank) && i < in->groups[g].n_micro_batches; i++)
      if (play_micro_batch(x, &in->groups[g], i, g == last && i + 1 == in->groups[g].n_micro_batches, err))
        return -1;
  return last < 0 && !x->options.is_virtual ? join(x, err) : 0; /* an idle rank */
}

static int play_groups(struct executor *x, struct err *err) {
  bool adds_up = x->options.zero < 3 && !x->options.is_virtual; /* real gradients, on their rank */
  return x->in->posts_every_micro_batch && !adds_up ? play_together(x, err) : play_apart(x, err);
}

int executor_needs(struct executor *x, const struct execute_step *step, int64_t *bytes, struct err *err) {
  int64_t most = 0;
  for (int g = 0; g < step->n_groups; g++)
    for (int i = 0; is_in(&step->groups[g], x->player.world->rank) && i < step->groups[g].n_micro_batches; i++) {
      if (measure_micro_batch(x, &step->groups[g], i, err))
        return err_prefix(err, "execute: rank %d, iteration %lld", x->player.world->rank, (long long)step->iteration);
      most = int64_max(most, (int64_t)arena_needs(&x->player, x->actions->lay_out));
    }
  *bytes = x->player.weights.bytes + most;
  return 0;
}

static int tail_op(struct executor *x, const struct op *op, double predicted_s, struct execute_result *r,
                   struct err *err) {
  struct weights *w = &x->player.weights;
  bool update = x->options.learning_rate > 0;
  const char *name = op->name;
  if (x->options.is_virtual) {
    if (op->kind == OP_POST)
      virtual_exchange(&x->clock, x->player.world->ranks, predicted_s);
    else
      virtual_work(&x->clock, predicted_s);
    return 0;
  }
  if (strcmp(name, "grad_norm") == 0)
    return weights_norm(w, &r->grad_norm, err);
  if (strcmp(name, "optimizer") == 0)
    return update ? weights_update(w, &x->options, x->step, err) : 0;
  if (strcmp(name, "param_gather") == 0)
    return update ? weights_gather_all(w, err) : 0;
  return err_set(err, "nothing is known to do for this operation");
}

static int play_tail(struct executor *x, struct execute_result *r, struct err *err) {
  const struct program *tail = x->in->tail;
  x->micro_batch = -1;
  x->first_rank = 0;
  x->sp = x->player.world->ranks;
  if (x->options.is_virtual) {
    virtual_join_rest(&x->clock, x->in);
    virtual_wait(&x->clock, x->in, 0);
  }
  for (size_t i = 0; i < tail->n_ops; i++) {
    const struct op *op = &tail->ops[i];
    int64_t from = wall_clock_ns();
    if (op->kind == OP_WAIT)
      continue;
    enter(x, op->name);
    if (x->stands_in)
      stand_in_expect(x->player.world, op->kind == OP_POST ? x->in->tail_s[i] : 0);
    if (tail_op(x, op, x->in->tail_s[i], r, err) || device_wait(x->player.device, NULL, err))
      return failed(x, op->name, err);
    bool post = op->kind == OP_POST;
    measured(x, op->name, post ? TIMELINE_SYNC : TIMELINE_COMPUTE, post ? TIMELINE_CAT_GRAD_SYNC : op->category,
             x->in->tail_s[i], from);
  }
  if (!isfinite(r->grad_norm)) {
    err_set(err, "the norm of the gradient is not a number");
    return failed(x, "grad_norm", err);
  }
  return 0;
}

static int barrier(struct executor *x, struct err *err) {
  struct communicator_call call = {.op = COMMUNICATOR_BARRIER};
  return communicator_run(x->player.world, &call, err) || device_wait(x->player.device, NULL, err) ? -1 : 0;
}

/* The loss of all ranks' rows. */
static int sum_loss(struct executor *x, double *loss, struct err *err) {
  struct weights *w = &x->player.weights;
  float value = (float)x->player.loss;
  struct communicator_call all = {
      .op = COMMUNICATOR_ALL_REDUCE, .element = ELEMENT_FP32, .send = w->scalar, .recv = w->scalar, .count = 1};
  if (device_copy(x->player.device, w->scalar, &value, sizeof value, err) ||
      communicator_run(x->player.world, &all, err) ||
      device_copy(x->player.device, &value, w->scalar, sizeof value, err))
    return -1;
  *loss = value;
  return 0;
}

static int start(struct executor *x, struct err *err) {
  enter(x, "start");
  if (x->options.is_virtual) {
    virtual_start(&x->clock);
    return 0;
  }
  return weights_clear(&x->player.weights, err) || barrier(x, err) ? failed(x, "start", err) : 0;
}

static int end(struct executor *x, struct execute_result *r, struct err *err) {
  enter(x, "end");
  if (x->options.is_virtual) {
    r->step_s = virtual_elapsed_s(&x->clock);
    return 0;
  }
  if (barrier(x, err))
    return failed(x, "end", err);
  r->step_s = s_from_ns(wall_clock_ns() - x->start_ns);
  return sum_loss(x, &r->loss, err) ? failed(x, "loss", err) : 0;
}

int executor_step(struct executor *x, const struct execute_step *step, struct timeline *timeline,
                  struct execute_result *result, struct err *err) {
  *result = (struct execute_result){0};
  x->in = step;
  x->iteration = step->iteration;
  x->timeline = timeline;
  x->player.loss = 0;
  x->posted = x->joined = 0;
  x->step++;
  if (start(x, err))
    return -1;
  x->start_ns = wall_clock_ns();
  if (play_groups(x, err) || play_tail(x, result, err) || end(x, result, err))
    return -1;
  x->before_ns += ns_from_s(result->step_s);
  return 0;
}

/* ---- the whole ---- */

struct communicator *execute_stand_in(struct device *device, int rank, int ranks) {
  return stand_in_open(device, rank, ranks);
}

static int weights_failed(const struct communicator *world, struct err *err) {
  return err_prefix(err, "execute: rank %d, weights, gradients and optimizer", world->rank);
}

int executor_open(struct executor **out, const struct transformer *model, const struct execute_options *options,
                  struct communicator *world, struct err *err) {
  struct executor *x = xcalloc(1, sizeof *x);
  x->options = *options;
  x->actions = model->is_2d ? &model_2d : &model_1d;
  x->stands_in = stand_in_is(world);
  x->player = (struct player){.model = model, .options = &x->options, .device = world->device, .world = world};
  int rc = options->is_virtual ? virtual_open(&x->clock, world->rank, world->ranks, err)
                               : x->actions->build(&x->player, err);
  if (rc == 0 && !options->is_virtual && weights_allocate(&x->player.weights, world, options, err))
    rc = weights_failed(world, err);
  if (rc) {
    executor_close(x);
    return -1;
  }
  *out = x;
  return 0;
}

int executor_start(struct executor *x, struct err *err) {
  if (x->options.is_virtual || weights_start(&x->player.weights, x->options.seed, err) == 0)
    return 0;
  return weights_failed(x->player.world, err);
}

void executor_close(struct executor *x) {
  if (!x)
    return;
  if (x->player.device)
    device_resize(x->player.device, &x->player.arena.memory, 0, NULL);
  x->actions->release(&x->player);
  weights_release(&x->player.weights);
  virtual_close(&x->clock);
  for (size_t i = 0; i < x->n_ops; i++)
    if (x->ops[i].waited)
      free((char *)x->ops[i].name);
  free(x->ops);
  free(x);
}

const struct execute_op *executor_ops(const struct executor *x, int *n) {
  *n = (int)x->n_ops;
  return x->ops;
}

struct execute_position executor_position(const struct executor *x) {
  const char *op = x->op;
  return (struct execute_position){x->iteration, x->serial, op ? op : "start"};
}

int64_t executor_peak_bytes(const struct executor *x) {
  return x->player.weights.bytes + (int64_t)x->player.arena.capacity;
}

int executor_tensors(const struct executor *x) { return (int)x->player.weights.n_tensors; }

const char *executor_tensor(const struct executor *x, int i, int64_t *n) {
  const struct tensor *t = &x->player.weights.tensors[i];
  *n = t->n;
  return t->name;
}

/* fp32 numbers of a tensor from this rank's shards of its range: gathered where there are several. */
static int gather_fp32(struct executor *x, int i, const void *state, float *out, struct err *err) {
  struct weights *w = &x->player.weights;
  const struct tensor *t = &w->tensors[i];
  const struct range *r = &w->ranges[t->range];
  int64_t first = t->offset - r->offset;
  void *all = NULL;
  if (w->sharding.shards->ranks == 1)
    return device_copy(w->device, out, (const float *)state + r->state_offset + first, (size_t)t->n * sizeof *out, err);
  struct communicator_call call = {.op = COMMUNICATOR_ALL_GATHER,
                                   .element = ELEMENT_FP32,
                                   .send = (const float *)state + r->state_offset,
                                   .count = r->shard};
  int rc = device_resize(w->device, &all, (size_t)r->n * sizeof *out, err);
  call.recv = all;
  if (rc == 0)
    rc = communicator_run(w->sharding.shards, &call, err) ||
         device_copy(w->device, out, (const float *)all + first, (size_t)t->n * sizeof *out, err);
  device_resize(w->device, &all, 0, NULL);
  return rc ? -1 : 0;
}

int executor_gradient(struct executor *x, int i, float *out, struct err *err) {
  return gather_fp32(x, i, x->player.weights.shard_grad, out, err);
}

int executor_weight(struct executor *x, int i, float *out, struct err *err) {
  return gather_fp32(x, i, x->player.weights.master, out, err);
}
