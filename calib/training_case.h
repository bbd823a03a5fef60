/* training_case.h: a published training run (a row of calib/data/training_throughput.csv) as a case to predict: model,
 * cluster, parallel configuration, framework and micro-batch; or the reason why it cannot be predicted.
 *
 * What the columns mean here
 * - layers to vocab: the shape. What they do not say comes from the model's name (tied embeddings, biases, head dim,
 *   learned positions of MPT and GPT-2), and n_params must agree to 1 %.
 * - gpu, n_gpus: H100 or H200, 8 GPUs a node. "H100 96GB HBM2e 2.4TB/s, 500W" has no kernel rows of its own: its memory
 *   passes are slowed by the data sheets' bandwidths, its matrix operations by the cube root of the power left beside
 *   100 W of memory and leakage (power goes with clock times voltage squared).
 * - interconnect: "N Gbps per node" sets the NICs, else one 400 Gb/s NIC per GPU.
 * - dp_sharding: FULL_SHARD, ZeRO-3, FSDP2: zero 3. SHARD_GRAD_OP, ZeRO-2: 2. ZeRO-1, distributed optimizer: 1. HSDP:
 *   zero 3 within a node. none: 0.
 * - cp, cp_kind: sequence parallelism, Ulysses or else a ring.
 * - recompute: full: every block. "op-level SAC" (PyTorch saves attention and every second matrix product): as many
 *   whole blocks as repeat the same matrix work; for memory, as save the same bytes. Other "selective" (every k-th
 *   block, k not stated): the largest k up to 4 that fits into 90 % of device memory.
 * - precision: bf16 in all matrix products; with float8 anywhere the row is left out.
 * - framework, compile, attn_kernel: a class of framework.h, with what the set-up does otherwise:
 * - llm-foundry: eager; FSDP1 over fp32 weights under autocast: gathered in fp32, cast after each gather (read 4, write
 *   2), gradients cast back, put into the flat gradient and cast for a bf16 reduction (read 2 and write 4, read 4 and
 *   write 4, read 4 and write 2), an fp32 residual stream; FlashAttention 1 (tables of v0.0.4, June 2023, before
 *   FlashAttention 2).
 * - torchtitan: fused if compiled (block by block: the loss stays eager), else eager; gradients reduced in fp32;
 *   PyTorch's FlashAttention 2.
 * - fms-fsdp: fused (compiled); FSDP1 with bf16 weights: gathered in place, gradients put into the flat one.
 * - NeMo, Megatron: fused (Transformer Engine, cuDNN attention); fp32 gradients.
 * - HF, TRL (with or without DeepSpeed): eager; attention by the column; DeepSpeed's long-sequence recipe has head and
 *   loss in tiles of 2048 tokens (1 GiB of fp32 logits of Llama 3).
 * - llm.c: fused; cuDNN attention; bf16 gradients.
 *
 * Left out with a reason: tensor or pipeline parallelism, float8, an optimizer on the CPU (memory is predicted), LoRA,
 * packs of unstated lengths, rows without throughput.
 *
 * Throughput: step_time_s, else tok_s_gpu, else tflops_gpu by its stated convention. */
#ifndef CALIB_TRAINING_CASE_H
#define CALIB_TRAINING_CASE_H
#include <stdbool.h>
#include <stdint.h>

#include "calib/table.h"
#include "models/system.h"

enum case_recompute { CASE_RECOMPUTE_NONE, CASE_RECOMPUTE_ALL, CASE_RECOMPUTE_SOME_OPS, CASE_RECOMPUTE_TO_FIT };

struct training_case {
  const char *id, *source; /* into the table */
  const char *why_no_time; /* NULL: the step time is predicted; else a static reason */
  const char *why_no_memory;
  struct transformer model;
  struct cluster cluster;
  struct parallel parallel;
  struct framework framework;
  int sp;
  int64_t batch, seqlen; /* of a micro-batch */
  int micro_batches;     /* gradient accumulation */
  enum case_recompute recompute;
  bool sgd;                            /* plain SGD on bf16 weights in place of AdamW */
  double matrix_factor, memory_factor; /* slow-down of a device without kernel rows against the one that has them */
  double measured_step_s;              /* 0: not stated */
  double measured_memory_gib;          /* 0: not stated */
  bool for_fit;                        /* may be used for the in-step scalars: H100 rows, the measured device */
};

/* Row i of a table with the columns above. Fails (with file and line) on malformed numbers or missing columns only. */
int training_case_read(struct training_case *out, const struct table *t, size_t i, struct err *err);

/* Tokens that all GPUs process in one optimizer step. */
double training_case_tokens(const struct training_case *c);

/* Model FLOPs of one token under the convention that a source states ("6N + 12*L*d*s per token ...": attention not
 * halved; "6*N*tok + causal attention ..."; "model flops X per sequence"); 0 for others. */
double training_flops_per_token(const struct training_case *c, const char *convention);

struct system training_case_system(const struct training_case *c, const struct params *params);

/* The micro-batch with its recomputed blocks: as many as repeat the same work or, `for_memory`, save the same bytes
 * (these differ for op-level selective recomputation only). */
struct microbatch training_case_micro_batch(const struct training_case *c, const struct params *params,
                                            bool for_memory);

#endif
