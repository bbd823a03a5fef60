/* How the passes were counted.
 *
 * Logits, eager: bf16 logits 2 (the caller holds them), their log-softmax in fp32 4, its gradient in fp32 4 (Hugging
 * Face and torchtitan losses; Qwen3-4B with Ulysses on 4 GPUs: the measured slope of 1.89 MB per token of a rank is
 * 0.38 MB of saved tensors and 9.9 bytes per logit).
 *
 * Zero 3, as PyTorch FSDP2 does it: gathered weights are copied out of the gather buffer (read and write 2 bytes), a
 * gradient is read (2 bytes) and written as the reduction's input (grad_bytes).
 *
 * 2D, eager profiles: COUNTED by running the published STDiT3 block (torch 1.13) and logging every operation with its
 * bytes and layouts, forward and backward; u is one read or write of (rows, hidden) in bf16. Spatial, forward:
 * broadcast 36, permuting 4, contiguous 25; backward: broadcast 32, reductions 33.5, the rest contiguous. Temporal: 44
 * / 8 / 49 and 40 / 33.5 / rest. eager adds RMSNorm in fp32 for q and k: 28.4 forward, 79 backward, 8.1 saved.
 * FlashAttention 2 adds an fp32 dq accumulator and a do*o pass, 9 u per call, two calls a block (one where temporal
 * attention is not flash).
 *
 * 2D fused and all 1D profiles: counted here from the architecture, operation by operation; the comment at each pass
 * says what it reads and writes. A fused kernel reads each input once and writes each output once. */
#include "models/framework.h"

#include <math.h>
#include <string.h>

#include "sim/base/json.h"
#include "sim/base/units.h"

enum framework_kind { FUSED, EAGER, EAGER_APEX, FRAMEWORKS };

static const struct framework frameworks[FRAMEWORKS] = {
    [FUSED] = {.kind = FUSED,
               .name = "fused",
               .source = "compiled or hand-fused kernels; passes counted from the architecture; bucket: Megatron-Core "
                         "default of 40e6 parameters, reduced in place",
               .grad_bucket_bytes = 80000000,
               .grad_buffers = 0,
               .loss_bytes_per_logit = 6,
               .exchange_pack_u = 2,
               .host_copy_bytes_per_text_token = 2,
               .logits_bytes = 4,
               .attention_kernel = ATTENTION_NEWEST,
               .gather_bytes_per_param = 2,
               .weight_copy_bytes = 4,
               .gradient_copy_bytes = 2},
    [EAGER] = {.kind = EAGER,
               .name = "eager",
               .source = "PyTorch eager, RMSNorm in fp32; 2D passes counted by running the STDiT3 block, 1D from the "
                         "architecture; bucket: DeepSpeed default of 5e8 elements",
               .grad_bucket_bytes = 1000000000,
               .grad_buffers = 2,
               .loss_bytes_per_logit = 24,
               .exchange_pack_u = 4,
               .host_copy_bytes_per_text_token = 4,
               .logits_bytes = 10,
               .attention_kernel = ATTENTION_FLASH_2,
               .cross_attention_rows = 200000,
               .gather_bytes_per_param = 2,
               .weight_copy_bytes = 4,
               .gradient_copy_bytes = 2},
    [EAGER_APEX] = {.kind = EAGER_APEX,
                    .name = "eager_apex",
                    .source =
                        "PyTorch eager with Apex norms; 2D passes counted by running the STDiT3 block, 1D from the "
                        "architecture; bucket: DeepSpeed default of 5e8 elements",
                    .grad_bucket_bytes = 1000000000,
                    .grad_buffers = 2,
                    .loss_bytes_per_logit = 24,
                    .exchange_pack_u = 4,
                    .host_copy_bytes_per_text_token = 4,
                    .logits_bytes = 10,
                    .attention_kernel = ATTENTION_FLASH_2,
                    .cross_attention_rows = 200000,
                    .gather_bytes_per_param = 2,
                    .weight_copy_bytes = 4,
                    .gradient_copy_bytes = 2},
};

