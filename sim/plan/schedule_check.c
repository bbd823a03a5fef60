/* The rules of `check`, each a function that tells what breaks it. Rules whose ground is missing (a model that cannot
 * be loaded, ranks out of range) are skipped: what is missing has been told already. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "models/memory.h"
#include "sim/base/units.h"
#include "sim/plan/schedule_read.h"

#define WEIGHT_TOLERANCE 1e-9

/* What is known of a sample. */
enum fate { FATE_NONE, FATE_SCHEDULED, FATE_DROPPED, FATE_INFEASIBLE, FATE_OVERLONG, FATE_SPLIT };
static const char *const fate_names[] = {"nowhere",    "scheduled", "dropped",
                                         "infeasible", "overlong",  "split in pieces"};

/* A piece of a split sample. Lengths are known of scheduled pieces only. */
struct piece {
  uint32_t id, offset;
  int64_t length; /* 0: unknown */
  uint8_t fate;
};

struct check {
  struct schedule_reader reader;
  struct {
    int64_t iterations, whole, split;
  } counts;
  struct transformer model;
  struct cluster cluster;
  struct params *params;
  struct system system;
  bool has_model, has_system;
  uint8_t *fates; /* one of enum fate per sample; NULL without a usable samples_total */
  struct piece *pieces;
  size_t n_pieces, pieces_cap;
  int64_t next_iteration;
  int64_t *owner; /* per rank: the last round that used it */
  int64_t round;  /* a number that no other (iteration, round) has */
  double *rule_weights;
  size_t rule_weights_cap;
  bool ids_unreadable; /* some sample may be named where we could not read: absence proves nothing */
};

#define tell(c, iteration, group, rule, ...) schedule_reader_tell(&(c)->reader, iteration, group, rule, __VA_ARGS__)

/* ---- The header ---------------------------------------------------------------------------------------------------
 */

/* Loads what the header names; a failure is a finding. */
static void check_modules(struct check *c) {
  struct schedule_reader *r = &c->reader;
  bool same = r->n_modules == transformer_modules(&c->model);
  for (int m = 0; same && m < r->n_modules; m++)
    same = strcmp(r->modules[m], transformer_module_name(&c->model, m)) == 0;
  if (r->n_modules > 0 && !same)
    tell(c, -1, -1, "header", "'modules' are not those of model '%s', which has \"%s\"%s", c->model.name,
         transformer_module_name(&c->model, 0), c->model.is_2d ? " and \"temporal\"" : " alone");
  r->n_modules = transformer_modules(&c->model); /* the iterations are read as the model's */
  r->is_2d = c->model.is_2d;
}

static void check_cluster(struct check *c) {
  const struct schedule_header *h = &c->reader.header;
  if (h->world >= 0 && h->world != cluster_gpus(&c->cluster))
    tell(c, -1, -1, "header", "'world' is %d, cluster '%s' has %d GPUs", h->world, c->cluster.name,
         cluster_gpus(&c->cluster));
  if (h->gpus_per_node >= 0 && h->gpus_per_node != c->cluster.gpus_per_node)
    tell(c, -1, -1, "header", "'gpus_per_node' is %d, cluster '%s' has %d", h->gpus_per_node, c->cluster.name,
         c->cluster.gpus_per_node);
  if (h->memory_cap_bytes > c->cluster.memory_bytes)
    tell(c, -1, -1, "header", "'memory_cap_bytes' is %" PRId64 ", a GPU of '%s' has %" PRId64, h->memory_cap_bytes,
         c->cluster.name, c->cluster.memory_bytes);
}

static void check_params(struct check *c) {
  const struct schedule_header *h = &c->reader.header;
  if (h->params_sha256[0] && strcmp(h->params_sha256, params_sha256(c->params)) != 0)
    tell(c, -1, -1, "header", "parameters '%s' have changed: the schedule was made with sha256 %.12s..., now %.12s...",
         h->params, h->params_sha256, params_sha256(c->params));
}

/* Whether a load succeeded; if not, says so. An empty name was told when the header was read. */
static bool loaded(struct check *c, const char *key, const char *name, int status, const struct err *err) {
  if (status < 0 && name[0])
    tell(c, -1, -1, "header", "'%s': %.220s", key, err->msg);
  return status == 0;
}

