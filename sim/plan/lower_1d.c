/* The text transformer: models.md section 2, SP kinds ulysses (with its ring remainder) and ring. */
#include <stdlib.h>

#include "sim/base/units.h"
#include "sim/plan/lower_block.h"

/* How attention is split over the group: heads over u ranks, a ring of r outside. */
struct split {
  int u, r, u_nodes, r_nodes;
  int64_t heads, kv_heads; /* per rank */
  double qkv_bytes, out_bytes, hop_bytes;
};

static struct split split_of(const struct lowering *l) {
  const struct system *s = l->system;
  const struct transformer *m = s->model;
  struct split p = {0};
  system_sp_split(s, l->sp, &p.u, &p.r);
  p.u_nodes = system_sp_nodes(s, p.u);
  p.r_nodes = (int)int64_min(p.r, system_sp_nodes(s, l->sp));
  p.heads = m->heads / p.u;
  p.kv_heads = int64_max(1, m->kv_heads / p.u);
  double rows = (double)l->rows;
  /* With fewer KV heads than ranks each rank still needs one: K and V travel as u heads. */
  double kv_sent = (double)int64_max(m->kv_heads, p.u);
  p.qkv_bytes = rows * ((double)m->heads + 2 * kv_sent) * (double)m->head_dim * 2;
  p.out_bytes = rows * (double)(m->heads * m->head_dim) * 2;
  p.hop_bytes = 2 * (double)(p.kv_heads * m->head_dim) * rows * p.u * 2;
  return p;
}

/* The kernel's factor rises with length; the longest sequence's keeps a pack's time rising with its samples. */
static int64_t longest(const uint32_t *lengths, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; i++)
    most = lengths[i] > most ? lengths[i] : most;
  return most;
}

/* Attention of one of the r ring blocks on this rank. Block 0 is the rank's own (causal as the model is); the others
 * are full, and halved where the model is causal: zig-zag order gives every rank half of each foreign block. */
static double attention_block_s(const struct lowering *l, const struct split *p, int block, bool backward) {
  const struct transformer *m = l->system->model;
  const struct params *params = l->system->params;
  const struct microbatch *mb = l->mb;
  bool foreign = block > 0, causal = m->causal && !foreign;
  if (!mb->packed) {
    int64_t q = ceil_div(mb->seqlen, p->r), kv = foreign && m->causal ? ceil_div(q, 2) : q;
    struct attention_shape a = {causal, mb->batch, q, kv, p->heads, p->kv_heads, m->head_dim};
    double seconds = backward ? attention_backward_time_s(params, &a) : attention_forward_time_s(params, &a);
    return seconds * framework_attention_factor(l->system->framework, kv);
  }
  uint32_t *lengths = xmalloc(size_mul((size_t)mb->batch, sizeof *lengths));
  for (int64_t i = 0; i < mb->batch; i++)
    lengths[i] = (uint32_t)ceil_div(mb->packed[i].a, p->r);
  double t =
      backward
          ? attention_varlen_backward_time_s(params, causal, lengths, mb->batch, p->heads, p->kv_heads, m->head_dim)
          : attention_varlen_forward_time_s(params, causal, lengths, mb->batch, p->heads, p->kv_heads, m->head_dim);
  t *= framework_attention_factor(l->system->framework, longest(lengths, mb->batch));
  free(lengths);
  return foreign && m->causal ? t / 2 : t;
}

static void emit_attention(struct lowering *l, const struct split *p, bool backward) {
  const char *name = backward ? "attention_backward" : "attention";
  double *block_s = l->attention_s[backward]; /* kept: the same in every section, and dear where packs are long */
  for (int block = 0; block < 2 && block < p->r; block++)
    if (block_s[block] == 0)
      block_s[block] = attention_block_s(l, p, block, backward);
  for (int block = 0; block < p->r; block++) {
    bool more = block + 1 < p->r;
    if (more) /* K, V of the next block travel beside this block's attention; backward brings dK, dV, too */
      emit_exchange(l, "ring_kv", COLLECTIVE_SEND_RECV, p->r, p->r_nodes, p->hop_bytes * (backward ? 2 : 1));
    emit_compute(l, name, block_s[block > 0], WORK_ATTENTION, 1);
    l->program->ops[l->program->n_ops - 1].skip_last_exchange = more;
  }
}

static const char *const placed[] = {"norm", "rope", "residual_norm", "activation", "residual", NULL};

