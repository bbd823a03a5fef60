#include "sim/execute/weights.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/rng.h"
#include "sim/base/units.h"

#define ALIGN 64      /* numbers: tensors begin on 256 bytes */
#define INIT_STD 0.02 /* as GPT-2 */

int weights_add_range(struct weights *w, bool held) {
  struct range r = {.offset = w->n, .held = held};
  VEC_PUSH(w->ranges, w->n_ranges, w->ranges_cap, r);
  return (int)w->n_ranges - 1;
}

int weights_add(struct weights *w, int64_t n, const char *fmt, ...) {
  struct tensor t = {.range = (int)w->n_ranges - 1, .offset = w->n, .n = n};
  struct range *r = &w->ranges[t.range];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(t.name, sizeof t.name, fmt, ap);
  va_end(ap);
  w->n += ceil_div(n, ALIGN) * ALIGN;
  r->n = w->n - r->offset;
  VEC_PUSH(w->tensors, w->n_tensors, w->tensors_cap, t);
  return (int)w->n_tensors - 1;
}

/* Ranges padded to equal shards, one after another; tensors move along. */
static void place(struct weights *w) {
  int64_t at = 0, shards = w->sharding.shards->ranks, unit = shards * ALIGN;
  for (size_t i = 0, t = 0; i < w->n_ranges; i++) {
    struct range *r = &w->ranges[i];
    for (; t < w->n_tensors && w->tensors[t].range == (int)i; t++)
      w->tensors[t].offset += at - r->offset;
    r->offset = at;
    r->n = ceil_div(r->n, unit) * unit;
    r->shard = r->n / shards;
    r->state_offset = w->n_state;
    at += r->n;
    w->n_state += r->shard;
  }
  w->n = at;
}

static int allocate(struct weights *w, void **memory, int64_t n, size_t size, struct err *err) {
  w->bytes += n * (int64_t)size;
  return device_resize(w->device, memory, size_mul((size_t)n, size), err);
}

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), m = strlen(end);
  return n >= m && strcmp(name + n - m, end) == 0;
}

static void *element_of(const struct weights *w, void *elements, int64_t i) {
  return (char *)elements + (size_t)i * element_bytes(w->device->kind->element);
}

static int my_shard(const struct weights *w) { return w->sharding.shards->rank; }

/* Norm weights are 1, biases 0, everything else normal; a stream per tensor, so that its values depend on nothing else.
 */
static void draw(const struct weights *w, int range, uint64_t seed, float *host) {
  const struct range *r = &w->ranges[range];
  memset(host, 0, (size_t)r->n * sizeof *host);
  for (size_t i = 0; i < w->n_tensors; i++) {
    const struct tensor *t = &w->tensors[i];
    if (t->range != range)
      continue;
    bool norm = ends_with(t->name, "norm"), bias = ends_with(t->name, "bias");
    struct rng rng;
    rng_init(&rng, seed, t->name);
    for (int64_t j = 0; j < t->n; j++)
      host[t->offset - r->offset + j] = (float)(norm ? 1 : bias ? 0 : INIT_STD * rng_gaussian(&rng));
    rng_release(&rng);
  }
}

/* A stand-in gathers this rank's part alone, around which there must be numbers, too: something's weights. */
static int fill_whole(struct weights *w, const struct range *r, const float *host, struct err *err) {
  size_t n = (size_t)r->n;
  if (r->held)
    return device_upload(w->device, w->whole, host, n, err);
  return device_upload(w->device, element_of(w, w->whole, w->n_held), host, n, err) ||
                 device_upload(w->device, element_of(w, w->whole, w->n_held + w->n_pair - r->n), host, n, err)
             ? -1
             : 0;
}

