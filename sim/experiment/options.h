/* options.h: every option of an experiment with its default: one table, from which come the command line of simulate and
 * plan, the experiment file's keys, --help, and the "options" object of every result. */
#ifndef SIM_EXPERIMENT_OPTIONS_H
#define SIM_EXPERIMENT_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/err.h"
#include "sim/base/json.h"

#define MAX_POLICIES 16
#define MAX_BUCKET_BOUNDS 256

struct experiment_options {
  /* what */
  char *trace, *model, *cluster, *params; /* params NULL: the cluster's */
  char *format, *column;                  /* of the trace; NULL: found */
  bool skip_bad;
  char *policy;                           /* comma list, as given */
  char *baseline;                         /* NULL: bucket, else the first named */
  uint64_t seed;
  int seeds;
  bool no_shuffle;
  /* how much */
  int64_t steps;                          /* 0: to the end of the trace (--epoch) */
  int64_t max_length;                     /* 0: no limit */
  char *overlong;                         /* drop | truncate | split */
  int64_t samples;
  int64_t tokens_per_step;                /* 0: off */
  bool drop_last;
  /* parallel */
  int sp;                                 /* 0: auto */
  int max_sp;                             /* 0: W */
  int zero;
  char *shard, *sp_kind, *framework;      /* NULL where the model decides */
  /* batches */
  int64_t batch;                          /* 0: default */
  int buckets_per_octave;
  int64_t bucket_bounds[MAX_BUCKET_BOUNDS];
  int n_bucket_bounds;
  char *packing;
  int64_t pack_tokens;                    /* 0: from the cap */
  char *pick;                             /* NULL: published, or deterministic with no_shuffle */
  int max_gas, min_gas;                   /* min_gas 0: the policy's */
  char *weighting;
  /* memory */
  double memory_cap_frac;
  char *recompute;                        /* NULL: full, and adaptive for dcp */
  bool round_gib;
  int64_t head_chunk;
  char *grad_dtype;
  char *offload;                          /* NULL: none */
  /* faults */
  double jitter;
  int straggler_rank;                     /* -1: none */
  double straggler_factor;
  /* out */
  int threads;                            /* -j: never changes a result */
};

void options_init(struct experiment_options *o); /* the defaults */
void options_release(struct experiment_options *o);

#endif
