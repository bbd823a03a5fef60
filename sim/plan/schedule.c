#include "sim/plan/schedule.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/base/units.h"

/* ---- Weights ------------------------------------------------------------------------------------------------------
 */

/* Micro-batches that each rank runs in the step. Caller frees. */
static int64_t *counts_of_ranks(const struct plan_iteration *it, int world) {
  int64_t *counts = xcalloc((size_t)world, sizeof *counts);
  for (size_t g = 0; g < it->n_groups; g++) {
    const struct plan_group *group = &it->groups[g];
    ASSERT(group->first_rank >= 0 && group->sp <= world - group->first_rank);
    for (int r = 0; r < group->sp; r++)
      counts[group->first_rank + r] += (int64_t)group->n_micro_batches;
  }
  return counts;
}

/* One micro-batch's weight: the sum over the group's ranks of 1 / (ranks at work * micro-batches of the rank). Runs of
 * ranks with equal counts are added at once, so that a group alone on its ranks gets sp/(A*m) to the last bit. */
static double published_weight(const struct plan_group *group, const int64_t *counts, int64_t ranks_at_work) {
  double weight = 0;
  const int64_t *of = counts + group->first_rank;
  for (int r = 0, run; r < group->sp; r += run) {
    for (run = 1; r + run < group->sp && of[r + run] == of[r]; run++)
      ;
    weight += (double)run / ((double)ranks_at_work * (double)of[r]);
  }
  return weight;
}

static void published_weights(const struct plan_iteration *it, int world, double *weights) {
  int64_t *counts = counts_of_ranks(it, world);
  int64_t ranks_at_work = 0;
  for (int r = 0; r < world; r++)
    ranks_at_work += counts[r] > 0;
  for (size_t g = 0; g < it->n_groups; g++) {
    const struct plan_group *group = &it->groups[g];
    if (group->n_micro_batches == 0)
      continue;
    double weight = published_weight(group, counts, ranks_at_work);
    for (size_t i = 0; i < group->n_micro_batches; i++)
      weights[group->first_micro_batch + i] = weight;
  }
  free(counts);
}

static int64_t real_tokens(const struct plan_micro_batch *mb, const struct sample_set *samples) {
  if (!mb->samples) /* not named yet: all that is known is the padded shape */
    return mb->count * sample_tokens(mb->shape);
  int64_t tokens = 0;
  for (int64_t i = 0; i < mb->count; i++)
    tokens += sample_tokens(samples->samples[mb->samples[i]]);
  return tokens;
}

static void per_token_weights(const struct plan_iteration *it, const struct sample_set *samples, double *weights) {
  int64_t step_tokens = 0;
  for (size_t i = 0; i < it->n_micro_batches; i++) {
    int64_t tokens = real_tokens(&it->micro_batches[i], samples);
    weights[i] = (double)tokens;
    step_tokens += tokens;
  }
  for (size_t i = 0; i < it->n_micro_batches; i++)
    weights[i] /= (double)step_tokens;
}

void schedule_weights(const struct plan_iteration *it, const struct sample_set *samples, int world, bool per_token,
                      double *weights) {
  if (per_token)
    per_token_weights(it, samples, weights);
  else
    published_weights(it, world, weights);
}

/* ---- Writing ------------------------------------------------------------------------------------------------------
 */

struct schedule_writer {
  struct output out;
  FILE *spool; /* the iterations; has no name any more, so nothing is left of it however we end */
  int64_t iterations;
  bool is_2d;    /* the model's, once an iteration was written */
  bool borrowed; /* out.file is the caller's */
};

/* Beside the target, where there is room for the whole, and unlinked at once. */
static FILE *open_spool(const struct output *out) {
  if (!out->temp_path)
    return tmpfile();
  size_t size = strlen(out->temp_path) + 8;
  char *name = xmalloc(size);
  snprintf(name, size, "%s-XXXXXX", out->temp_path);
  int fd = mkostemp(name, O_CLOEXEC);
  if (fd >= 0)
    unlink(name);
  free(name);
  return fd < 0 ? NULL : fdopen(fd, "w+");
}

static const char *shown_path(const struct schedule_writer *w) {
  return w->out.path ? w->out.path : w->borrowed ? "a temporary file" : "-";
}

static int write_error(const struct schedule_writer *w, struct err *err) {
  return err_set(err, "cannot write '%s': %s", shown_path(w), strerror(errno ? errno : EIO));
}

