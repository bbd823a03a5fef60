/* The video DiT: pairs of a spatial and a temporal block, each with cross-attention to text; SP kind dsp: activations
 * are sharded over space, spatial blocks exchange to frames and back. Counts: models.md section 2 and framework.h. */
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/plan/lower_block.h"

/* Samples of equal extent: a padded micro-batch is one such class, a pack has one per distinct shape. */
struct extent {
  int64_t count, frames, positions;
};

struct extents {
  struct extent *v;
  size_t n, cap;
};

static struct extents extents_of(const struct microbatch *mb) {
  struct extents e = {0};
  if (!mb->packed) {
    struct extent one = {mb->batch, mb->frames, mb->positions};
    VEC_PUSH(e.v, e.n, e.cap, one);
    return e;
  }
  for (int64_t i = 0; i < mb->batch; i++) {
    size_t j = 0;
    while (j < e.n && (e.v[j].frames != mb->packed[i].a || e.v[j].positions != mb->packed[i].b))
      j++;
    if (j == e.n) {
      struct extent one = {0, mb->packed[i].a, mb->packed[i].b};
      VEC_PUSH(e.v, e.n, e.cap, one);
    }
    e.v[j].count++;
  }
  return e;
}

/* Frames of this class that one rank holds inside a spatial exchange. Images (one frame) scatter the batch instead. */
static int64_t exchanged_frames(const struct extent *e, int sp) {
  return e->frames == 1 ? ceil_div(e->count, sp) : e->count * ceil_div(e->frames, sp);
}

static int64_t local_rows(const struct extents *e, int sp) {
  int64_t n = 0;
  for (size_t i = 0; i < e->n; i++)
    n += e->v[i].count * e->v[i].frames * ceil_div(e->v[i].positions, sp);
  return n;
}

static int64_t spatial_rows(const struct extents *e, int sp) {
  int64_t n = 0;
  for (size_t i = 0; i < e->n; i++)
    n += exchanged_frames(&e->v[i], sp) * e->v[i].positions;
  return n;
}

/* Batched-matmul attention of short temporal sequences, as eager frameworks run it below 30 frames: seconds per head
 * and sequence forward, measured constant of the published set-up; backward moves 2.5 times as much. */
static const double UNFUSED_ATTENTION_S = 4.7e-9;

static double self_attention_s(const struct lowering *l, const struct extent *e, int module, bool backward) {
  const struct transformer *m = l->system->model;
  const struct params *p = l->system->params;
  struct attention_shape a = {.heads = m->heads, .kv_heads = m->kv_heads, .head_dim = m->head_dim};
  if (module == 0) {
    a.batch = exchanged_frames(e, l->sp);
    a.q_len = a.kv_len = e->positions;
  } else {
    struct block_passes b = framework_block(l->system->framework, m, block_kind_of(m, module, e->frames));
    a.batch = e->count * ceil_div(e->positions, l->sp);
    a.q_len = a.kv_len = e->frames;
    if (b.no_attention)
      return 0;
    if (b.unfused_attention)
      return UNFUSED_ATTENTION_S * (double)(a.heads * a.batch) * (backward ? 2.5 : 1);
  }
  return framework_attention_factor(l->system->framework, a.kv_len) *
         (backward ? attention_backward_time_s(p, &a) : attention_forward_time_s(p, &a));
}

/* FlashAttention 2 parallelises its backward over tiles of 128 keys, heads and sequences, never over queries: captions
 * of 300 tokens give 3 tiles, so at 16 heads one sample occupies 48 of an H100's or H200's 132 SMs, and four samples
 * take as many waves as five. A tile takes an SM alone: its 256 threads need more than half of the registers. */
static double key_parallel_slowdown(const struct framework *f, const struct attention_shape *a) {
  enum { KEY_TILE = 128, SMS = 132 };
  if (f->attention_kernel != ATTENTION_FLASH_2)
    return 1;
  int64_t tiles = ceil_div(a->kv_len, KEY_TILE) * a->heads * a->batch;
  return (double)(ceil_div(tiles, SMS) * SMS) / (double)tiles;
}

/* The published block attends sample by sample where there are many rows; each is then a launch of its own. */
static bool sample_by_sample(const struct lowering *l, const struct extent *e) {
  const int64_t limit = l->system->framework->cross_attention_rows;
  return limit > 0 && l->rows > limit && e->count > 1;
}