static void load_system(struct check *c) {
  const struct schedule_header *h = &c->reader.header;
  struct err e = {0};
  c->has_model = loaded(c, "model", h->model, h->model[0] ? transformer_load(&c->model, h->model, &e) : -1, &e);
  if (c->has_model)
    check_modules(c);
  e = (struct err){0};
  bool cluster = loaded(c, "cluster", h->cluster, h->cluster[0] ? cluster_load(&c->cluster, h->cluster, &e) : -1, &e);
  if (cluster)
    check_cluster(c);
  e = (struct err){0};
  bool params = loaded(c, "params", h->params, h->params[0] ? params_load(&c->params, h->params, &e) : -1, &e);
  if (params)
    check_params(c);
  e = (struct err){0};
  const struct framework *f = h->framework[0] ? framework_find(h->framework, &e) : NULL;
  bool framework = loaded(c, "framework", h->framework, f ? 0 : -1, &e);
  c->system = (struct system){.model = &c->model,
                              .cluster = &c->cluster,
                              .params = c->params,
                              .framework = f,
                              .parallel = {.zero = h->zero,
                                           .shard_node = h->shard_node,
                                           .sp_kind = h->sp_kind,
                                           .grad_bytes = h->grad_bytes,
                                           .head_chunk = h->head_chunk,
                                           .offload_optimizer = h->offload_optimizer,
                                           .memory_rule = h->memory_rule}};
  c->has_system = c->has_model && cluster && params && framework && h->zero >= 0 && c->reader.has_sp_kind &&
                  h->memory_cap_bytes > 0 && h->world == cluster_gpus(&c->cluster);
}

/* ---- Coverage -----------------------------------------------------------------------------------------------------
 */

static void sample_name(uint32_t id, uint32_t offset, char *buf, size_t size) {
  if (offset == SCHEDULE_WHOLE)
    snprintf(buf, size, "sample %" PRIu32, id);
  else
    snprintf(buf, size, "sample [%" PRIu32 ", %" PRIu32 "]", id, offset);
}

/* Pieces meet their neighbours at the end; whole samples are settled at once. */
static void note_sample(struct check *c, int64_t iteration, int64_t group, struct piece p) {
  bool whole = p.offset == SCHEDULE_WHOLE;
  char name[48];
  sample_name(p.id, p.offset, name, sizeof name);
  if (!c->fates)
    return;
  if (p.id >= c->reader.header.samples_total) {
    tell(c, iteration, group, "coverage", "%s is %s, but 'samples_total' is %" PRId64, name, fate_names[p.fate],
         c->reader.header.samples_total);
    return;
  }
  uint8_t *fate = &c->fates[p.id];
  if (*fate == FATE_NONE || (!whole && *fate == FATE_SPLIT)) {
    c->counts.whole += whole && p.fate == FATE_SCHEDULED;
    *fate = whole ? p.fate : FATE_SPLIT;
    if (!whole)
      VEC_PUSH(c->pieces, c->n_pieces, c->pieces_cap, p);
    return;
  }
  if (*fate == p.fate)
    tell(c, iteration, group, "coverage", "%s is %s twice", name, fate_names[p.fate]);
  else
    tell(c, iteration, group, "coverage", "%s is %s here, but also %s", name, fate_names[p.fate], fate_names[*fate]);
}

static void note_list(struct check *c, const struct schedule_id_list *list, enum fate fate) {
  for (size_t i = 0; i < list->n; i++)
    note_sample(c, -1, -1, (struct piece){list->ids[i], list->offsets[i], 0, (uint8_t)fate});
}

static void note_header_lists(struct check *c) {
  const struct schedule_header *h = &c->reader.header;
  if (h->samples_total < 0)
    return;
  c->fates = calloc((size_t)h->samples_total + 1, 1); /* a size from the file: may fail, unlike our own */
  if (!c->fates) {
    tell(c, -1, -1, "header", "'samples_total' %" PRId64 " is more than this machine's memory can check",
         h->samples_total);
    return;
  }
  note_list(c, &c->reader.dropped, FATE_DROPPED);
  note_list(c, &c->reader.infeasible, FATE_INFEASIBLE);
  note_list(c, &c->reader.overlong, FATE_OVERLONG);
}

static int compare_pieces(const void *a, const void *b) {
  const struct piece *x = a, *y = b;
  if (x->id != y->id)
    return x->id < y->id ? -1 : 1;
  return (x->offset > y->offset) - (x->offset < y->offset);
}