static int fill(struct weights *w, uint64_t seed, struct err *err) {
  int64_t largest = 0;
  int rc = 0;
  for (size_t i = 0; i < w->n_ranges; i++)
    largest = int64_max(largest, w->ranges[i].n);
  float *host = xcalloc((size_t)largest, sizeof *host);
  for (size_t i = 0; rc == 0 && i < w->n_ranges; i++) {
    const struct range *r = &w->ranges[i];
    const float *mine = host + my_shard(w) * r->shard;
    size_t shard = (size_t)r->shard;
    draw(w, (int)i, seed, host);
    rc =
        device_copy(w->device, (float *)w->master + r->state_offset, mine, shard * sizeof *host, err) ||
                (w->gathers ? device_upload(w->device, element_of(w, w->elements, r->state_offset), mine, shard, err) ||
                                  fill_whole(w, r, host, err)
                            : device_upload(w->device, r->elements, host, (size_t)r->n, err))
            ? -1
            : 0;
  }
  free(host);
  return rc;
}

static int clear(struct weights *w, void *x, int64_t n, struct err *err) {
  struct operator_call call = {.kind = OPERATOR_CLEAR, .clear = {n, x}};
  return device_run(w->device, &call, err);
}

/* Zero 3: what is whole at a time. The forward gathers ranges in their order, one ahead, the backward back again. */
static void measure_whole(struct weights *w) {
  w->latest = -1;
  for (size_t i = 0; i < w->n_ranges; i++) {
    const struct range *r = &w->ranges[i];
    bool next = i + 1 < w->n_ranges && !r[1].held;
    ASSERT(!r->held || w->n_held == 0);
    if (r->held)
      w->n_held = r->n;
    else
      w->n_pair = int64_max(w->n_pair, r->n + (next ? r[1].n : 0));
  }
}

/* Elements and gradients; zero 3: shards of them, and what is whole at a time. */
static int allocate_whole(struct weights *w, struct err *err) {
  const size_t fp32 = sizeof(float), element = element_bytes(w->device->kind->element);
  int64_t n_grad = 0;
  if (w->gathers) {
    measure_whole(w);
    for (size_t i = 0; i < w->n_ranges; i++)
      n_grad = w->ranges[i].held ? n_grad : int64_max(n_grad, w->ranges[i].n);
    return allocate(w, &w->elements, w->n_state, element, err) ||
                   allocate(w, &w->whole, w->n_held + w->n_pair, element, err) ||
                   allocate(w, &w->grad, w->n_held + n_grad, fp32, err)
               ? -1
               : 0;
  }
  if (allocate(w, &w->elements, w->n, element, err) || allocate(w, &w->grad, w->n, fp32, err))
    return -1;
  for (size_t i = 0; i < w->n_ranges; i++) {
    w->ranges[i].elements = element_of(w, w->elements, w->ranges[i].offset);
    w->ranges[i].grad = (float *)w->grad + w->ranges[i].offset;
  }
  return 0;
}

/* Within a node: as many copies as nodes. Zero 0: every rank has one. */
static int share(struct sharding *s, struct communicator *world, const struct execute_options *o, struct err *err) {
  int shards = o->zero == 0 ? 1 : o->shard_ranks == 0 ? world->ranks : o->shard_ranks, copies = world->ranks / shards;
  ASSERT(copies * shards == world->ranks);
  return communicator_group(world, shards, 1, &s->shards, err) ||
                 (copies > 1 && communicator_group(world, copies, shards, &s->replicas, err))
             ? -1
             : 0;
}

int weights_allocate(struct weights *w, struct communicator *world, const struct execute_options *options,
                     struct err *err) {
  const size_t fp32 = sizeof(float), element = element_bytes(world->device->kind->element);
  int64_t largest = 0;
  w->device = world->device;
  w->gathers = options->zero == 3;
  if (share(&w->sharding, world, options, err))
    return -1;
  bool several = w->sharding.shards->ranks > 1;
  place(w);
  for (size_t i = 0; i < w->n_ranges; i++)
    largest = int64_max(largest, w->ranges[i].shard);
  if (allocate_whole(w, err) || ((several || w->gathers) && allocate(w, &w->shard_grad, w->n_state, fp32, err)) ||
      (several && !w->gathers && allocate(w, &w->send, largest, element, err)) ||
      allocate(w, &w->master, w->n_state, fp32, err) || allocate(w, &w->m, w->n_state, fp32, err) ||
      allocate(w, &w->v, w->n_state, fp32, err) || allocate(w, &w->scalar, 1, fp32, err))
    return -1;
  if (!w->shard_grad)
    w->shard_grad = w->grad;
  return 0;
}