void lower_1d_block_forward(struct lowering *l) {
  const struct transformer *m = l->system->model;
  const struct microbatch *mb = l->mb;
  l->rows = ceil_div(microbatch_tokens(l->system, mb), l->sp);
  struct block_passes b = framework_block(l->system->framework, m, BLOCK_LAYER);
  struct split p = split_of(l);
  int64_t h = m->hidden, qkv = (m->heads + 2 * m->kv_heads) * m->head_dim, n = l->rows;
  emit_pass(l, b.forward, b.n_forward, "norm");
  emit_gemm(l, "qkv", n, qkv, h, WORK_TOKENS);
  emit_pass(l, b.forward, b.n_forward, "rope");
  if (p.u > 1)
    emit_exchange(l, "sp_qkv", COLLECTIVE_ALL_TO_ALL, p.u, p.u_nodes, p.qkv_bytes);
  emit_attention(l, &p, false);
  if (p.u > 1)
    emit_exchange(l, "sp_out", COLLECTIVE_ALL_TO_ALL, p.u, p.u_nodes, p.out_bytes);
  emit_gemm(l, "attn_out", n, h, m->heads * m->head_dim, WORK_TOKENS);
  emit_pass(l, b.forward, b.n_forward, "residual_norm");
  emit_gemm(l, "mlp_up", n, m->ffn * (m->mlp_matrices - 1), h, WORK_TOKENS);
  emit_pass(l, b.forward, b.n_forward, "activation");
  emit_gemm(l, "mlp_down", n, h, m->ffn, WORK_TOKENS);
  emit_pass(l, b.forward, b.n_forward, "residual");
  emit_other_passes(l, b.forward, b.n_forward, placed);
}

static void block_backward(struct lowering *l) {
  const struct transformer *m = l->system->model;
  struct block_passes b = framework_block(l->system->framework, m, BLOCK_LAYER);
  struct split p = split_of(l);
  int64_t h = m->hidden, qkv = (m->heads + 2 * m->kv_heads) * m->head_dim, n = l->rows;
  emit_pass(l, b.backward, b.n_backward, "residual");
  emit_gemm_backward(l, "mlp_down_dgrad", "mlp_down_wgrad", n, h, m->ffn, WORK_TOKENS);
  emit_pass(l, b.backward, b.n_backward, "activation");
  emit_gemm_backward(l, "mlp_up_dgrad", "mlp_up_wgrad", n, m->ffn * (m->mlp_matrices - 1), h, WORK_TOKENS);
  emit_pass(l, b.backward, b.n_backward, "residual_norm");
  emit_gemm_backward(l, "attn_out_dgrad", "attn_out_wgrad", n, h, m->heads * m->head_dim, WORK_TOKENS);
  if (p.u > 1)
    emit_exchange(l, "sp_out_grad", COLLECTIVE_ALL_TO_ALL, p.u, p.u_nodes, p.out_bytes);
  emit_attention(l, &p, true);
  if (p.u > 1)
    emit_exchange(l, "sp_qkv_grad", COLLECTIVE_ALL_TO_ALL, p.u, p.u_nodes, p.qkv_bytes);
  emit_pass(l, b.backward, b.n_backward, "rope");
  emit_gemm_backward(l, "qkv_dgrad", "qkv_wgrad", n, qkv, h, WORK_TOKENS);
  emit_pass(l, b.backward, b.n_backward, "norm");
  emit_other_passes(l, b.backward, b.n_backward, placed);
}

/* Traffic of whole weights beside the GEMMs: zero 3 copies what it gathered (and casts it, where it was gathered in
 * fp32). */
static void emit_weight_copy(struct lowering *l, double params) {
  const struct system *s = l->system;
  double bytes = s->parallel.zero == 3 ? params * s->framework->weight_copy_bytes : 0;
  if (bytes > 0)
    emit_compute(l, "weight_copy", memory_time_s(s->params, MEMORY_CONTIGUOUS, bytes), WORK_EXACT, 2);
}

/* Gradients: zero 3 copies them into the reduction's input; otherwise fp32 gradients are read and written where the
 * weight GEMM would have written bf16 once. */
static void emit_gradient_copy(struct lowering *l, double params) {
  const struct system *s = l->system;
  const int grad = s->parallel.grad_bytes;
  double bytes = s->parallel.zero == 3 ? s->framework->gradient_copy_bytes + grad : grad == 4 ? 2 * grad - 2 : 0;
  bytes *= params;
  if (bytes > 0)
    emit_compute(l, "gradient_copy", memory_time_s(s->params, MEMORY_CONTIGUOUS, bytes), WORK_EXACT, 2);
}

/* Final norm, head GEMM, loss, and their backward: once per micro-batch. */
static void emit_head(struct lowering *l) {
  const struct system *s = l->system;
  const struct transformer *m = s->model;
  double row_bytes = 2.0 * (double)m->hidden, n = (double)l->rows;
  emit_compute(l, "final_norm", memory_time_s(s->params, MEMORY_CONTIGUOUS, 2 * n * row_bytes), WORK_TOKENS, 1);
  emit_gemm(l, "head", l->rows, m->vocab, m->hidden, WORK_TOKENS);
  emit_compute(l, "cross_entropy",
               memory_time_s(s->params, MEMORY_CONTIGUOUS, n * (double)m->vocab * s->framework->loss_bytes_per_logit),
               WORK_TOKENS, 2);
  emit_gemm_backward(l, "head_dgrad", "head_wgrad", l->rows, m->vocab, m->hidden, WORK_TOKENS);
  emit_compute(l, "final_norm_backward", memory_time_s(s->params, MEMORY_CONTIGUOUS, 4 * n * row_bytes), WORK_TOKENS,
               1);
}