const struct framework *framework_find(const char *name, struct err *err) {
  const char *names[FRAMEWORKS + 1] = {NULL};
  for (int i = 0; i < FRAMEWORKS; i++) {
    if (strcmp(frameworks[i].name, name) == 0)
      return &frameworks[i];
    names[i] = frameworks[i].name;
  }
  const char *near = nearest_word(name, names);
  err_usage(err, "unknown framework '%s'%s%s%s; valid: fused, eager, eager_apex", name, near ? ": did you mean '" : "",
            near ? near : "", near ? "'?" : "");
  return NULL;
}

void framework_list(FILE *out) {
  for (int i = 0; i < FRAMEWORKS; i++)
    fprintf(out, "%-10s  %s\n", frameworks[i].name, frameworks[i].source);
}

double framework_attention_factor(const struct framework *f, int64_t keys) {
  static const double flash_2[] = {1.0, 1.2, 1.45, 1.6, 1.7, 1.75}; /* at 512 keys, and each doubling */
  enum { LAST = sizeof flash_2 / sizeof flash_2[0] - 1 };
  if (f->attention_kernel == ATTENTION_NEWEST || keys <= 0)
    return 1;
  double place = log2((double)keys / 512), factor = flash_2[LAST];
  if (place <= 0)
    factor = flash_2[0];
  else if (place < LAST)
    factor = flash_2[(int)place] + (place - floor(place)) * (flash_2[(int)place + 1] - flash_2[(int)place]);
  return f->attention_kernel == ATTENTION_FLASH_1 ? 1.8 * factor : factor;
}

enum block_kind block_kind_of(const struct transformer *m, int module, int64_t frames) {
  ASSERT(module >= 0 && module < transformer_modules(m));
  if (!m->is_2d)
    return BLOCK_LAYER;
  if (module == 0)
    return BLOCK_SPATIAL;
  if (frames == 1)
    return BLOCK_TEMPORAL_ONE;
  return frames < 30 ? BLOCK_TEMPORAL_SHORT : BLOCK_TEMPORAL;
}

static void add_forward(struct block_passes *b, struct memory_pass pass) {
  ASSERT(b->n_forward < MAX_PASSES);
  b->forward[b->n_forward++] = pass;
}

static void add_backward(struct block_passes *b, struct memory_pass pass) {
  ASSERT(b->n_backward < MAX_PASSES);
  b->backward[b->n_backward++] = pass;
}

/* Widths of a layer in units of the hidden size or of the qkv projection. */
struct widths {
  double q, kv, ffn; /* heads*head_dim, kv_heads*head_dim, ffn over hidden */
  double qk_of_qkv;  /* (heads + kv_heads) / (heads + 2*kv_heads) */
  bool gated, rope, grouped;
};

static struct widths widths_of(const struct transformer *m) {
  const double h = (double)m->hidden, a = (double)m->heads, k = (double)m->kv_heads, d = (double)m->head_dim;
  return (struct widths){.q = a * d / h,
                         .kv = k * d / h,
                         .ffn = (double)m->ffn / h,
                         .qk_of_qkv = (a + k) / (a + 2 * k),
                         .gated = m->mlp_matrices == 3,
                         .rope = m->learned_positions == 0,
                         .grouped = m->kv_heads < m->heads};
}

/* Saved: block input, norm output, q, k, v, attention output, second norm's input and output, MLP intermediates
 * (Korthikanti et al. 2022 without dropout: 16 + 4f/h bytes for GELU), and q, k before their norm. */
