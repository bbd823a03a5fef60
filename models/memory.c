#include "models/memory.h"

#include <math.h>

#include "sim/base/units.h"

#define WEIGHT_BYTES 2
#define OPTIMIZER_BYTES 12 /* fp32 master weight and two Adam moments */
#define ACTIVATION_BYTES 2

/* Rows that a micro-batch puts on the fullest rank. Captions are not sharded: every rank holds all of the group's. A
 * pack of videos may hold samples whose blocks differ in kind. */
struct rows {
  int64_t local, text;
  int64_t local_of[2][BLOCK_KINDS], text_of[2][BLOCK_KINDS]; /* by module and kind of block */
};

static void add_rows(const struct system *s, struct rows *r, int64_t local, int64_t text, int64_t frames) {
  r->local += local;
  r->text += text;
  for (int module = 0; module < transformer_modules(s->model); module++) {
    const enum block_kind kind = block_kind_of(s->model, module, frames);
    r->local_of[module][kind] += local;
    r->text_of[module][kind] += text;
  }
}

static struct rows rows_of(const struct system *s, int sp, const struct microbatch *mb) {
  struct rows r = {0};
  const int64_t text = s->model->is_2d ? s->model->text_tokens : 0;
  if (!s->model->is_2d || !mb->packed) {
    add_rows(s, &r, microbatch_local_tokens(s, mb, sp), text * mb->batch, mb->frames);
    return r;
  }
  for (int64_t i = 0; i < mb->batch; i++)
    add_rows(s, &r, mb->packed[i].a * ceil_div(mb->packed[i].b, sp), text, mb->packed[i].a);
  return r;
}

/* More than any device has (hardware.c): what is larger counts as this much, so that sums over layers stay in range. */
#define MOST_BYTES (INT64_C(1) << 50)

static int64_t whole_bytes(double bytes) { return (int64_t)fmin(ceil(bytes), (double)MOST_BYTES); }

/* Whole bytes of `u` hidden-state copies of `rows` rows, rounded up. */
static int64_t hidden_bytes(const struct system *s, double u, int64_t rows) {
  return whole_bytes(u * (double)(ACTIVATION_BYTES * s->model->hidden) * (double)rows);
}

static int64_t block_input_bytes(const struct system *s, const struct rows *rows) {
  return hidden_bytes(s, 1, rows->local);
}

/* Everything one kept block saves, its input included. */
static int64_t block_saved_bytes(const struct system *s, const struct rows *rows, int module) {
  int64_t bytes = 0;
  for (int kind = 0; kind < BLOCK_KINDS; kind++) {
    const int64_t local = rows->local_of[module][kind], text = rows->text_of[module][kind];
    if (local == 0 && text == 0)
      continue;
    const struct block_passes passes = framework_block(s->framework, s->model, (enum block_kind)kind);
    bytes += hidden_bytes(s, passes.saved_u, local) + hidden_bytes(s, passes.saved_text_u, text);
  }
  return int64_min(bytes, MOST_BYTES);
}

int64_t memory_block_activation_bytes(const struct system *s, int sp, const struct microbatch *mb, int module) {
  const struct rows rows = rows_of(s, sp, mb);
  return block_saved_bytes(s, &rows, module) - block_input_bytes(s, &rows);
}

static int64_t shards(const struct system *s) {
  return s->parallel.shard_node ? s->cluster->gpus_per_node : system_world(s);
}

/* Model states: zero 1 shards the optimizer, 2 also the gradients, 3 everything. */
static void add_states(const struct system *s, bool unequal_counts, struct memory_parts *p) {
  const int64_t params = transformer_params(s->model), n = shards(s);
  const int zero = s->parallel.zero;
  const bool shard_gradients = zero == 3 || (zero == 2 && !unequal_counts);
  p->weights_bytes = ceil_div(WEIGHT_BYTES * params, zero == 3 ? n : 1);
  p->gradients_bytes = ceil_div(s->parallel.grad_bytes * params, shard_gradients ? n : 1);
  p->optimizer_bytes = s->parallel.offload_optimizer ? 0 : ceil_div(OPTIMIZER_BYTES * params, zero >= 1 ? n : 1);
}

/* What lies outside the blocks. 1D: the final norm's input and output. 2D: patch embedding, position add, and final
 * layer (4 copies counted in the published set-up), the caption as copied, its embedding's intermediate and result. */
static int64_t outside_bytes(const struct system *s, const struct rows *rows) {
  if (!s->model->is_2d)
    return hidden_bytes(s, 2, rows->local);
  const double caption = (double)s->model->text_channels *
                         (s->framework->host_copy_bytes_per_text_token + ACTIVATION_BYTES) * (double)rows->text;
  return hidden_bytes(s, 4, rows->local) + hidden_bytes(s, 3, rows->text) + whole_bytes(caption);
}

