/* options.h: every option of an experiment with its default: one table, a row each (options_table.c), from which come
 * the command line of simulate and plan, the experiment file's keys, --help, and the "options" object of every result.
 *
 * An option "tokens-per-step" is --tokens-per-step on the command line and "tokens_per_step" in the experiment file
 * (schema dcpsim.experiment/1) and in results. What is not set stays 0 or NULL; experiment_open settles what the model
 * or the cluster decides. */
#ifndef SIM_EXPERIMENT_OPTIONS_H
#define SIM_EXPERIMENT_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"
#include "sim/base/json.h"

#define MAX_POLICIES 16
#define MAX_BUCKET_BOUNDS 256
#define MAX_SEEDS 1000
#define MAX_THREADS 256
#define DEFAULT_POLICIES "bucket,packed,dcp_inter,dcp" /* and given before them, where the trace holds batches */

struct experiment_options {
  /* what */
  char *trace, *model, *cluster, *params; /* params NULL: the cluster's */
  char *format, *column;                  /* of the trace; NULL: found */
  bool skip_bad;
  char *policy;   /* comma list, as given; NULL: DEFAULT_POLICIES */
  char *baseline; /* NULL: given, else bucket, else the first named */
  int64_t seed, seeds, draws;
  bool no_shuffle;
  char *profile;      /* plan only: measured bucket times */
  char *save_profile; /* plan only: where to write the modelled ones; NULL: nowhere */
  /* how much */
  bool epoch;
  int64_t steps;      /* 0: to the end of the trace */
  int64_t max_length; /* 0: no limit */
  char *overlong;     /* drop | truncate | split */
  int64_t samples;
  int64_t tokens_per_step; /* 0: off */
  bool drop_last;
  /* parallel */
  int64_t sp;     /* 0: auto */
  int64_t max_sp; /* 0: W */
  int64_t zero;
  char *shard, *sp_kind, *framework; /* sp_kind, framework NULL: the model decides */
  /* batches */
  int64_t batch; /* 0: default */
  int64_t buckets_per_octave;
  int64_t bucket_bounds[MAX_BUCKET_BOUNDS];
  int n_bucket_bounds;
  char *layout; /* padded | packed */
  char *packing;
  int64_t pack_tokens;      /* 0: from the cap */
  int64_t rank_tokens;      /* 0: from the cap */
  int64_t global_batch;     /* 0: by tokens_per_step, or 2 per GPU */
  char *pick;               /* NULL: published, or deterministic with no_shuffle */
  char *search;             /* all | published */
  int64_t max_gas, min_gas; /* min_gas 0: the policy's */
  char *weighting;
  /* memory */
  double memory_cap_frac;
  char *memory_rule;
  char *recompute; /* NULL: full, and adaptive for policies that adapt it */
  bool round_gib;
  int64_t head_chunk;
  char *grad_dtype;
  char *offload; /* NULL: none */
  /* faults */
  double jitter;
  int64_t straggler_rank; /* -1: none */
  double straggler_factor;
  /* out */
  bool json, explain, advise;
  char *csv, *result, *schedule, *timeline, *chakra;
  int64_t threads; /* never changes a result, so results do not name it */
};

void options_init(struct experiment_options *o); /* the defaults */
void options_copy(struct experiment_options *to, const struct experiment_options *from);
void options_release(struct experiment_options *o);

/* Which command an option belongs to. */
enum options_command { OPTIONS_SIMULATE = 1, OPTIONS_PLAN = 2 };

/* Sets one option from text, as on the command line; `name` in either spelling. */
int options_set(struct experiment_options *o, const char *name, const char *value, struct err *err);

/* Sets every field that an experiment file has. */
int options_read_file(struct experiment_options *o, const char *path, struct err *err);
/* The same from text; `path` is only for messages. */
int options_read_text(struct experiment_options *o, const char *path, const char *text, struct err *err);

/* For files that hold experiment fields in objects of their own. Refuses keys of `object` that are neither fields nor
 * `also` (may be NULL), naming line and nearest valid key. */
int options_check_keys(const struct json_doc *doc, const json_t *object, const char *also, struct err *err);
/* Sets every field that `object` has; other keys are left alone. */
int options_read_object(struct experiment_options *o, const struct json_doc *doc, const json_t *object,
                        struct err *err);
/* Sets one field; errors name the line of `where`. `key` must be a field. */
int options_set_json(struct experiment_options *o, const struct json_doc *doc, const json_t *where, const char *key,
                     const json_t *value, struct err *err);

/* The command line after the command's name: [EXPERIMENT.json] and options, which win over the file. *help: --help was
 * given, and nothing else was looked at. Errors are usage errors that begin with the command's name. */
int options_parse(struct experiment_options *o, enum options_command command, int argc, char **argv, bool *help,
                  struct err *err);

/* The part of --help that lists the options of a command: units, values, defaults, by group. */
void options_help(enum options_command command, FILE *out);

/* The object under "options": every option but threads. */
void options_write_json(struct json_writer *w, const struct experiment_options *o);

/* Where results go, what else is printed, threads: no input. Either spelling. */
bool options_is_output(const char *name);

/* "max-length 131072, overlong split": what was asked for besides trace, model, cluster, policy, seed and outputs. */
void options_differences(const struct experiment_options *o, char *buf, size_t size);

#endif
