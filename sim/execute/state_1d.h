/* state_1d.h: a micro-batch of the text transformer on one rank. Outside attention rank i of a group holds `rows` token
 * rows; inside, heads / u heads of the u * rows rows of its block (Ulysses). With more than one block, blocks of keys
 * travel around a ring, and block b of r holds pieces b and 2r - 1 - b of the 2r equal pieces of every sequence
 * (zig-zag), which gives all blocks the same work under a causal mask. Private to sim/execute. */
#ifndef SIM_EXECUTE_STATE_1D_H
#define SIM_EXECUTE_STATE_1D_H
#include "sim/execute/sequences.h"

struct layer {
  struct norm norm_1, norm_2, q_norm, k_norm; /* q_norm, k_norm: a vector for every head; where the model has them */
  struct linear qkv, attn_out, mlp_up, mlp_down;
};

/* What a layer's forward leaves behind. One per kept layer, one shared by all recomputed ones. */
struct activations {
  void *normed_1, *normed_2; /* (rows, hidden) */
  struct norm_rows norm_1, norm_2, q_norm, k_norm;
  void *raw_q, *raw_k; /* before their norms: (rows, heads, head_dim), (rows, kv_heads, head_dim) */
  void *q, *k, *v;     /* (all rows, heads / u, head_dim), k, v with kv heads */
  void *out, *lse;     /* as q; fp32 (heads / u, all rows) */
  void *attn;          /* (rows, heads, head_dim) */
  void *middle;        /* (rows, hidden): after attention's residual */
  void *up, *act;      /* (rows, ffn * (matrices - 1)), (rows, ffn) */
};

/* Of the ring: keys and values of other blocks, with their gradients. */
struct ring_buffers {
  void *k[2], *v[2], *out, *lse;            /* as k, v, out, lse of activations */
  void *dq, *dk, *dv, *sum_k[2], *sum_v[2]; /* of one block; sums travel with their block */
  int sum;                                  /* which sum is the present block's */
};

struct state_1d {
  struct layer *layers;
  struct norm final_norm;
  struct linear head;
  int embedding, positions_table; /* tensors; -1: none */
  int range_rest, range_head;     /* layers are ranges 1 .. layers; tied: both the same */
  /* Of the micro-batch. */
  int u, ring, block;                           /* ranks that share the heads; blocks of rows; this rank's block */
  struct communicator *heads_group;             /* the u ranks */
  int64_t rows, all_rows, real_tokens, longest; /* all rows: of the block */
  int64_t heads, kv_heads;                      /* per rank inside attention */
  int first_recomputed;                         /* layers from here on keep only their input */
  struct sequences *who; /* per step of the ring: this block's queries, the keys of the block met then */
  int n_who;
  int step;
  void *token, *target, *position; /* int32 on the device */
  void **input;                    /* per layer: (rows, hidden); one more for the last output */
  struct activations *kept, shared;
  void *normed, *logits, *loss, *lse; /* head */
  struct norm_rows final_rows;
  void *dx, *dy, *dnormed, *dup, *dact, *dattn; /* gradients */
  void *qkv, *local_q, *local_k, *local_v, *send, *recv, *projected;
  void *dq, *dk, *dv, *delta;
  struct ring_buffers ring_of;
};

static inline struct state_1d *state_1d(const struct player *p) { return p->state; }

static inline int64_t up_width(const struct transformer *m) { return m->ffn * (m->mlp_matrices - 1); }
static inline int64_t qkv_width(const struct transformer *m) { return (m->heads + 2 * m->kv_heads) * m->head_dim; }

/* actions_1d.c */
struct activations *activations_1d(const struct player *p); /* of the layer being played */

/* layout_1d.c: extents, memory and inputs of a micro-batch. */
int layout_1d_measure(struct player *p, struct err *err);
void layout_1d(struct player *p);
int layout_1d_fill(struct player *p, struct err *err);

/* attention_1d.c: memory, who attends to whom, and the actions. */
void attention_1d_measure(struct player *p);
void attention_1d_lay_out(struct player *p);
int attention_1d_upload(struct player *p, struct err *err);
void attention_1d_release(struct player *p);
/* Where position `at` of a sequence of `length` rows lies, whose rows begin at `begin` in every block: a row among
 * those of all blocks, one after another. */
int64_t attention_1d_row(const struct player *p, int64_t length, int64_t begin, int64_t at);
/* Rows of such a sequence in one block. */
int64_t attention_1d_rows(const struct player *p, int64_t length);
int attention_1d_sp_qkv(struct player *p, struct err *err);
int attention_1d_sp_qkv_grad(struct player *p, struct err *err);
int attention_1d_sp_out(struct player *p, struct err *err);
int attention_1d_sp_out_grad(struct player *p, struct err *err);
int attention_1d_ring_kv(struct player *p, struct err *err);
int attention_1d_forward(struct player *p, struct err *err);
int attention_1d_backward(struct player *p, struct err *err);

#endif