static struct block_passes layer_fused(const struct transformer *m) {
  const struct widths w = widths_of(m);
  struct block_passes b = {0};
  add_forward(&b, (struct memory_pass){.name = "norm", .hidden_u = 2, .kernels = 1}); /* read x, write normed */
  if (w.rope || m->qk_norm) /* in place on q and k; a q, k norm joins the same kernel */
    add_forward(&b, (struct memory_pass){.name = "rope", .qkv_u = 2 * w.qk_of_qkv, .kernels = 1});
  /* read x and the projection, write the sum and its norm */
  add_forward(&b, (struct memory_pass){.name = "residual_norm", .hidden_u = 4, .kernels = 1});
  /* gated: read gate and up, write the product; else read, write */
  add_forward(&b, (struct memory_pass){.name = "activation", .ffn_u = w.gated ? 3 : 2, .kernels = 1});
  add_forward(&b, (struct memory_pass){.name = "residual", .hidden_u = 3, .kernels = 1});

  /* gated: read the gradient, gate and up, write two gradients; else read gradient and input, write one */
  add_backward(&b, (struct memory_pass){.name = "activation", .ffn_u = w.gated ? 5 : 3, .kernels = 1});
  /* read gradient, x and the residual's gradient, write dx; the weight's column sums ride along */
  add_backward(&b, (struct memory_pass){.name = "residual_norm", .hidden_u = 4, .kernels = 2});
  if (w.rope || m->qk_norm)
    add_backward(&b, (struct memory_pass){.name = "rope", .qkv_u = (m->qk_norm ? 3 : 2) * w.qk_of_qkv, .kernels = 1});
  add_backward(&b, (struct memory_pass){.name = "norm", .hidden_u = 4, .kernels = 2});
  b.saved_u = 4 + 2 * w.q + 2 * w.kv + (w.gated ? 3 : 2) * w.ffn + (m->qk_norm ? w.q + w.kv : 0);
  return b;
}

/* One norm under eager execution; apex: one kernel. fp32 RMSNorm: what the counted STDiT3 block adds per norm over Apex
 * (28.4 / 2 forward, 79 / 2 backward, 6 and 13 kernels) on top of Apex's 2 and 4. LayerNorm is one native kernel. */
static void add_eager_norms(struct block_passes *b, const struct transformer *m, bool apex, double norms, double width,
                            bool of_qk) {
  const bool native = apex || (m->norm_bias && !of_qk);
  const int n = (int)norms;
  add_forward(b, (struct memory_pass){.name = of_qk ? "qk_norm" : "norm",
                                      .hidden_u = width * (native ? 2 : 16.2),
                                      .kernels = native ? n : 7 * n});
  add_backward(b, (struct memory_pass){.name = of_qk ? "qk_norm" : "norm",
                                       .hidden_u = width * (native ? 3 : 42.5),
                                       .kernels = native ? n : 14 * n});
  add_backward(b, (struct memory_pass){.name = of_qk ? "qk_norm_weights" : "norm_weights",
                                       .class = MEMORY_REDUCTION,
                                       .hidden_u = width * 1,
                                       .kernels = n});
}

static void add_eager_rope(struct block_passes *b, const struct widths *w) {
  /* q*cos 2, rotate_half: negate half 1, concatenate 2, times sin 2, add 3; the same for k: 8 kernels of 5 sorts */
  if (w->rope) {
    add_forward(
        b, (struct memory_pass){.name = "rope", .class = MEMORY_BROADCAST, .qkv_u = 10 * w->qk_of_qkv, .kernels = 10});
    /* the two products 4, the halves back 4, the sum of both branches 3 */
    add_backward(
        b, (struct memory_pass){.name = "rope", .class = MEMORY_BROADCAST, .qkv_u = 11 * w->qk_of_qkv, .kernels = 12});
  }
  if (w->grouped) { /* k and v copied for every head: read 2 kv, write 2 q; backward sums them up */
    add_forward(b, (struct memory_pass){
                       .name = "repeat_kv", .class = MEMORY_PERMUTE, .hidden_u = 2 * (w->q + w->kv), .kernels = 2});
    add_backward(b, (struct memory_pass){
                        .name = "repeat_kv", .class = MEMORY_REDUCTION, .hidden_u = 2 * (w->q + w->kv), .kernels = 2});
  }
}

