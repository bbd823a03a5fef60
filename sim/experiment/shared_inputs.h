/* shared_inputs.h: what experiments that follow each other have in common: traces and parameter files read once,
 * buckets profiled once. Results do not depend on it. */
#ifndef SIM_EXPERIMENT_SHARED_INPUTS_H
#define SIM_EXPERIMENT_SHARED_INPUTS_H
#include "models/params.h"
#include "sim/base/err.h"
#include "traces/trace.h"

struct profile_memo;

/* Traces by name and options, for all threads of a process. Keeps up to about 1 GiB of them. */
struct trace_store;
struct trace_store *trace_store_new(void);
void trace_store_free(struct trace_store *s); /* NULL is fine */

/* Belongs to one thread; `traces` (not owned) may be shared with others; NULL where no trace is asked for. */
struct shared_inputs;
struct shared_inputs *shared_inputs_new(struct trace_store *traces);
/* The same for experiments that run on all their threads: no profiles are kept, which would need locks. */
struct shared_inputs *shared_inputs_for_threads(struct trace_store *traces);
void shared_inputs_free(struct shared_inputs *s); /* NULL is fine */

/* A copy, the caller's, of the trace that trace_load would give. */
int shared_inputs_trace(struct shared_inputs *s, struct trace *out, const char *name,
                        const struct trace_options *options, struct err *err);
/* Owned by `s`; NULL: err is set. Not for several threads at once: experiments ask when they are opened. */
struct params *shared_inputs_params(struct shared_inputs *s, const char *name, struct err *err);
struct profile_memo *shared_inputs_profiles(struct shared_inputs *s); /* NULL: for threads */

#endif
