/* dcpsim.h: libdcpsim plans training steps from a trainer's own sequence lengths, and reads and checks schedules.
 *
 *   struct dcpsim_schedule *s = dcpsim_plan_tokens(experiment, lengths, n, error, sizeof error);
 *   const struct dcpsim_step *step;
 *   while (s && dcpsim_schedule_next(s, &step, error, sizeof error) == DCPSIM_OK)
 *     ... run what step->groups say ...
 *   dcpsim_schedule_close(s);
 *
 * Link with `pkg-config --cflags --libs dcpsim`. How a trainer runs a schedule, weights included, is docs/TRAINERS.md.
 *
 * Errors. A call that can fail takes the caller's buffer (`error` of `error_size` bytes; NULL and 0: not wanted) and
 * leaves one complete line of text in it, cut to its size, when it fails; else the buffer is untouched. The library
 * never prints and never ends the process, with one exception: a broken invariant inside it (a bug) prints its place on
 * stderr and aborts. Where memory is exhausted the call fails, and what it held by then is lost.
 *
 * Threads. No state is shared: different handles may be used by different threads at the same time; one handle by one
 * thread at a time. Work is done on the calling thread. Results depend on the arguments alone.
 *
 * Versions. DCPSIM_API grows when something here changes so that callers must be built anew; the number is part of the
 * library's soname. Structs that the library hands out by pointer may grow at their end without that. */
#ifndef DCPSIM_H
#define DCPSIM_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DCPSIM_API 1 /* of this header; dcpsim_api() tells the library's */

#if defined(__GNUC__)
#define DCPSIM_EXPORT __attribute__((visibility("default")))
#else
#define DCPSIM_EXPORT
#endif

/* What calls return. */
#define DCPSIM_OK 0
#define DCPSIM_END 1      /* there are no more steps */
#define DCPSIM_ERROR (-1) /* `error` says why */

#define DCPSIM_WHOLE UINT32_MAX /* dcpsim_sample.offset of a sample that was not split */

/* One sequence, or one piece of it where long ones are split. */
struct dcpsim_sample {
  uint32_t id;        /* index into the caller's lengths; of a file: into its trace */
  uint32_t offset;    /* of a piece: its first token; else DCPSIM_WHOLE */
  uint32_t extent[2]; /* 1D: tokens and 1. 2D: frames and positions of a frame */
};

/* Samples that a group of ranks runs together: one forward and one backward pass. */
struct dcpsim_micro_batch {
  const struct dcpsim_sample *samples;
  size_t n_samples;
  int packed;                /* 1: concatenated, without padding. 0: each padded to padded_extent */
  uint32_t padded_extent[2]; /* as dcpsim_sample.extent; 0 and 0 where packed */
  int recompute_layers[2];   /* per module of the header: how many layers, the last ones, recompute their activations */
  double weight;             /* of its gradient; the weights of a step sum to 1 */
};

/* Ranks that share sequences (sequence parallel) and the micro-batches they run, in this order. */
struct dcpsim_group {
  int first_rank, end_rank; /* end_rank is one past the last; their number is the SP degree */
  int round;                /* a rank that is in several groups of a step goes through them by ascending round, without
                               waiting for the others between */
  const struct dcpsim_micro_batch *micro_batches;
  size_t n_micro_batches;
  double predicted_time_s;
};

/* One optimizer step. Ranks that no group names are idle, but take part in the gradient's reduction. */
struct dcpsim_step {
  const char *line;  /* the same as one line of a schedule file (JSON, without newline; docs/FORMATS.md) */
  int64_t iteration; /* from 0 */
  double predicted_time_s;
  const struct dcpsim_group *groups; /* by ascending round */
  size_t n_groups;
};

/* What holds for all steps. */
struct dcpsim_header {
  const char *line; /* the first line of a schedule file */
  int world, gpus_per_node;
  const char *policy, *trace, *model, *cluster;
  const char *weighting;  /* rule of the weights: "published" or "per_token" */
  const char *modules[2]; /* what recompute_layers counts: "layer", or "spatial" and "temporal" */
  int n_modules;          /* 2: samples are 2D */
  int partial;            /* 1: stopped after the experiment's "steps", samples remain */
  int64_t samples_total;  /* scheduled, dropped, infeasible, overlong and remaining ones */
  /* Samples that no step runs: left out by the policy's rule, too long for any group, longer than "max_length". Their
   * extents are 0. */
  const struct dcpsim_sample *dropped, *infeasible, *overlong;
  size_t n_dropped, n_infeasible, n_overlong;
};

/* A schedule that is read step by step. */
struct dcpsim_schedule;

/* The API number and the version ("0.1.0") of the library at work. */
DCPSIM_EXPORT int dcpsim_api(void);
DCPSIM_EXPORT const char *dcpsim_version(void);

/* Plans all steps for n sequences of tokens[i] tokens (1 to 1000000000 each). `experiment` is the text of an experiment
 * (JSON, schema dcpsim.experiment/1, docs/FORMATS.md): its "model" and "cluster" are required, its "policy" must name
 * one. "trace" may be left out; it is only the name of the lengths in the header ("lengths"). Fields that are about
 * reading a trace, or name outputs, are refused; "threads" is ignored.
 * The steps are those that `dcpsim simulate --schedule` writes for the same lengths, to the byte.
 * Returns a handle for dcpsim_schedule_close, or NULL and an error. */
DCPSIM_EXPORT struct dcpsim_schedule *dcpsim_plan_tokens(const char *experiment, const uint32_t *tokens, size_t n,
                                                         char *error, size_t error_size);

/* The same for a 2D model: sample i has frames[i] latent frames of positions[i] latent patches. */
DCPSIM_EXPORT struct dcpsim_schedule *dcpsim_plan_frames(const char *experiment, const uint32_t *frames,
                                                         const uint32_t *positions, size_t n, char *error,
                                                         size_t error_size);

/* Opens a schedule file (schema dcpsim.schedule/1) to read it; a file of another schema is refused by its name. Only
 * its form is looked at: dcpsim_check finds the rest. NULL: an error. */
DCPSIM_EXPORT struct dcpsim_schedule *dcpsim_schedule_open(const char *path, char *error, size_t error_size);

/* Valid until the handle is closed. */
DCPSIM_EXPORT const struct dcpsim_header *dcpsim_schedule_header(const struct dcpsim_schedule *s);

/* The next step: DCPSIM_OK, DCPSIM_END or DCPSIM_ERROR. *step, with all it points to, is valid until the next call on
 * this handle. After an error only dcpsim_schedule_close may follow. */
DCPSIM_EXPORT int dcpsim_schedule_next(struct dcpsim_schedule *s, const struct dcpsim_step **step, char *error,
                                       size_t error_size);

/* NULL is fine. */
DCPSIM_EXPORT void dcpsim_schedule_close(struct dcpsim_schedule *s);

/* One thing that is wrong with a schedule; the rules are those of `dcpsim check --help`. */
struct dcpsim_finding {
  int64_t iteration, group; /* -1: of the whole schedule, of the whole iteration */
  const char *rule, *message;
};

/* Checks a schedule file as `dcpsim check` does: calls finding(context, f) for everything wrong with it (f is valid
 * during the call, which is in the C locale; `finding` may be NULL) and returns how many there were, 0 when the file is
 * good, or DCPSIM_ERROR when it cannot be read at all. */
DCPSIM_EXPORT int64_t dcpsim_check(const char *path, void (*finding)(void *context, const struct dcpsim_finding *f),
                                   void *context, char *error, size_t error_size);

#ifdef __cplusplus
}
#endif
#endif
