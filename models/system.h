/* system.h: everything that the cost and memory models need besides a micro-batch. Read-only once set up; shared by all
 * policies of a run. Pointers are not owned. */
#ifndef MODELS_SYSTEM_H
#define MODELS_SYSTEM_H
#include <stdbool.h>
#include <stdint.h>

#include "models/framework.h"
#include "models/hardware.h"
#include "models/params.h"
#include "models/transformer.h"
#include "sim/base/sample.h"

enum sp_kind { SP_ULYSSES, SP_RING, SP_DSP };
const char *sp_kind_name(enum sp_kind k);

/* How planned memory is counted: as a rank will need it, or as the profile of the published DCP does (memory.h). */
enum memory_rule { MEMORY_MODELLED, MEMORY_PUBLISHED };

struct parallel {
  int zero;        /* 0..3 */
  bool shard_node; /* shard within a node, all-reduce across (HSDP) */
  enum sp_kind sp_kind;
  int grad_bytes;     /* 2 or 4 per parameter */
  int64_t head_chunk; /* tokens per chunk of head + loss; 0 = whole */
  bool offload_optimizer;
  enum memory_rule memory_rule;
};

struct system {
  const struct transformer *model;
  const struct cluster *cluster;
  const struct params *params;
  const struct framework *framework;
  struct parallel parallel;
};

static inline int system_world(const struct system *s) { return cluster_gpus(s->cluster); }

/* Nodes an aligned block of sp ranks spans. */
int system_sp_nodes(const struct system *s, int sp);

/* Whether SP groups of this degree can be formed: a power of two, at most W, and for DSP at most the node or W as it
 * is; ulysses forms any (heads first, ring for the rest). On false, *why (if not NULL) is a static reason. */
bool system_sp_valid(const struct system *s, int sp, const char **why);

/* Ulysses: heads are split over u = gcd(heads, sp) ranks, a ring of sp/u goes round outside (ring kind: u = 1;
 * DSP splits neither heads nor keys: both 1). */
void system_sp_split(const struct system *s, int sp, int *u, int *ring);

/* What one SP group computes in one micro-batch: the shape of work that cost, memory and lowering share.
 * Packed: packed[batch] concatenated without padding, attention inside each sample only. Else padded, 1D: `batch`
 * sequences of `seqlen`; 2D: `batch` samples of (frames, positions). */
struct microbatch {
  int64_t batch;
  int64_t seqlen;
  const struct sample *packed; /* packed only: the samples of the pack (1D or 2D), else NULL; not owned */
  int64_t frames, positions;
  int recompute_blocks[2]; /* per module: how many of its `layers` blocks are recomputed */
};

/* Tokens of the group, padding included: batch*seqlen, sum of lengths, or batch*frames*positions. */
int64_t microbatch_tokens(const struct system *s, const struct microbatch *mb);
/* Tokens on the slowest rank. 1D: ceil(tokens / sp). 2D: space is sharded, the sum over samples of
 * frames * ceil(positions / sp). (Inside spatial attention DSP pads frames to a multiple of sp, or scatters the batch
 * of one-frame samples; see the lowering.) */
int64_t microbatch_local_tokens(const struct system *s, const struct microbatch *mb, int sp);

#endif
