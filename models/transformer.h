/* transformer.h: the shape of a model. 1D: a text transformer of `layers` equal layers. 2D: a video/image DiT of
 * `layers` pairs of one spatial and one temporal block with cross-attention to text.
 * A *module* is what recomputation counts: 1D has one ("layer"), 2D two ("spatial", "temporal"), each `layers` times.
 */
#ifndef MODELS_TRANSFORMER_H
#define MODELS_TRANSFORMER_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

struct transformer {
  char name[64];
  char source[256]; /* where the shape comes from ("ours" where we chose it) */
  bool is_2d;
  bool causal; /* 1D attention mask */
  int layers;  /* 2D: pairs */
  int64_t hidden, heads, kv_heads, head_dim, ffn;
  int mlp_matrices; /* 2 gelu, 3 swiglu/geglu */
  int64_t vocab;    /* 1D */
  bool tied_embeddings;
  bool norm_bias;   /* layernorm (weight and bias) instead of RMSNorm (weight) */
  bool linear_bias; /* every linear layer of a block has a bias (GPT-2 style) */
  bool qkv_bias;    /* only the q, k, v projections have one (Qwen2 style) */
  bool qk_norm;
  int64_t learned_positions; /* 1D: rows of a learned position table, 0 = rotary */
  /* 2D only */
  int64_t text_tokens, text_channels; /* caption tokens per sample, their width before projection */
  int64_t in_channels, out_channels;  /* latent channels per patch (patch 1x2x2 included): 16 and 32 for STDiT3 */
  int64_t frequency_dim;              /* width of the sinusoidal timestep and frame-rate embeddings */
};

/* `name_or_path`: a preset of models/presets/ (by its name) or a JSON file (schema dcpsim.model/1; its keys are the
 * field names above). kv_heads defaults to heads, head_dim to hidden/heads, ffn to 4*hidden, mlp_matrices to 2,
 * booleans to false. An unknown name is a usage error that lists the presets; an unknown key, a wrong type or a shape
 * that does not fit together is an error with file and line. */
int transformer_load(struct transformer *out, const char *name_or_path, struct err *err);
void transformer_list(FILE *out);

static inline int transformer_modules(const struct transformer *m) { return m->is_2d ? 2 : 1; }
const char *transformer_module_name(const struct transformer *m, int module);

/* Parameters of one block of `module`, of everything outside the blocks, and in all.
 * 1D block: h*(a+2k)*d + a*d*h + mlp_matrices*h*f + norms + biases; outside: V*h (once if tied, else twice), learned
 * positions, final norm. 2D block: self-attention and cross-attention projections with biases, qk-norm, MLP, a 6h
 * modulation table (norms have no parameters); outside: embeddings of patch, timestep, frame rate and caption, the
 * h -> 6h modulation and the final layer. Exact: STDiT3-XL/2 1,207,643,936; Llama-2-7B 6,738,415,616;
 * Llama-3.1-8B 8,030,261,248; MPT as in the published table at its sequence length of 2048. */
int64_t transformer_block_params(const struct transformer *m, int module);
int64_t transformer_other_params(const struct transformer *m);
int64_t transformer_params(const struct transformer *m);

/* Forward FLOPs of one sample by kind of operation (2 per multiply-add; causal attention halved). */
struct sample_flops {
  double gemm; /* GEMMs whose input needs a gradient: backward is 2x these */
  double
      edge_gemm; /* GEMMs on the model's inputs (patch, caption, timestep): backward is the weight gradient only, 1x */
  double attention; /* self-attention (1D); spatial and cross-attention (2D) */
  double temporal;  /* 2D temporal attention, which eager frameworks may run as batched GEMMs; 0 for one frame */
};
struct sample_flops transformer_forward_flops(const struct transformer *m, int64_t a, int64_t b);

/* Model FLOPs (forward + backward = 3x forward; causal attention halved; no recomputation) of one sample. 1D: `a` is
 * its tokens, `b` is 1. 2D: `a` frames, `b` positions. Used for mfu_frac. */
double transformer_sample_flops(const struct transformer *m, int64_t a, int64_t b);

#endif
