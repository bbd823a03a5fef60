/* state_2d.h: a micro-batch of the video transformer on one rank. Rows lie in two orders:
 *   local   all frames of this rank's positions: by sample, frame, position
 *   frames  all positions of this rank's frames, inside a spatial block's attention: by sample, frame, position
 * Alone both are the same. Positions are padded to a multiple of the ranks, frames, too; one-frame samples are dealt
 * out whole. Private to sim/execute. */
#ifndef SIM_EXECUTE_STATE_2D_H
#define SIM_EXECUTE_STATE_2D_H
#include "sim/execute/sequences.h"

enum module { SPATIAL, TEMPORAL, MODULES };

/* The parts of a block's modulation, each of hidden numbers. */
enum part { SHIFT_1, SCALE_1, GATE_1, SHIFT_2, SCALE_2, GATE_2, PARTS };

struct block {
  int table; /* tensor (PARTS * hidden) */
  struct linear qkv, attn_out, cross_q, cross_kv, cross_out, mlp_up, mlp_down;
  struct norm q_norm, k_norm; /* where the model has them */
};

/* What a block's forward leaves behind; `attention rows` are those of its order. */
struct saved {
  void *modulation;                        /* (batch, PARTS * hidden) */
  void *normed_1, *modulated_1;            /* (rows, hidden), (attention rows, hidden) */
  void *raw_q, *raw_k, *q, *k, *v, *out;   /* (attention rows, heads, head_dim); temporal: by position, frame */
  void *lse, *attn;                        /* fp32 (heads, attention rows); out in the block's order */
  void *projected, *middle;                /* (rows, hidden): gate's input, after attention's residual */
  void *cross_q, *cross_k, *cross_v;       /* (rows, hidden), (text rows, hidden) */
  void *cross_attn, *cross_lse;            /* (rows, hidden), fp32 (heads, rows) */
  void *middle_2, *normed_2, *modulated_2; /* (rows, hidden): after cross-attention's residual */
  void *up, *act, *projected_2;            /* MLP */
  struct norm_rows norm_1, norm_2, q_norm, k_norm;
};

/* Two linear layers with an activation between them, and what the forward leaves behind. */
struct embedder {
  struct linear first, second;
  void *in, *hidden, *act, *out;
};

/* Samples of equal extent, padding included. */
struct run {
  int64_t first, count, frames, positions;
  int64_t local;                        /* positions of one rank */
  int64_t frames_each;                  /* frames of a sample on one rank inside the exchange; images: 0 */
  int64_t units;                        /* frames of the whole run on one rank inside the exchange */
  int64_t local_at, frames_at, part_at; /* its first row in both orders, and in a part of the exchange */
};

/* Rows of this rank that have a target. */
struct stretch {
  int64_t first, n;
};

struct state_2d {
  struct block (*blocks)[MODULES];
  struct embedder time, rate, caption;
  struct linear patch, modulation, final;
  int final_table; /* tensor (2 * hidden) */
  /* Of the micro-batch. */
  int64_t *order; /* place -> sample: those of equal extent are neighbours */
  struct run *runs;
  size_t n_runs;
  int64_t rows, all_rows, frame_rows, part_rows, text_rows, tokens;
  bool uneven, has_temporal; /* something of an exchange is padding; some sample has more than one frame */
  int kept[MODULES];         /* blocks that keep their activations */
  struct sequences self[MODULES], cross;
  struct stretch *targets;
  size_t n_targets, targets_cap;
  float *captions;          /* on the host, until they are copied */
  void *cu_rows, *frame;    /* int32 (batch + 1): rows of each sample; (rows): frames in temporal order */
  void *patches, *target;   /* (all rows, in_channels), (rows, out_channels) */
  void *silu_time, *time_6; /* (batch, hidden), (batch, PARTS * hidden) */
  void **input;             /* per block: (rows, hidden); one more for the last output */
  struct saved *saved[MODULES], shared;
  void *local, *frames, *qkv, *kv; /* scratch of the forward */
  void *send, *recv;
  /* Final layer, on all ranks' rows; predicted: of this rank's. */
  void *whole, *normed, *modulated, *logits, *predicted, *loss, *final_modulation;
  struct norm_rows final_rows;
  /* Gradients. */
  void *dx, *dlocal, *dnormed, *dframes, *dattn, *dout, *dq, *dk, *dv, *delta, *dup, *dact;
  void *dcross, *dcross_q, *dcross_k, *dcross_v, *dtext, *dcaption, *dwhole;
  void *dmodulation, *dfinal, *dtime, *dtime_6; /* fp32 */
  void *dmodulation_e, *dbatch, *dbatch_2;      /* elements (batch, PARTS * hidden), (batch, hidden) */
};

static inline struct state_2d *state_2d(const struct player *p) { return p->state; }

/* Where an operation is: its module, block, what the block's forward left behind, and the block's input. */
static inline enum module module_of(const struct player *p) { return (enum module)p->op->module; }

static inline const struct block *block_of(const struct player *p) {
  return &state_2d(p)->blocks[p->layer][module_of(p)];
}

/* The last pairs recompute: the backward meets them first. */
static inline struct saved *saved_of(const struct player *p) {
  struct state_2d *s = state_2d(p);
  enum module module = module_of(p);
  return p->layer < s->kept[module] ? &s->saved[module][p->layer] : &s->shared;
}

static inline void **input_of(const struct player *p) {
  return &state_2d(p)->input[MODULES * p->layer + (int)module_of(p)];
}

/* Over the hidden size, without parameters. */
static inline struct norm plain_norm(const struct player *p) {
  return (struct norm){.layer = true, .width = p->model->hidden, .weight = -1, .bias = -1};
}

/* layout_2d.c: extents, memory and inputs of a micro-batch. */
int layout_2d_measure(struct player *p, struct err *err);
void layout_2d(struct player *p);
int layout_2d_fill(struct player *p, struct err *err);
int layout_2d_captions(struct player *p, struct err *err); /* from the host */
void layout_2d_release(struct player *p);

/* attention_2d.c, outside_2d.c: a block's attention, and what lies before and after the blocks. */
extern const struct action attention_2d_actions[], outside_2d_actions[];

/* modulation_2d.c. By sample: rows of x modulated by two parts `stride` numbers apart; the outputs are the caller's. */
struct operator_call modulation_2d_call(struct player *p, int64_t stride, void *shift, void *scale, const void *x);
/* y = x through norm and modulation by the block's parts `shift` and the one behind it. */
int modulation_2d_norm(struct player *p, const void *x, struct norm_rows *left, void *normed, enum part shift, void *y,
                       struct err *err);
/* From dnormed: through modulation and norm, and around both: dx += . */
int modulation_2d_norm_backward(struct player *p, const void *x, struct norm_rows *left, void *normed, enum part shift,
                                struct err *err);
/* y = residual + gated x; and dlocal = the gate's share of dx. */
int modulation_2d_gate(struct player *p, enum part gate, const void *x, const void *residual, void *y, struct err *err);
int modulation_2d_gate_backward(struct player *p, enum part gate, const void *x, struct err *err);
/* The block's gradient of its modulation goes to its table, and to what all blocks share. */
int modulation_2d_end(struct player *p, struct err *err);

/* exchange_2d.c: rows of `hidden` elements from one order to the other, in three steps. */
int exchange_2d_pack(struct player *p, bool to_frames, void *from, struct err *err);
int exchange_2d_run(struct player *p, struct err *err);
int exchange_2d_unpack(struct player *p, bool to_frames, void *into, struct err *err);

#endif