/* Column sums of the gradients of biased linear layers, one read each. */
static void add_eager_bias(struct block_passes *b, const struct transformer *m, const struct widths *w) {
  if (!m->linear_bias && !m->qkv_bias)
    return;
  struct memory_pass bias = {.name = "bias_backward", .class = MEMORY_REDUCTION, .qkv_u = 1, .kernels = 3};
  if (m->linear_bias) {
    bias.hidden_u = 2;
    bias.ffn_u = w->gated ? 2 : 1;
    bias.kernels = w->gated ? 5 : 4;
  }
  add_backward(b, bias);
}

/* Saved: block input, two norms (fp32 input, normalised, output; native: the second's input, both outputs), q, k and v
 * for every head where grouped, attention output and its contiguous copy, MLP intermediates (gated: gate, its
 * activation, up, product). Llama-3.1-8B: 28.0 hidden-state copies, Qwen3-4B: 38.2 (measured 28.0 and 38.0). */
static struct block_passes layer_eager(const struct framework *f, const struct transformer *m) {
  const bool apex = f->kind == EAGER_APEX;
  const struct widths w = widths_of(m);
  struct block_passes b = {0};
  add_eager_norms(&b, m, apex, 2, 2, false);
  if (m->qk_norm)
    add_eager_norms(&b, m, apex, 2, w.q + w.kv, true);
  add_eager_rope(&b, &w);
  add_forward(
      &b, (struct memory_pass){.name = "attention_out", .class = MEMORY_PERMUTE, .hidden_u = 2 * w.q, .kernels = 1});
  add_forward(&b, (struct memory_pass){.name = "residual", .hidden_u = 6, .kernels = 2});
  /* gated: silu 2, times up 3; else 2 */
  add_forward(&b, (struct memory_pass){.name = "activation", .ffn_u = w.gated ? 5 : 2, .kernels = w.gated ? 2 : 1});

  /* gated: the product's two gradients 6, silu 3; else 3 */
  add_backward(&b, (struct memory_pass){.name = "activation", .ffn_u = w.gated ? 9 : 3, .kernels = w.gated ? 3 : 1});
  /* gated: gradients of gate and up meet in one hidden gradient (3); two residual branches (6) */
  add_backward(&b, (struct memory_pass){.name = "residual", .hidden_u = w.gated ? 9 : 6, .kernels = 3});
  /* gradients of q, k and v: transposes; gated models (Llama) have three projections, whose input gradients are summed;
   * the figures of FlashAttention 2 include what its backward pass does besides */
  add_backward(&b, (struct memory_pass){.name = "qkv_backward", .class = MEMORY_PERMUTE, .qkv_u = 2, .kernels = 3});
  if (w.gated)
    add_backward(&b, (struct memory_pass){.name = "qkv_sum", .hidden_u = 6, .kernels = 2});
  if (f->fp32_residual) { /* on top of the passes above, which are of 2 bytes a value; for each of two branches: */
    /* cast before the norm 3, residual add reads and writes 4 bytes instead of 2: 2 */
    add_forward(&b, (struct memory_pass){.name = "fp32_residual", .hidden_u = 10, .kernels = 2});
    /* the norm's gradient cast up 3, summed in fp32 3 more, the sum cast down for the branch 3 */
    add_backward(&b, (struct memory_pass){.name = "fp32_residual", .hidden_u = 18, .kernels = 4});
    b.saved_u += 2;
  }
  add_eager_bias(&b, m, &w);
  const bool native = apex || m->norm_bias;
  b.saved_u += (native ? 4 : 9) + w.q + (w.grouped ? 2 * w.q : 2 * w.kv) + 2 * w.q;
  b.saved_u += (w.gated ? 4 : 2) * w.ffn;
  if (m->qk_norm)
    b.saved_u += (apex ? 1 : 3) * (w.q + w.kv);
  return b;
}