int schedule_writer_open(struct schedule_writer **w, const char *path, struct err *err) {
  struct output out;
  if (output_open(&out, path, err) < 0)
    return -1;
  FILE *spool = open_spool(&out);
  if (!spool) {
    err_set(err, "cannot create a temporary file beside '%s': %s", path, strerror(errno));
    output_discard(&out);
    return -1;
  }
  *w = xcalloc(1, sizeof **w);
  **w = (struct schedule_writer){.out = out, .spool = spool};
  return 0;
}

int schedule_writer_open_file(struct schedule_writer **w, FILE *file, struct err *err) {
  FILE *spool = tmpfile();
  if (!spool)
    return err_set(err, "cannot create a temporary file: %s", strerror(errno));
  *w = xcalloc(1, sizeof **w);
  **w = (struct schedule_writer){.out.file = file, .spool = spool, .borrowed = true};
  return 0;
}

void schedule_writer_discard(struct schedule_writer *w) {
  if (!w)
    return;
  fclose(w->spool);
  if (w->borrowed)
    w->out.file = NULL;
  output_discard(&w->out);
  free(w);
}

/* Whether an entry is one of several pieces: pieces of a sample stand side by side in the set. */
static bool is_piece(const struct sample_set *samples, uint32_t entry) {
  if (!samples->offsets)
    return false;
  if (samples->offsets[entry] > 0)
    return true;
  return entry + 1 < samples->n && sample_set_id(samples, entry + 1) == sample_set_id(samples, entry);
}

static void write_id(struct json_writer *w, uint32_t id, const uint32_t *offset) {
  if (!offset) {
    json_int(w, id);
    return;
  }
  json_begin_array(w);
  json_int(w, id);
  json_int(w, *offset);
  json_end_array(w);
}

static void write_shape(struct json_writer *w, struct sample shape, bool is_2d) {
  json_begin_array(w);
  json_int(w, shape.a);
  if (is_2d)
    json_int(w, shape.b);
  json_end_array(w);
}

static void write_samples(struct json_writer *w, const struct plan_micro_batch *mb, const struct sample_set *samples) {
  json_key(w, "samples");
  json_begin_array(w);
  for (int64_t i = 0; i < mb->count; i++) {
    uint32_t entry = mb->samples[i];
    write_id(w, sample_set_id(samples, entry), is_piece(samples, entry) ? &samples->offsets[entry] : NULL);
  }
  json_end_array(w);
  json_key(w, "shapes");
  json_begin_array(w);
  for (int64_t i = 0; i < mb->count; i++)
    write_shape(w, samples->samples[mb->samples[i]], samples->is_2d);
  json_end_array(w);
}

static void write_micro_batch(struct json_writer *w, const struct plan_micro_batch *mb,
                              const struct sample_set *samples, int modules, double weight) {
  ASSERT(mb->samples);
  json_begin_object(w);
  write_samples(w, mb, samples);
  json_key_str(w, "layout", mb->packed ? "packed" : "padded");
  if (!mb->packed) {
    json_key(w, "padded_shape");
    write_shape(w, mb->shape, samples->is_2d);
  }
  json_key(w, "recompute_layers");
  json_begin_array(w);
  for (int m = 0; m < modules; m++)
    json_int(w, mb->recompute_blocks[m]);
  json_end_array(w);
  json_key_double(w, "weight", weight);
  json_end_object(w);
}

static void begin_group(struct json_writer *w, const struct plan_group *group) {
  json_begin_object(w);
  json_key(w, "ranks");
  json_begin_array(w);
  json_int(w, group->first_rank);
  json_int(w, (int64_t)group->first_rank + group->sp);
  json_end_array(w);
  if (group->round > 0)
    json_key_int(w, "round", group->round);
  json_key(w, "micro_batches");
  json_begin_array(w);
}

int schedule_writer_iteration(struct schedule_writer *w, const struct sample_set *samples,
                              const struct transformer *model, const struct plan_iteration *it, const double *weights,
                              double predicted_time_s, const double *group_time_s, struct err *err) {
  struct json_writer json = {.file = w->spool};
  w->is_2d = model->is_2d;
  json_begin_object(&json);
  json_key_int(&json, "iteration", w->iterations++);
  json_key_double(&json, "predicted_time_s", predicted_time_s);
  json_key(&json, "groups");
  json_begin_array(&json);
  for (size_t g = 0; g < it->n_groups; g++) {
    const struct plan_group *group = &it->groups[g];
    begin_group(&json, group);
    for (size_t i = group->first_micro_batch; i < group->first_micro_batch + group->n_micro_batches; i++)
      write_micro_batch(&json, &it->micro_batches[i], samples, transformer_modules(model), weights[i]);
    json_end_array(&json);
    json_key_double(&json, "predicted_time_s", group_time_s[g]);
    json_end_object(&json);
  }
  json_end_array(&json);
  json_end_object(&json);
  errno = 0;
  fputc('\n', w->spool);
  if (ferror(w->spool))
    return write_error(w, err);
  return 0;
}