static double cross_attention_s(const struct lowering *l, const struct extent *e, bool backward) {
  const struct transformer *m = l->system->model;
  const struct framework *f = l->system->framework;
  const int64_t launches = sample_by_sample(l, e) ? e->count : 1;
  struct attention_shape a = {.batch = e->count / launches,
                              .q_len = e->frames * ceil_div(e->positions, l->sp),
                              .kv_len = m->text_tokens,
                              .heads = m->heads,
                              .kv_heads = m->kv_heads,
                              .head_dim = m->head_dim};
  double seconds = backward ? key_parallel_slowdown(f, &a) * attention_backward_time_s(l->system->params, &a)
                            : attention_forward_time_s(l->system->params, &a);
  return framework_attention_factor(f, a.kv_len) * (double)launches * seconds;
}

static void emit_self_attention(struct lowering *l, const struct extents *e, int module, bool backward) {
  double t = 0;
  for (size_t i = 0; i < e->n; i++)
    t += self_attention_s(l, &e->v[i], module, backward);
  const char *name = module == 0 ? (backward ? "spatial_attention_backward" : "spatial_attention")
                                 : (backward ? "temporal_attention_backward" : "temporal_attention");
  if (t > 0)
    emit_compute(l, name, t, module == 0 ? WORK_SPATIAL_ATTENTION : WORK_ATTENTION, (int)e->n);
}

static void emit_cross_attention(struct lowering *l, const struct extents *e, bool backward) {
  double t = 0, joined = 0;
  int kernels = 0;
  for (size_t i = 0; i < e->n; i++) {
    const bool one = sample_by_sample(l, &e->v[i]);
    t += cross_attention_s(l, &e->v[i], backward);
    kernels += one ? (int)e->v[i].count : 1;
    joined += one ? (double)(e->v[i].count * e->v[i].frames * ceil_div(e->v[i].positions, l->sp)) : 0;
  }
  emit_compute(l, backward ? "cross_attention_backward" : "cross_attention", t, WORK_TOKENS, kernels);
  if (joined > 0 && !backward) /* the samples' outputs are concatenated: read and written */
    emit_compute(l, "cross_attention_concat",
                 memory_time_s(l->system->params, MEMORY_CONTIGUOUS, 4 * (double)l->system->model->hidden * joined),
                 WORK_TOKENS, 1);
}

/* One all-to-all of the spatial exchange, with the copies that pack and unpack it. */
static void emit_dsp_exchange(struct lowering *l, const char *name) {
  if (l->sp == 1)
    return;
  const struct system *s = l->system;
  double bytes = 2.0 * (double)s->model->hidden * (double)l->rows;
  double copy_s = memory_time_s(s->params, MEMORY_PERMUTE, s->framework->exchange_pack_u * bytes / 2);
  emit_compute(l, "exchange_pack", copy_s, WORK_TOKENS, 1);
  emit_exchange(l, name, COLLECTIVE_ALL_TO_ALL, l->sp, system_sp_nodes(s, l->sp), bytes);
  emit_compute(l, "exchange_unpack", copy_s, WORK_TOKENS, 1);
}

/* Memory passes of a block: over the extents of a pack by their rows, since they differ with the frame count. */
static struct block_passes passes_of(struct lowering *l, const struct extent *e, int module) {
  l->rows = e->count * e->frames * ceil_div(e->positions, l->sp);
  l->text_rows = e->count * l->system->model->text_tokens;
  return framework_block(l->system->framework, l->system->model, block_kind_of(l->system->model, module, e->frames));
}

/* The passes whose place in the order is known: what the fused kernels are called. */
static const char *const placed[] = {
    "norm_modulate", "qk_norm", "attention_gate", "residual_norm", "activation", "mlp_gate", "residual", "text", NULL};

/* One of them, over all extents. */
static void emit_placed(struct lowering *l, const struct extents *e, int module, bool backward, const char *name) {
  int64_t rows = l->rows, text_rows = l->text_rows;
  double seconds = 0;
  int kernels = 0;
  for (size_t i = 0; i < e->n; i++) {
    struct block_passes b = passes_of(l, &e->v[i], module);
    const struct memory_pass *passes = backward ? b.backward : b.forward;
    for (int j = 0; j < (backward ? b.n_backward : b.n_forward); j++)
      if (strcmp(passes[j].name, name) == 0) {
        seconds += pass_time_s(l, &passes[j]);
        kernels += passes[j].kernels;
      }
  }
  l->rows = rows;
  l->text_rows = text_rows;
  if (seconds > 0)
    emit_compute(l, name, seconds, WORK_TOKENS, kernels);
}