/* Gradients that live beside the saved tensors while a kept block is differentiated: of its output and of the MLP's
 * widest intermediates. */
static int64_t backward_bytes(const struct system *s, const struct rows *rows) {
  const double ffn = (double)s->model->ffn / (double)s->model->hidden;
  return hidden_bytes(s, 1 + (s->model->mlp_matrices - 1) * ffn, rows->local);
}

/* Zero 3: the layer (2D: the pair of blocks) in use, the next one being gathered and the gradient not yet scattered.
 * Beside them what lies outside the blocks: where it is used before and after them (2D, tied embeddings), its weights
 * and its gradient stay; else the head's or the table's meet one layer at the most. */
static int64_t gathered_bytes(const struct system *s) {
  const struct transformer *m = s->model;
  const int64_t grad = s->parallel.grad_bytes;
  const bool stays = m->is_2d || m->tied_embeddings;
  const int64_t outside = m->is_2d ? transformer_other_params(m) : m->vocab * m->hidden;
  int64_t layer = transformer_block_params(m, 0);
  if (m->is_2d)
    layer += transformer_block_params(m, 1);
  if (s->parallel.zero != 3)
    return 0;
  const int64_t loop = layer * (2 * WEIGHT_BYTES + grad), ends = outside * (WEIGHT_BYTES + grad);
  return stays ? loop + ends : int64_max(loop, ends + layer * WEIGHT_BYTES);
}

/* Buffers of gradients under reduction, where the framework copies them out. */
static int64_t reduction_bytes(const struct system *s) {
  const int64_t all = s->parallel.grad_bytes * transformer_params(s->model);
  return s->framework->grad_buffers * int64_min(s->framework->grad_bucket_bytes, all);
}

/* Tiled losses hold a tile's bf16 logits and their fp32 copy, which becomes the gradient in place. */
#define TILED_LOGITS_BYTES 6

static int64_t logits_bytes(const struct system *s, const struct rows *rows) {
  if (s->model->is_2d)
    return 0;
  int64_t tokens = rows->local;
  double per_logit = s->framework->logits_bytes;
  if (s->parallel.head_chunk > 0) {
    tokens = int64_min(tokens, s->parallel.head_chunk);
    per_logit = fmin(per_logit, TILED_LOGITS_BYTES);
  }
  return whole_bytes(per_logit * (double)s->model->vocab * (double)tokens);
}

/* What the published profile adds for captions and modulation beyond what exists; see memory.h. */
#define PROFILED_LAYERS 2

static int64_t repeated_inputs_bytes(const struct system *s, const struct rows *rows, const struct microbatch *mb) {
  const struct transformer *m = s->model;
  if (!m->is_2d)
    return 0;
  const int64_t blocks = 2 * int64_max(0, m->layers - PROFILED_LAYERS);
  return blocks * hidden_bytes(s, 1, rows->text + 2 * 6 * mb->batch);
}

struct memory_parts memory_parts(const struct system *s, int sp, const struct microbatch *mb, bool unequal_counts) {
  struct memory_parts p = {0};
  const struct rows rows = rows_of(s, sp, mb);
  const int64_t input = block_input_bytes(s, &rows);
  int64_t working = backward_bytes(s, &rows);
  add_states(s, unequal_counts, &p);
  p.activations_bytes = outside_bytes(s, &rows);
  for (int module = 0; module < transformer_modules(s->model); module++) {
    const int64_t recomputed = mb->recompute_blocks[module], kept = s->model->layers - recomputed;
    const int64_t saved = block_saved_bytes(s, &rows, module);
    ASSERT(recomputed >= 0 && kept >= 0);
    p.activations_bytes += kept * saved + recomputed * input;
    if (recomputed > 0) /* its forward again, its input is saved already */
      working = int64_max(working, saved - input);
  }
  p.working_bytes = working + gathered_bytes(s) + reduction_bytes(s);
  p.logits_bytes = logits_bytes(s, &rows);
  if (s->parallel.memory_rule == MEMORY_PUBLISHED)
    p.activations_bytes += repeated_inputs_bytes(s, &rows, mb);
  else
    p.reserve_bytes = params_reserve_bytes(s->params);
  p.total_bytes = p.weights_bytes + p.gradients_bytes + p.optimizer_bytes + p.activations_bytes + p.working_bytes +
                  p.logits_bytes + p.reserve_bytes;
  return p;
}

int64_t memory_peak_bytes(const struct system *s, int sp, const struct microbatch *mb, bool unequal_counts) {
  return memory_parts(s, sp, mb, unequal_counts).total_bytes;
}

int64_t memory_cap_bytes(const struct system *s, double frac) {
  return (int64_t)floor(frac * (double)s->cluster->memory_bytes);
}
