/* lower.h: a micro-batch of one SP group -> its program: the operations of models.md section 2 with the costs of
 * models/. The only place that says what a training step consists of. */
#ifndef SIM_PLAN_LOWER_H
#define SIM_PLAN_LOWER_H
#include "models/system.h"
#include "sim/plan/program.h"

/* Forward and backward of one micro-batch on an SP group of `sp` ranks. OP_POST marks where each block's gradient is
 * ready (players that do not synchronise in this micro-batch pass over them); under zero 3 parameters are gathered,
 * too. Both cached folds are filled in. Ownership to the caller: program_release. */
void lower_micro_batch(struct program *out, const struct system *s, int sp, const struct microbatch *mb);

/* What follows the last gradient collective, once per step, on every rank: gradient norm, optimizer, parameter gather.
 */
void lower_step_tail(struct program *out, const struct system *s);

/* Real work of a micro-batch in the units of program.padded_work. `entries` index `samples`. */
void lower_real_work(const struct system *s, const struct sample *samples, const uint32_t *entries, int64_t n,
                     double real_work[WORK_CLASSES]);

/* Seconds of one forward of one block of `module`, exchanges included: what keeping its activations saves. */
double lower_block_forward_s(const struct system *s, int sp, const struct microbatch *mb, int module);

#endif