static void write_ids(struct json_writer *w, const char *key, struct schedule_ids ids) {
  json_key(w, key);
  json_begin_array(w);
  for (int64_t i = 0; i < ids.n; i++)
    write_id(w, ids.ids[i], ids.offsets ? &ids.offsets[i] : NULL);
  json_end_array(w);
}

static void write_params(struct json_writer *w, const struct schedule_header *h) {
  json_key(w, "params");
  json_begin_object(w);
  json_key_str(w, "file", h->params);
  json_key_str(w, "sha256", h->params_sha256);
  json_end_object(w);
}

static void write_modules(struct json_writer *w, bool is_2d) {
  const struct transformer kind = {.is_2d = is_2d};
  json_key(w, "modules");
  json_begin_array(w);
  for (int m = 0; m < transformer_modules(&kind); m++)
    json_str(w, transformer_module_name(&kind, m));
  json_end_array(w);
}

static void write_memory_options(struct json_writer *w, const struct schedule_header *h) {
  if (h->grad_bytes == 4)
    json_key_str(w, "grad_dtype", "fp32");
  if (h->head_chunk > 0)
    json_key_int(w, "head_chunk", h->head_chunk);
  if (h->offload_optimizer)
    json_key_str(w, "offload", "optimizer");
  if (h->memory_rule == MEMORY_PUBLISHED)
    json_key_str(w, "memory_rule", "published");
}

static void write_header(FILE *file, const struct schedule_header *h, bool is_2d, struct schedule_ids dropped,
                         struct schedule_ids infeasible, struct schedule_ids overlong) {
  struct json_writer json = {.file = file}, *w = &json;
  json_begin_object(w);
  json_key_str(w, "schema", SCHEDULE_SCHEMA);
  json_key_int(w, "world", h->world);
  json_key_int(w, "gpus_per_node", h->gpus_per_node);
  json_key_str(w, "model", h->model);
  json_key_str(w, "cluster", h->cluster);
  write_params(w, h);
  json_key_str(w, "policy", h->policy);
  json_key_str(w, "trace", h->trace);
  json_key_int(w, "samples_total", h->samples_total);
  write_ids(w, "dropped", dropped);
  write_ids(w, "infeasible", infeasible);
  write_ids(w, "overlong", overlong);
  json_key_bool(w, "partial", h->partial);
  json_key_int(w, "seed", (int64_t)h->seed);
  json_key_int(w, "zero", h->zero);
  json_key_str(w, "shard", h->shard_node ? "node" : "world");
  json_key_str(w, "sp_kind", sp_kind_name(h->sp_kind));
  json_key_str(w, "framework", h->framework);
  json_key_int(w, "memory_cap_bytes", h->memory_cap_bytes);
  json_key_str(w, "weighting", h->weighting);
  write_modules(w, is_2d);
  write_memory_options(w, h);
  json_end_object(w);
  fputc('\n', file);
}

/* Appends the spool to the target. */
static int copy_spool(struct schedule_writer *w, struct err *err) {
  char buf[1 << 16];
  size_t n;
  errno = 0;
  if (fflush(w->spool) != 0 || ferror(w->spool) || fseek(w->spool, 0, SEEK_SET) != 0)
    return write_error(w, err);
  while ((n = fread(buf, 1, sizeof buf, w->spool)) > 0)
    if (fwrite(buf, 1, n, w->out.file) != n)
      return write_error(w, err);
  if (ferror(w->spool))
    return err_set(err, "cannot read back the iterations of '%s': %s", shown_path(w), strerror(errno ? errno : EIO));
  return 0;
}

int schedule_writer_commit(struct schedule_writer *w, const struct schedule_header *h, struct schedule_ids dropped,
                           struct schedule_ids infeasible, struct schedule_ids overlong, struct err *err) {
  write_header(w->out.file, h, h->is_2d || w->is_2d, dropped, infeasible, overlong);
  int status = copy_spool(w, err);
  if (status == 0 && w->borrowed)
    status = fflush(w->out.file) != 0 ? write_error(w, err) : 0;
  else if (status == 0)
    status = output_commit(&w->out, err);
  schedule_writer_discard(w);
  return status;
}