/* `p` follows `before` (NULL: it is the first) of the same sample. */
static void check_piece(struct check *c, const struct piece *before, const struct piece *p) {
  bool may_miss = c->reader.header.partial || c->ids_unreadable;
  if (!before) {
    if (p->offset > 0 && !may_miss)
      tell(c, -1, -1, "coverage", "sample %" PRIu32 " starts at token %" PRIu32 ": the pieces before are missing",
           p->id, p->offset);
    return;
  }
  int64_t end = before->offset + before->length;
  if (p->offset == before->offset)
    tell(c, -1, -1, "coverage", "piece [%" PRIu32 ", %" PRIu32 "] is %s and %s", p->id, p->offset,
         fate_names[before->fate], before->fate == p->fate ? "so a second time" : fate_names[p->fate]);
  else if (p->offset < end)
    tell(c, -1, -1, "coverage", "piece [%" PRIu32 ", %" PRIu32 "] begins inside the one before, which ends at %" PRId64,
         p->id, p->offset, end);
  else if (before->length > 0 && p->offset > end && !may_miss)
    tell(c, -1, -1, "coverage", "sample %" PRIu32 " misses its tokens %" PRId64 " to %" PRIu32, p->id, end,
         p->offset - 1);
}

static void check_pieces(struct check *c) {
  if (c->n_pieces > 0)
    qsort(c->pieces, c->n_pieces, sizeof *c->pieces, compare_pieces);
  bool ran = false;
  for (size_t i = 0; i < c->n_pieces; i++) {
    bool first = i == 0 || c->pieces[i - 1].id != c->pieces[i].id;
    check_piece(c, first ? NULL : &c->pieces[i - 1], &c->pieces[i]);
    ran = (ran && !first) || c->pieces[i].fate == FATE_SCHEDULED;
    bool last = i + 1 == c->n_pieces || c->pieces[i + 1].id != c->pieces[i].id;
    c->counts.split += last && ran;
  }
}

/* One finding for each run of missing ids. */
static void check_missing(struct check *c) {
  int64_t n = c->reader.header.samples_total;
  if (!c->fates || c->reader.header.partial || c->ids_unreadable)
    return;
  for (int64_t i = 0; i < n; i++) {
    if (c->fates[i] != FATE_NONE)
      continue;
    int64_t first = i;
    while (i + 1 < n && c->fates[i + 1] == FATE_NONE)
      i++;
    if (i == first)
      tell(c, -1, -1, "coverage", "sample %" PRId64 " is missing", first);
    else
      tell(c, -1, -1, "coverage", "samples %" PRId64 " to %" PRId64 " are missing", first, i);
  }
}

/* ---- Groups -------------------------------------------------------------------------------------------------------
 */

static bool power_of_two(int v) { return v > 0 && (v & (v - 1)) == 0; }

/* Tells what is wrong with a group's ranks. Whether they can be weighed: in range and its own. */
static bool check_ranks(struct check *c, const struct schedule_step *s, size_t index) {
  const struct plan_group *g = &s->plan.groups[index];
  int64_t group = (int64_t)index;
  int end = g->first_rank + g->sp;
  if (g->sp == 0 || !c->owner)
    return false; /* unreadable: told */
  if (end > c->reader.header.world) {
    tell(c, s->iteration, group, "ranks", "ranks %d to %d, but 'world' is %d", g->first_rank, end - 1,
         c->reader.header.world);
    return false;
  }
  const char *why = NULL;
  if (!power_of_two(g->sp))
    tell(c, s->iteration, group, "ranks", "%d ranks: an SP degree is a power of two", g->sp);
  else if (g->first_rank % g->sp != 0)
    tell(c, s->iteration, group, "ranks", "%d ranks must start at a multiple of %d, not at %d", g->sp, g->sp,
         g->first_rank);
  else if (c->has_system && !system_sp_valid(&c->system, g->sp, &why))
    tell(c, s->iteration, group, "ranks", "SP %d cannot be formed: %.160s", g->sp, why ? why : "unknown reason");
  for (int r = g->first_rank; r < end; r++) {
    if (c->owner[r] != c->round) {
      c->owner[r] = c->round;
      continue;
    }
    tell(c, s->iteration, group, "ranks", "rank %d is in two groups at once", r);
    for (; r < end; r++)
      c->owner[r] = c->round;
    return false;
  }
  return true;
}

static bool check_groups(struct check *c, const struct schedule_step *s) {
  bool usable = true;
  c->round++;
  for (size_t i = 0; i < s->plan.n_groups; i++) {
    int round = s->plan.groups[i].round, before = i ? s->plan.groups[i - 1].round : 0;
    if (round != before)
      c->round++;
    if (round < before)
      tell(c, s->iteration, (int64_t)i, "ranks", "round %d stands after round %d", round, before);
    usable &= check_ranks(c, s, i);
  }
  return usable;
}

/* ---- Micro-batches ------------------------------------------------------------------------------------------------
 */