/* All others, of frameworks that run them between the GEMMs: in one lump. */
static void emit_others(struct lowering *l, const struct extents *e, int module, bool backward) {
  int64_t rows = l->rows, text_rows = l->text_rows;
  for (size_t i = 0; i < e->n; i++) {
    struct block_passes b = passes_of(l, &e->v[i], module);
    emit_other_passes(l, backward ? b.backward : b.forward, backward ? b.n_backward : b.n_forward, placed);
    if (l->sp == 1)
      emit_one_pass(l, backward ? &b.strided_backward : &b.strided_forward);
  }
  l->rows = rows;
  l->text_rows = text_rows;
}

static void set_rows(struct lowering *l, const struct extents *e) {
  l->rows = local_rows(e, l->sp);
  l->text_rows = l->mb->batch * l->system->model->text_tokens;
}

void lower_2d_block_forward(struct lowering *l, int module) {
  const struct transformer *m = l->system->model;
  struct extents e = extents_of(l->mb);
  set_rows(l, &e);
  l->module = (uint8_t)module;
  int64_t h = m->hidden, n = l->rows, qkv = (m->heads + 2 * m->kv_heads) * m->head_dim, o = m->heads * m->head_dim;
  int64_t attention_rows = module == 0 ? spatial_rows(&e, l->sp) : n;
  enum work_class rows_work = module == 0 ? WORK_SPATIAL_TOKENS : WORK_TOKENS;
  struct block_passes b = framework_block(l->system->framework, m, block_kind_of(m, module, e.v[0].frames));
  emit_others(l, &e, module, false);
  emit_placed(l, &e, module, false, "norm_modulate");
  if (module == 0)
    emit_dsp_exchange(l, "sp_to_frames");
  emit_gemm(l, "qkv", attention_rows, qkv, h, rows_work);
  emit_placed(l, &e, module, false, "qk_norm");
  emit_self_attention(l, &e, module, false);
  emit_gemm(l, "attn_out", attention_rows, h, o, rows_work);
  if (module == 0)
    emit_dsp_exchange(l, "sp_to_space");
  emit_placed(l, &e, module, false, "attention_gate");
  emit_gemm(l, "cross_q", n, h, h, WORK_TOKENS);
  emit_gemm(l, "cross_kv", l->text_rows, 2 * h, h, WORK_EXACT);
  emit_cross_attention(l, &e, false);
  emit_gemm(l, "cross_out", n, h, h, WORK_TOKENS);
  emit_placed(l, &e, module, false, "residual_norm");
  emit_gemm(l, "mlp_up", n, m->ffn * (m->mlp_matrices - 1), h, WORK_TOKENS);
  emit_placed(l, &e, module, false, "activation");
  emit_gemm(l, "mlp_down", n, h, m->ffn, WORK_TOKENS);
  emit_placed(l, &e, module, false, "mlp_gate");
  for (int i = 0; i < b.host_syncs; i++)
    emit_host(l, "host_sync", 0);
  free(e.v);
}