int weights_start(struct weights *w, uint64_t seed, struct err *err) {
  return fill(w, seed, err) || clear(w, w->m, w->n_state, err) || clear(w, w->v, w->n_state, err) ||
                 weights_clear(w, err)
             ? -1
             : 0;
}

void weights_release(struct weights *w) {
  if (w->shard_grad == w->grad)
    w->shard_grad = NULL;
  void **all[] = {&w->elements, &w->grad, &w->shard_grad, &w->master, &w->m, &w->v, &w->send, &w->scalar, &w->whole};
  for (size_t i = 0; w->device && i < sizeof all / sizeof *all; i++)
    device_resize(w->device, all[i], 0, NULL);
  free(w->tensors);
  free(w->ranges);
  *w = (struct weights){0};
}

void *weights_elements(const struct weights *w, int tensor) {
  const struct tensor *t = &w->tensors[tensor];
  const struct range *r = &w->ranges[t->range];
  ASSERT(r->elements);
  return element_of(w, r->elements, t->offset - r->offset);
}

void *weights_grad(const struct weights *w, int tensor) {
  const struct tensor *t = &w->tensors[tensor];
  const struct range *r = &w->ranges[t->range];
  ASSERT(r->grad);
  return (float *)r->grad + (t->offset - r->offset);
}

int weights_clear(struct weights *w, struct err *err) {
  for (size_t i = 0; i < w->n_ranges; i++) {
    w->ranges[i].reduced = false;
    if (w->gathers) /* updated since */
      w->ranges[i].elements = w->ranges[i].grad = NULL;
  }
  return w->gathers ? clear(w, w->shard_grad, w->n_state, err) : clear(w, w->grad, w->n, err);
}

int weights_reduce(struct weights *w, int range, struct err *err) {
  struct range *r = &w->ranges[range];
  const struct sharding *s = &w->sharding;
  float *shard = (float *)w->shard_grad + r->state_offset;
  struct communicator_call scatter = {
      .op = COMMUNICATOR_REDUCE_SCATTER, .element = ELEMENT_FP32, .send = r->grad, .recv = shard, .count = r->shard};
  struct communicator_call sum = {
      .op = COMMUNICATOR_ALL_REDUCE, .element = ELEMENT_FP32, .send = shard, .recv = shard, .count = r->shard};
  ASSERT(r->grad && !r->reduced);
  r->reduced = !w->gathers;
  if (w->gathers)
    r->grad = NULL;
  return (w->shard_grad != w->grad && communicator_run(s->shards, &scatter, err)) ||
                 (s->replicas && communicator_run(s->replicas, &sum, err))
             ? -1
             : 0;
}

/* Starts with what the shard of this rank has summed in earlier micro-batches, so that reducing adds to it; of its
 * replicas, which have all summed the same, one does. */
int weights_begin_grad(struct weights *w, int range, struct err *err) {
  struct range *r = &w->ranges[range];
  for (size_t i = 0; i < w->n_ranges; i++)
    ASSERT(!w->ranges[i].grad || (w->ranges[i].held && !r->held));
  r->grad = (float *)w->grad + (r->held ? 0 : w->n_held);
  if (clear(w, r->grad, r->n, err))
    return -1;
  if (w->sharding.replicas && w->sharding.replicas->rank > 0)
    return 0;
  return device_copy(w->device, (float *)r->grad + my_shard(w) * r->shard, (float *)w->shard_grad + r->state_offset,
                     (size_t)r->shard * sizeof(float), err);
}

/* The end of the pair's memory that the range gathered before does not use; ranges that lay there are whole no longer.
 * One that is still whole stays where it is. */