static void emit_backward_section(struct lowering *l, int repeat, bool recompute, bool last) {
  if (repeat == 0)
    return;
  const struct system *s = l->system;
  double params = (double)transformer_block_params(s->model, 0);
  double gathered = params * s->framework->gather_bytes_per_param;
  bool zero3 = s->parallel.zero == 3;
  program_begin_section(l->program, SECTION_BACKWARD, repeat);
  if (zero3) {
    emit_wait(l, 1); /* this block's parameters; the gradient of the block before may be on its way */
    emit_post(l, "param_gather", COLLECTIVE_ALL_GATHER, gathered);
    if (last)
      l->program->ops[l->program->n_ops - 1].last_bytes = -1;
  }
  emit_weight_copy(l, params);
  if (recompute) {
    l->category = TIMELINE_CAT_RECOMPUTE;
    lower_1d_block_forward(l);
    l->category = TIMELINE_CAT_COMPUTE;
  }
  block_backward(l);
  emit_gradient_copy(l, params);
  emit_post(l, "grad_reduce", s->parallel.zero == 0 ? COLLECTIVE_ALL_REDUCE : COLLECTIVE_REDUCE_SCATTER,
            params * s->parallel.grad_bytes);
}

void lower_1d(struct lowering *l) {
  const struct system *s = l->system;
  const struct transformer *m = s->model;
  bool zero3 = s->parallel.zero == 3;
  int recomputed = l->mb->recompute_blocks[0], kept = m->layers - recomputed;
  enum collective reduce = s->parallel.zero == 0 ? COLLECTIVE_ALL_REDUCE : COLLECTIVE_REDUCE_SCATTER;
  double gather = s->framework->gather_bytes_per_param, grad = s->parallel.grad_bytes;
  double block = (double)transformer_block_params(m, 0), table = (double)(m->vocab * m->hidden);
  double other = (double)transformer_other_params(m), head = m->tied_embeddings ? 0 : table;
  l->rows = ceil_div(microbatch_tokens(s, l->mb), l->sp);
  double row_bytes = 2.0 * (double)m->hidden * (double)l->rows;

  program_begin_section(l->program, SECTION_BEFORE, 1);
  if (zero3) {
    emit_post(l, "param_gather", COLLECTIVE_ALL_GATHER, gather * table);
    emit_wait(l, 0);
    emit_post(l, "param_gather", COLLECTIVE_ALL_GATHER, gather * block);
  }
  emit_weight_copy(l, table);
  emit_compute(l, "embedding", memory_time_s(s->params, MEMORY_CONTIGUOUS, 2 * row_bytes), WORK_TOKENS, 1);

  program_begin_section(l->program, SECTION_FORWARD, m->layers);
  if (zero3) {
    emit_wait(l, 0);
    emit_post(l, "param_gather", COLLECTIVE_ALL_GATHER, gather * block); /* one block ahead */
    l->program->ops[l->program->n_ops - 1].last_bytes = gather * table;  /* of the head */
  }
  emit_weight_copy(l, block);
  lower_1d_block_forward(l);

  program_begin_section(l->program, SECTION_TURN, 1);
  if (zero3) {
    emit_wait(l, 0);
    emit_post(l, "param_gather", COLLECTIVE_ALL_GATHER, gather * block);
  }
  emit_weight_copy(l, head);
  emit_head(l);
  emit_gradient_copy(l, head);
  emit_post(l, "grad_reduce", reduce, head * grad);

  emit_backward_section(l, recomputed, true, kept == 0);
  emit_backward_section(l, kept, false, true);

  program_begin_section(l->program, SECTION_AFTER, 1);
  emit_compute(l, "embedding_backward", memory_time_s(s->params, MEMORY_CONTIGUOUS, 3 * row_bytes), WORK_TOKENS, 1);
  emit_gradient_copy(l, other - head);
  emit_post(l, "grad_reduce", reduce, (other - head) * grad);

  double *padded = l->program->padded_work;
  double rows = (double)l->rows * l->sp;
  padded[WORK_EXACT] = 1;
  padded[WORK_TOKENS] = rows;
  padded[WORK_ATTENTION] = (double)l->mb->batch * (double)l->mb->seqlen * (double)l->mb->seqlen;
  if (l->mb->packed) {
    padded[WORK_ATTENTION] = 0;
    for (int64_t i = 0; i < l->mb->batch; i++)
      padded[WORK_ATTENTION] += (double)l->mb->packed[i].a * (double)l->mb->packed[i].a;
  }
}