static void block_backward(struct lowering *l, int module) {
  const struct transformer *m = l->system->model;
  struct extents e = extents_of(l->mb);
  l->module = (uint8_t)module;
  int64_t h = m->hidden, n = l->rows, qkv = (m->heads + 2 * m->kv_heads) * m->head_dim, o = m->heads * m->head_dim;
  int64_t attention_rows = module == 0 ? spatial_rows(&e, l->sp) : n;
  enum work_class rows_work = module == 0 ? WORK_SPATIAL_TOKENS : WORK_TOKENS;
  emit_others(l, &e, module, true);
  emit_placed(l, &e, module, true, "mlp_gate");
  emit_gemm_backward(l, "mlp_down_dgrad", "mlp_down_wgrad", n, h, m->ffn, WORK_TOKENS);
  emit_placed(l, &e, module, true, "activation");
  emit_gemm_backward(l, "mlp_up_dgrad", "mlp_up_wgrad", n, m->ffn * (m->mlp_matrices - 1), h, WORK_TOKENS);
  emit_placed(l, &e, module, true, "residual_norm");
  emit_gemm_backward(l, "cross_out_dgrad", "cross_out_wgrad", n, h, h, WORK_TOKENS);
  emit_cross_attention(l, &e, true);
  emit_gemm_backward(l, "cross_kv_dgrad", "cross_kv_wgrad", l->text_rows, 2 * h, h, WORK_EXACT);
  emit_placed(l, &e, module, true, "text");
  emit_gemm_backward(l, "cross_q_dgrad", "cross_q_wgrad", n, h, h, WORK_TOKENS);
  emit_placed(l, &e, module, true, "residual");
  emit_placed(l, &e, module, true, "attention_gate");
  if (module == 0)
    emit_dsp_exchange(l, "sp_to_frames_grad");
  emit_gemm_backward(l, "attn_out_dgrad", "attn_out_wgrad", attention_rows, h, o, rows_work);
  emit_self_attention(l, &e, module, true);
  emit_placed(l, &e, module, true, "qk_norm");
  emit_gemm_backward(l, "qkv_dgrad", "qkv_wgrad", attention_rows, qkv, h, rows_work);
  if (module == 0)
    emit_dsp_exchange(l, "sp_to_space_grad");
  emit_placed(l, &e, module, true, "norm_modulate");
  free(e.v);
}

static void emit_captions(struct lowering *l) {
  const struct system *s = l->system;
  double copied = s->framework->host_copy_bytes_per_text_token * (double)(l->text_rows * s->model->text_channels);
  if (copied > 0)
    emit_host(l, "host_copy", host_copy_time_s(s->params, copied));
}

/* Patches, timestep and caption embeddings: on the whole sample, on every rank of the group. */
static void emit_inputs(struct lowering *l) {
  const struct system *s = l->system;
  const struct transformer *m = s->model;
  int64_t h = m->hidden, batch = l->mb->batch, tokens = microbatch_tokens(s, l->mb);
  emit_gemm(l, "patch_embed", tokens, h, m->in_channels, WORK_TOKENS);
  emit_gemm(l, "time_embed", batch, h, m->frequency_dim, WORK_EXACT);
  emit_gemm(l, "modulation", batch, 6 * h, h, WORK_EXACT);
  emit_gemm(l, "caption_embed", l->text_rows, h, m->text_channels, WORK_EXACT);
  emit_gemm(l, "caption_project", l->text_rows, h, h, WORK_EXACT);
}

/* Gathering the sequence, the final layer and its backward, on the whole sample. */
static void emit_outputs(struct lowering *l) {
  const struct system *s = l->system;
  const struct transformer *m = s->model;
  int64_t tokens = microbatch_tokens(s, l->mb);
  double bytes = 2.0 * (double)m->hidden * (double)tokens;
  if (l->sp > 1)
    emit_exchange(l, "sp_gather", COLLECTIVE_ALL_GATHER, l->sp, system_sp_nodes(s, l->sp), bytes);
  emit_compute(l, "final_norm", memory_time_s(s->params, MEMORY_CONTIGUOUS, 2 * bytes), WORK_TOKENS, 2);
  emit_gemm(l, "final_layer", tokens, m->out_channels, m->hidden, WORK_TOKENS);
  emit_gemm_backward(l, "final_layer_dgrad", "final_layer_wgrad", tokens, m->out_channels, m->hidden, WORK_TOKENS);
  emit_compute(l, "final_norm_backward", memory_time_s(s->params, MEMORY_CONTIGUOUS, 4 * bytes), WORK_TOKENS, 2);
}

static void emit_input_backward(struct lowering *l) {
  const struct transformer *m = l->system->model;
  const struct params *p = l->system->params;
  int64_t h = m->hidden, tokens = microbatch_tokens(l->system, l->mb);
  emit_gemm_backward(l, "caption_project_dgrad", "caption_project_wgrad", l->text_rows, h, h, WORK_EXACT);
  emit_compute(l, "caption_embed_wgrad", gemm_wgrad_time_s(p, m->text_channels, h, l->text_rows), WORK_EXACT, 1);
  emit_compute(l, "patch_embed_wgrad", gemm_wgrad_time_s(p, m->in_channels, h, tokens), WORK_TOKENS, 1);
}