static void *place_whole(struct weights *w, int range) {
  struct range *r = &w->ranges[range];
  const struct range *before = w->latest >= 0 ? &w->ranges[w->latest] : NULL;
  if (r->held)
    return w->whole;
  w->latest = range;
  if (r->elements)
    return r->elements;
  char *first = element_of(w, w->whole, w->n_held), *last = element_of(w, first, w->n_pair - r->n);
  char *to = before && before->elements == first ? last : first, *end = element_of(w, to, r->n);
  for (size_t i = 0; i < w->n_ranges; i++) {
    struct range *other = &w->ranges[i];
    char *at = other->elements;
    if (!at || other->held || at >= end || (char *)element_of(w, at, other->n) <= to)
      continue;
    ASSERT(other != before);
    other->elements = NULL;
  }
  return to;
}

int weights_gather(struct weights *w, int range, struct err *err) {
  struct range *r = &w->ranges[range];
  r->elements = place_whole(w, range);
  struct communicator_call call = {.op = COMMUNICATOR_ALL_GATHER,
                                   .element = w->device->kind->element,
                                   .send = element_of(w, w->elements, r->state_offset),
                                   .recv = r->elements,
                                   .count = r->shard};
  return communicator_run(w->sharding.shards, &call, err);
}

int weights_norm(struct weights *w, double *norm, struct err *err) {
  struct operator_call sum = {.kind = OPERATOR_SUM_SQUARES, .sum_squares = {w->n_state, w->shard_grad, w->scalar}};
  struct communicator_call all = {
      .op = COMMUNICATOR_ALL_REDUCE, .element = ELEMENT_FP32, .send = w->scalar, .recv = w->scalar, .count = 1};
  float value;
  if (clear(w, w->scalar, 1, err) || device_run(w->device, &sum, err) ||
      communicator_run(w->sharding.shards, &all, err) || device_copy(w->device, &value, w->scalar, sizeof value, err))
    return -1;
  *norm = sqrt(value);
  return 0;
}

static struct operator_call update_of(struct weights *w, const struct range *r, const struct execute_options *o,
                                      int64_t step) {
  float *grad = (float *)w->shard_grad + r->state_offset, *master = (float *)w->master + r->state_offset;
  void *weight = element_of(w, w->elements, w->gathers ? r->state_offset : r->offset + my_shard(w) * r->shard);
  float rate = (float)o->learning_rate;
  if (o->optimizer == OPTIMIZER_SGD)
    return (struct operator_call){.kind = OPERATOR_SGD,
                                  .sgd = {.n = r->shard,
                                          .lr = rate,
                                          .grad_scale = 1,
                                          .grad = grad,
                                          .master = master,
                                          .m = (float *)w->m + r->state_offset,
                                          .weight = weight}};
  return (struct operator_call){.kind = OPERATOR_ADAMW,
                                .adamw = {.n = r->shard,
                                          .lr = rate,
                                          .beta1 = 0.9f,
                                          .beta2 = 0.95f,
                                          .eps = 1e-8f,
                                          .weight_decay = 0.1f,
                                          .grad_scale = 1,
                                          .step = step,
                                          .grad = grad,
                                          .master = master,
                                          .m = (float *)w->m + r->state_offset,
                                          .v = (float *)w->v + r->state_offset,
                                          .weight = weight}};
}

int weights_update(struct weights *w, const struct execute_options *options, int64_t step, struct err *err) {
  for (size_t i = 0; i < w->n_ranges; i++) {
    struct operator_call call = update_of(w, &w->ranges[i], options, step);
    if (device_run(w->device, &call, err))
      return -1;
  }
  return 0;
}

int weights_gather_all(struct weights *w, struct err *err) {
  size_t element = element_bytes(w->device->kind->element);
  if (!w->send)
    return 0;
  for (size_t i = 0; i < w->n_ranges; i++) {
    const struct range *r = &w->ranges[i];
    struct communicator_call call = {.op = COMMUNICATOR_ALL_GATHER,
                                     .element = w->device->kind->element,
                                     .send = w->send,
                                     .recv = r->elements,
                                     .count = r->shard};
    if (device_copy(w->device, w->send, element_of(w, r->elements, my_shard(w) * r->shard), (size_t)r->shard * element,
                    err) ||
        communicator_run(w->sharding.shards, &call, err))
      return -1;
  }
  return 0;
}
