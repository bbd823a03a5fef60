/* advice.h: what to do with the figures of an experiment: the policy and the settings to use, the longest sample that
 * fits, and whether cutting long samples, dropping recomputation, steps of equal size or more GPUs would change the
 * picture. Everything rests on runs: those of the experiment and some extra ones, each with the command line that makes
 * it again. */
#ifndef SIM_EXPERIMENT_ADVICE_H
#define SIM_EXPERIMENT_ADVICE_H
#include "sim/base/json.h"
#include "sim/experiment/experiment.h"

/* In the order in which they run. */
enum extra_kind {
  EXTRA_NO_RECOMPUTE, /* policies that recompute everything, without: those that hold as much even so */
  EXTRA_ADAPTIVE,     /* the others of them, recomputing what they must */
  EXTRA_EQUAL_STEPS,  /* the policy to use in optimizer steps of the baseline's size */
  EXTRA_CUT,          /* without the longest 0.1 % of samples */
  EXTRA_NODES_X2,     /* the policy to use on twice and four times the nodes */
  EXTRA_NODES_X4,
  EXTRAS
};
extern const char *const extra_names[EXTRAS];

struct extra_run {
  char *command;      /* makes it again; NULL: not run */
  char why_not[300];  /* then: why */
  int64_t max_length; /* EXTRA_CUT: tokens; samples and tokens over it */
  int64_t samples_over, tokens_over;
  int64_t step_tokens; /* EXTRA_EQUAL_STEPS: --tokens-per-step */
  int gpus;
  struct policy_result results[MAX_POLICIES];
  int n;
};

struct advice {
  int use;           /* of the experiment's policies */
  int against;       /* the policy that it is compared with: the baseline, or the next fastest if it is the baseline */
  int use_extra;     /* the extra run whose settings to use; -1: none, the experiment's own */
  bool shown;        /* the interval of its speedup over `against` does not span 1 (false also where it is slower) */
  double noise_frac; /* half-range of that interval, relative: smaller changes show nothing; 0: no interval */
  char *use_command;
  int64_t longest[MAX_POLICIES][MAX_SPS]; /* by x->sps; tokens */
  int64_t trace_longest;                  /* tokens, after --max-length */
  struct extra_run extras[EXTRAS];
};

/* Two optimizer steps are alike up to this factor in tokens. */
#define ADVICE_ALIKE 1.5

/* Makes the extra runs. x: opened from `asked` with shared inputs for threads, and run to `results`. An extra run that
 * cannot be made says why; that is no error. */
void advice_make(struct advice *a, const struct experiment *x, const struct experiment_options *asked,
                 const struct policy_result *results);
void advice_release(struct advice *a);

/* The fastest of the experiment's policies. */
int advice_fastest(const struct experiment *x, const struct policy_result *results);
/* Whether the interval of the fastest policy's lead over this one is all on one side of 1. */
bool advice_lead_is_shown(const struct policy_result *r);
bool advice_steps_alike(const struct policy_result *a, const struct policy_result *b);
/* The result of what is to be used: of the experiment, or of the extra run whose settings to use. */
const struct policy_result *advice_used(const struct advice *a, const struct policy_result *results);

/* The "advice" object of a result. */
void advice_write_json(struct json_writer *w, const struct advice *a, const struct experiment *x,
                       const struct policy_result *results);

#endif
