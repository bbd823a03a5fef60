/* lower_block.h: shared by the lowerings of 1D and 2D blocks: emitting kernels, passes and exchanges with their costs.
 * Private to the lowering. */
#ifndef SIM_PLAN_LOWER_BLOCK_H
#define SIM_PLAN_LOWER_BLOCK_H
#include "sim/plan/lower.h"

struct lowering {
  struct program *program;
  const struct system *system;
  int sp;
  const struct microbatch *mb;
  double derate;            /* compute durations are multiplied by it */
  uint8_t category;         /* of the compute ops being emitted */
  uint8_t module;           /* of the ops being emitted */
  int64_t rows;             /* token rows of this rank */
  int64_t text_rows;        /* 2D: caption rows of this rank (not divided by sp) */
  double attention_s[2][2]; /* 1D: forward and backward of the own and of another ring block, once they are known */
};

void emit_compute(struct lowering *l, const char *name, double seconds, enum work_class work, int kernels);
void emit_gemm(struct lowering *l, const char *name, int64_t m, int64_t n, int64_t k, enum work_class work);
/* Both gradients of the GEMM (m x k) * (k x n): data and weight. */
void emit_gemm_backward(struct lowering *l, const char *data_name, const char *weight_name, int64_t m, int64_t n,
                        int64_t k, enum work_class work);
/* The pass called `name`, if this list has one. */
void emit_pass(struct lowering *l, const struct memory_pass *passes, int n, const char *name);
/* All passes whose names are not in `emitted` (NULL-terminated). */
void emit_other_passes(struct lowering *l, const struct memory_pass *passes, int n, const char *const *emitted);
/* Seconds of one pass over l->rows and l->text_rows; 0: it moves nothing. */
double pass_time_s(const struct lowering *l, const struct memory_pass *pass);
/* One pass, if it moves anything. */
void emit_one_pass(struct lowering *l, const struct memory_pass *pass);
/* An exchange among `ranks` members on `nodes` nodes. */
void emit_exchange(struct lowering *l, const char *name, enum collective kind, int ranks, int nodes, double bytes);
void emit_host(struct lowering *l, const char *name, double seconds);
void emit_post(struct lowering *l, const char *name, enum collective kind, double bytes);
void emit_wait(struct lowering *l, int lag);

void lower_1d(struct lowering *l);
void lower_2d(struct lowering *l);
/* One forward of a block alone, into l->program's current section. */
void lower_1d_block_forward(struct lowering *l);
void lower_2d_block_forward(struct lowering *l, int module);

#endif