/* 2D, fused: modulation, gates, masks and residual adds join the norms; layouts are handled by the exchange and the
 * attention kernels' strides. Saved: x, modulated norm, q, k before and after norm, v, attention output, gate input,
 * cross q, output and its input, second norm's input and output, two MLP intermediates. */
static struct block_passes block_fused(const struct transformer *m, enum block_kind kind) {
  const struct widths w = widths_of(m);
  const bool one = kind == BLOCK_TEMPORAL_ONE;
  struct block_passes b = {.no_attention = one};
  add_forward(&b, (struct memory_pass){.name = "norm_modulate", .hidden_u = 2, .kernels = 1});
  if (!one) /* in place; rope of temporal blocks joins it */
    add_forward(&b, (struct memory_pass){.name = "qk_norm", .qkv_u = 4.0 / 3, .kernels = 1});
  add_forward(&b, (struct memory_pass){.name = "attention_gate", .hidden_u = 3, .kernels = 1});
  add_forward(&b, (struct memory_pass){.name = "residual_norm", .hidden_u = 4, .kernels = 1});
  add_forward(&b, (struct memory_pass){.name = "activation", .ffn_u = 2, .kernels = 1});
  add_forward(&b, (struct memory_pass){.name = "mlp_gate", .hidden_u = 3, .kernels = 1});

  /* gate: read gradient and gated value, write the gradient; column sums for the gate ride along */
  add_backward(&b, (struct memory_pass){.name = "mlp_gate", .hidden_u = 3, .kernels = 2});
  add_backward(&b, (struct memory_pass){.name = "activation", .ffn_u = 3, .kernels = 1});
  /* modulated norm: read gradient, x, residual gradient, write dx */
  add_backward(&b, (struct memory_pass){.name = "residual_norm", .hidden_u = 4, .kernels = 2});
  /* caption gradient: read it, add, write */
  add_backward(&b, (struct memory_pass){.name = "text", .text_u = 3, .kernels = 1});
  add_backward(&b, (struct memory_pass){.name = "residual", .hidden_u = 3, .kernels = 1}); /* around cross-attention */
  add_backward(&b, (struct memory_pass){.name = "attention_gate", .hidden_u = 3, .kernels = 2});
  if (!one)
    add_backward(&b, (struct memory_pass){.name = "qk_norm", .qkv_u = 2, .kernels = 2});
  add_backward(&b, (struct memory_pass){.name = "norm_modulate", .hidden_u = 4, .kernels = 2});
  b.saved_u = 2 + (one ? 1 : 5) * w.q + 2 * w.q + 1 + 2 * w.q + 2 + 2 * w.ffn;
  b.saved_text_u = 2 * w.q;
  return b;
}

/* Counted rows of the eager 2D block; see the head of this file. */
static const struct eager_2d {
  double broadcast, permute, contiguous; /* forward u */
  double back_broadcast, back_reduction, back_contiguous;
  double saved_u;
  int kernels, back_kernels; /* of these passes: counted kernels less GEMMs and attention */
  int flash_calls;
} eager_2d[BLOCK_KINDS] = {
    [BLOCK_SPATIAL] = {36, 4, 25, 32, 33.5, 78.5, 26.0, 34, 71, 2},
    [BLOCK_TEMPORAL] = {44, 8, 49, 40, 33.5, 118.5, 26.0, 62, 95, 2},
    [BLOCK_TEMPORAL_SHORT] = {44, 8, 57, 40, 33.5, 123.5, 24.7, 68, 100, 1},
    [BLOCK_TEMPORAL_ONE] = {36, 0, 23, 32, 29.5, 68.5, 21.0, 31, 68, 1},
};

static int share_of(int kernels, double part, double whole) { return (int)(kernels * part / whole + 0.5); }