/* A micro-batch and where it is. */
struct micro_batch_at {
  const struct schedule_step *step;
  const struct plan_group *group;
  const struct plan_micro_batch *mb;
  int64_t iteration, group_index;
  size_t index; /* within its group */
};

static struct sample sample_of(const struct micro_batch_at *at, int64_t i) {
  return at->step->samples.samples[at->mb->samples[i]];
}

static void check_shapes(struct check *c, const struct micro_batch_at *at) {
  const struct sample box = at->mb->shape;
  for (int64_t i = 0; !at->mb->packed && box.a > 0 && i < at->mb->count; i++) {
    struct sample s = sample_of(at, i);
    if (s.a <= box.a && s.b <= box.b)
      continue;
    uint32_t id = at->step->samples.ids[at->mb->samples[i]];
    if (c->reader.is_2d)
      tell(c, at->iteration, at->group_index, "shape",
           "micro-batch %zu: sample %" PRIu32 " of %" PRIu32 "x%" PRIu32 " does not fit the padded shape %" PRIu32
           "x%" PRIu32,
           at->index, id, s.a, s.b, box.a, box.b);
    else
      tell(c, at->iteration, at->group_index, "shape",
           "micro-batch %zu: sample %" PRIu32 " of %" PRIu32 " tokens does not fit the padded shape %" PRIu32,
           at->index, id, s.a, box.a);
  }
}

static bool check_recompute(struct check *c, const struct micro_batch_at *at) {
  bool ok = true;
  for (int m = 0; c->has_model && m < transformer_modules(&c->model); m++) {
    int blocks = at->mb->recompute_blocks[m];
    if (blocks >= 0 && blocks <= c->model.layers)
      continue;
    ok = false;
    tell(c, at->iteration, at->group_index, "recompute", "micro-batch %zu: %d recomputed %s blocks, model '%s' has %d",
         at->index, blocks, transformer_module_name(&c->model, m), c->model.name, c->model.layers);
  }
  return ok;
}

static struct microbatch work_of(const struct micro_batch_at *at, bool is_2d) {
  const struct plan_micro_batch *mb = at->mb;
  struct microbatch w = {.batch = mb->count, .recompute_blocks = {mb->recompute_blocks[0], mb->recompute_blocks[1]}};
  if (mb->packed) {
    w.packed = &at->step->samples.samples[mb->samples[0]]; /* a micro-batch's samples stand side by side */
  } else if (is_2d) {
    w.frames = mb->shape.a;
    w.positions = mb->shape.b;
  } else {
    w.seqlen = mb->shape.a;
  }
  return w;
}

static int64_t pack_tokens(const struct micro_batch_at *at) {
  int64_t tokens = 0;
  for (int64_t i = 0; i < at->mb->count && tokens <= SCHEDULE_MAX_TOKENS; i++)
    tokens += sample_tokens(sample_of(at, i));
  return tokens;
}

static bool too_many_tokens(const struct micro_batch_at *at) {
  if (at->mb->packed)
    return pack_tokens(at) > SCHEDULE_MAX_TOKENS;
  return at->mb->count > SCHEDULE_MAX_TOKENS / sample_tokens(at->mb->shape);
}

static void check_memory(struct check *c, const struct micro_batch_at *at, bool unequal_counts) {
  int sp = at->group->sp;
  if (!c->has_system || !power_of_two(sp) || !system_sp_valid(&c->system, sp, NULL))
    return;
  struct microbatch work = work_of(at, c->model.is_2d);
  if (too_many_tokens(at)) {
    tell(c, at->iteration, at->group_index, "memory", "micro-batch %zu: more than %lld tokens", at->index,
         (long long)SCHEDULE_MAX_TOKENS);
    return;
  }
  int64_t peak = memory_peak_bytes(&c->system, sp, &work, unequal_counts);
  if (peak > c->reader.header.memory_cap_bytes)
    tell(c, at->iteration, at->group_index, "memory",
         "micro-batch %zu: peak of %.3f GiB is over the cap of %.3f GiB (SP %d, %" PRId64 " samples, %" PRId64
         " tokens with padding)",
         at->index, (double)peak / GIB_BYTES, (double)c->reader.header.memory_cap_bytes / GIB_BYTES, sp, at->mb->count,
         microbatch_tokens(&c->system, &work));
}

/* Whether groups that run at the same time run different numbers of micro-batches. */
static bool counts_differ(const struct plan_iteration *it) {
  for (size_t i = 1; i < it->n_groups; i++)
    if (it->groups[i].round == it->groups[i - 1].round &&
        it->groups[i].n_micro_batches != it->groups[i - 1].n_micro_batches)
      return true;
  return false;
}