static void emit_gradient_post(struct lowering *l, double params) {
  const struct parallel *p = &l->system->parallel;
  emit_post(l, "grad_reduce", p->zero == 0 ? COLLECTIVE_ALL_REDUCE : COLLECTIVE_REDUCE_SCATTER, params * p->grad_bytes);
}

static void emit_gather_post(struct lowering *l, double params, bool skip_last) {
  emit_post(l, "param_gather", COLLECTIVE_ALL_GATHER, 2 * params);
  if (skip_last)
    l->program->ops[l->program->n_ops - 1].last_bytes = -1;
}

/* `repeat` pairs of the backward; `last`: no pair follows. Parameters (zero 3) travel by whole pairs. */
static void emit_backward_section(struct lowering *l, int repeat, const bool recompute[2], bool last) {
  if (repeat == 0)
    return;
  const struct system *s = l->system;
  double params[2] = {(double)transformer_block_params(s->model, 0), (double)transformer_block_params(s->model, 1)};
  program_begin_section(l->program, SECTION_BACKWARD, repeat);
  if (s->parallel.zero == 3) {
    emit_wait(l, 1);
    emit_gather_post(l, params[0] + params[1], last);
  }
  for (int module = 1; module >= 0; module--) {
    if (recompute[module]) {
      l->category = TIMELINE_CAT_RECOMPUTE;
      lower_2d_block_forward(l, module);
      l->category = TIMELINE_CAT_COMPUTE;
    }
    block_backward(l, module);
    if (s->parallel.zero < 3)
      emit_gradient_post(l, params[module]);
  }
  if (s->parallel.zero == 3)
    emit_gradient_post(l, params[0] + params[1]);
}

static void set_padded_work(struct lowering *l, const struct extents *e) {
  double *w = l->program->padded_work;
  w[WORK_EXACT] = 1;
  for (size_t i = 0; i < e->n; i++) {
    double t = (double)e->v[i].frames, s = (double)e->v[i].positions;
    double rows = (double)(e->v[i].count * ceil_div(e->v[i].positions, l->sp) * l->sp) * t;
    double exchanged = (double)(exchanged_frames(&e->v[i], l->sp) * l->sp) * s;
    w[WORK_TOKENS] += rows;
    w[WORK_ATTENTION] += rows * t;
    w[WORK_SPATIAL_TOKENS] += exchanged;
    w[WORK_SPATIAL_ATTENTION] += exchanged * s;
  }
}

void lower_2d(struct lowering *l) {
  const struct system *s = l->system;
  const struct transformer *m = s->model;
  bool zero3 = s->parallel.zero == 3;
  struct extents e = extents_of(l->mb);
  set_rows(l, &e);
  double pair = (double)(transformer_block_params(m, 0) + transformer_block_params(m, 1));
  double other = (double)transformer_other_params(m);
  const int *recomputed = l->mb->recompute_blocks;
  int both = (int)int64_min(recomputed[0], recomputed[1]), any = (int)int64_max(recomputed[0], recomputed[1]);

  program_begin_section(l->program, SECTION_BEFORE, 1);
  emit_captions(l);
  if (zero3) {
    emit_gather_post(l, other, false); /* kept until the end of the micro-batch */
    emit_wait(l, 0);
    emit_gather_post(l, pair, false);
  }
  emit_inputs(l);
  program_begin_section(l->program, SECTION_FORWARD, m->layers);
  if (zero3) {
    emit_wait(l, 0);
    emit_gather_post(l, pair, false); /* one pair ahead; the last is the first of the backward */
  }
  lower_2d_block_forward(l, 0);
  lower_2d_block_forward(l, 1);

  program_begin_section(l->program, SECTION_TURN, 1);
  emit_outputs(l);
  if (zero3)
    emit_gradient_post(l, 0);
  /* The first blocks keep their activations, so the backward meets the recomputed ones first. */
  emit_backward_section(l, both, (bool[2]){true, true}, both == m->layers);
  emit_backward_section(l, any - both, (bool[2]){recomputed[0] > recomputed[1], recomputed[1] > recomputed[0]},
                        any == m->layers);
  emit_backward_section(l, m->layers - any, (bool[2]){false, false}, true);
  program_begin_section(l->program, SECTION_AFTER, 1);
  emit_input_backward(l);
  emit_gradient_post(l, other);
  set_padded_work(l, &e);
  free(e.v);
}