static void add_eager_2d(struct block_passes *b, const struct eager_2d *e) {
  const double fwd = e->broadcast + e->permute + e->contiguous;
  const double bwd = e->back_broadcast + e->back_reduction + e->back_contiguous;
  const int broadcast = share_of(e->kernels, e->broadcast, fwd), permute = share_of(e->kernels, e->permute, fwd);
  const int back_broadcast = share_of(e->back_kernels, e->back_broadcast, bwd);
  const int reduction = share_of(e->back_kernels, e->back_reduction, bwd);
  add_forward(b, (struct memory_pass){
                     .name = "modulate", .class = MEMORY_BROADCAST, .hidden_u = e->broadcast, .kernels = broadcast});
  if (e->permute > 0)
    add_forward(b, (struct memory_pass){
                       .name = "permute", .class = MEMORY_PERMUTE, .hidden_u = e->permute, .kernels = permute});
  add_forward(b, (struct memory_pass){
                     .name = "elementwise", .hidden_u = e->contiguous, .kernels = e->kernels - broadcast - permute});
  add_backward(
      b, (struct memory_pass){
             .name = "modulate", .class = MEMORY_BROADCAST, .hidden_u = e->back_broadcast, .kernels = back_broadcast});
  add_backward(b, (struct memory_pass){.name = "reductions",
                                       .class = MEMORY_REDUCTION,
                                       .hidden_u = e->back_reduction,
                                       .text_u = 2,
                                       .kernels = reduction});
  add_backward(b, (struct memory_pass){.name = "elementwise",
                                       .hidden_u = e->back_contiguous,
                                       .text_u = 4,
                                       .kernels = e->back_kernels - back_broadcast - reduction});
}

static struct block_passes block_eager(enum block_kind kind, bool apex) {
  const struct eager_2d *e = &eager_2d[kind];
  struct block_passes b = {.host_syncs = 2, /* two blocking copies of sequence offsets per cross-attention */
                           .saved_u = e->saved_u,
                           .saved_text_u = 2,
                           .unfused_attention = kind == BLOCK_TEMPORAL_SHORT,
                           .no_attention = kind == BLOCK_TEMPORAL_ONE};
  add_eager_2d(&b, e);
  if (!apex && kind != BLOCK_TEMPORAL_ONE) {
    add_forward(&b, (struct memory_pass){.name = "qk_norm_fp32", .hidden_u = 28.4, .kernels = 12});
    add_backward(&b, (struct memory_pass){.name = "qk_norm_fp32", .hidden_u = 79, .kernels = 26});
    b.saved_u += 8.1;
  }
  add_backward(&b, (struct memory_pass){
                       .name = "attention_dq", .hidden_u = 9.0 * e->flash_calls, .kernels = 2 * e->flash_calls});
  /* Forward: three residual adds of mixed layout 9 u, a transposing copy and an unfused bias before cross q 4, two
   * transposing copies in LayerNorm 4; the adds' 9 u are counted as contiguous above already, worth about 2 u here.
   * Backward: two more transposing copies. */
  b.strided_forward = (struct memory_pass){.name = "strided", .class = MEMORY_MIXED, .hidden_u = 15, .kernels = 4};
  b.strided_backward = (struct memory_pass){.name = "strided", .class = MEMORY_MIXED, .hidden_u = 4, .kernels = 2};
  return b;
}

struct block_passes framework_block(const struct framework *f, const struct transformer *m, enum block_kind kind) {
  ASSERT((unsigned)kind < BLOCK_KINDS && m->is_2d == (kind != BLOCK_LAYER));
  const enum framework_kind which = (enum framework_kind)f->kind;
  ASSERT((unsigned)which < FRAMEWORKS);
  if (which == FUSED)
    return m->is_2d ? block_fused(m, kind) : layer_fused(m);
  return m->is_2d ? block_eager(kind, which == EAGER_APEX) : layer_eager(f, m);
}