static void check_micro_batches(struct check *c, const struct schedule_step *s, bool memory) {
  bool unequal = counts_differ(&s->plan);
  for (size_t g = 0; g < s->plan.n_groups; g++) {
    const struct plan_group *group = &s->plan.groups[g];
    for (size_t i = 0; i < group->n_micro_batches; i++) {
      const struct plan_micro_batch *mb = &s->plan.micro_batches[group->first_micro_batch + i];
      struct micro_batch_at at = {s, group, mb, s->iteration, (int64_t)g, i};
      for (int64_t k = 0; k < mb->count; k++) {
        uint32_t e = mb->samples[k];
        note_sample(c, s->iteration, (int64_t)g,
                    (struct piece){s->samples.ids[e], s->samples.offsets[e], sample_tokens(s->samples.samples[e]),
                                   FATE_SCHEDULED});
      }
      check_shapes(c, &at);
      if (check_recompute(c, &at) && memory)
        check_memory(c, &at, unequal);
    }
  }
}

/* ---- Weights ------------------------------------------------------------------------------------------------------
 */

static void check_weights(struct check *c, const struct schedule_step *s) {
  size_t n = s->plan.n_micro_batches;
  double sum = 0;
  if (!c->reader.has_weighting)
    return;
  VEC_RESERVE(c->rule_weights, c->rule_weights_cap, n);
  bool per_token = strcmp(c->reader.header.weighting, "per_token") == 0;
  schedule_weights(&s->plan, &s->samples, c->reader.header.world, per_token, c->rule_weights);
  for (size_t g = 0; g < s->plan.n_groups; g++) {
    const struct plan_group *group = &s->plan.groups[g];
    for (size_t i = 0; i < group->n_micro_batches; i++) {
      double weight = s->weights[group->first_micro_batch + i], rule = c->rule_weights[group->first_micro_batch + i];
      sum += weight;
      if (!(fabs(weight - rule) <= WEIGHT_TOLERANCE))
        tell(c, s->iteration, (int64_t)g, "weights", "micro-batch %zu: weight %.12g, by the rule '%s' it is %.12g", i,
             weight, c->reader.header.weighting, rule);
    }
  }
  if (!(fabs(sum - 1) <= WEIGHT_TOLERANCE))
    tell(c, s->iteration, -1, "weights", "the weights of the iteration sum to %.12g, not 1", sum);
}

/* ---- The whole ----------------------------------------------------------------------------------------------------
 */

static void check_step(struct check *c, const struct schedule_step *s) {
  c->counts.iterations++;
  if (s->iteration >= 0 && s->iteration != c->next_iteration)
    tell(c, s->iteration, -1, "iteration", "line %" PRId64 ": iteration %" PRId64 " stands where %" PRId64 " belongs",
         c->reader.lines.line, s->iteration, c->next_iteration);
  c->next_iteration = s->iteration >= 0 && s->iteration < INT64_MAX ? s->iteration + 1 : c->next_iteration + 1;
  c->ids_unreadable |= !s->complete;
  bool usable = check_groups(c, s);
  check_micro_batches(c, s, s->complete);
  if (usable && s->complete)
    check_weights(c, s);
}

static int check_steps(struct check *c, struct err *err) {
  struct schedule_step step = {0};
  int status;
  while ((status = schedule_reader_next(&c->reader, &step, err)) == 1)
    check_step(c, &step);
  schedule_step_release(&step);
  c->ids_unreadable |= c->reader.unreadable_lines > 0;
  return status;
}

int64_t schedule_check(const char *path, struct schedule_check *summary,
                       void (*finding)(void *context, const struct schedule_finding *f), void *context,
                       struct err *err) {
  struct check c = {0};
  if (schedule_reader_open(&c.reader, path, finding, context, err) < 0)
    return -1;
  load_system(&c);
  note_header_lists(&c);
  if (c.reader.header.world > 0)
    c.owner = xcalloc((size_t)c.reader.header.world, sizeof *c.owner);
  int status = check_steps(&c, err);
  if (status == 0) {
    check_pieces(&c);
    check_missing(&c);
  }
  int64_t findings = status < 0 ? -1 : c.reader.findings;
  *summary = (struct schedule_check){c.counts.iterations, c.counts.whole + c.counts.split};
  schedule_reader_close(&c.reader);
  params_free(c.params);
  free(c.fates);
  free(c.pieces);
  free(c.owner);
  free(c.rule_weights);
  return findings;
}
