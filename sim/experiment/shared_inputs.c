#include "sim/experiment/shared_inputs.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/profile_memo.h"

#define STORE_SAMPLES (INT64_C(1) << 27) /* kept in all; 8 bytes each, 12 with batches */

/* ---- Traces ---- */

struct stored_trace {
  char *name, *format, *column;
  bool skip_bad;
  int64_t draws;
  uint64_t seed;
  struct trace trace;
  struct stored_trace *next;
};

struct trace_store {
  pthread_mutex_t lock; /* held while loading, too: the others most likely wait for the same trace */
  struct stored_trace *first;
  int64_t samples;
};

struct trace_store *trace_store_new(void) {
  struct trace_store *s = xcalloc(1, sizeof *s);
  pthread_mutex_init(&s->lock, NULL);
  return s;
}

static void clear(struct trace_store *s) {
  while (s->first) {
    struct stored_trace *t = s->first;
    s->first = t->next;
    trace_release(&t->trace);
    free(t->name);
    free(t->format);
    free(t->column);
    free(t);
  }
  s->samples = 0;
}

void trace_store_free(struct trace_store *s) {
  if (!s)
    return;
  clear(s);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool is_it(const struct stored_trace *t, const char *name, const struct trace_options *o) {
  return strcmp(t->name, name) == 0 && same_text(t->format, o->format) && same_text(t->column, o->column) &&
         t->skip_bad == o->skip_bad && t->draws == o->draws && t->seed == o->seed;
}

static char *copy_text(const char *text) { return text ? xstrdup(text) : NULL; }

/* Under the lock. */
static const struct stored_trace *find_or_load(struct trace_store *s, const char *name, const struct trace_options *o,
                                               struct err *err) {
  struct trace trace;
  for (const struct stored_trace *t = s->first; t; t = t->next)
    if (is_it(t, name, o))
      return t;
  if (trace_load(&trace, name, o, err) < 0)
    return NULL;
  if (s->samples + trace.n > STORE_SAMPLES)
    clear(s);
  struct stored_trace *t = xcalloc(1, sizeof *t);
  *t = (struct stored_trace){.name = xstrdup(name),
                             .format = copy_text(o->format),
                             .column = copy_text(o->column),
                             .skip_bad = o->skip_bad,
                             .draws = o->draws,
                             .seed = o->seed,
                             .trace = trace,
                             .next = s->first};
  s->first = t;
  s->samples += trace.n;
  return t;
}

static void *copy_array(const void *from, int64_t n, size_t item_bytes) {
  size_t bytes = size_mul((size_t)n, item_bytes);
  return memcpy(xmalloc(bytes), from, bytes);
}

static int copy_trace(struct trace_store *s, struct trace *out, const char *name, const struct trace_options *o,
                      struct err *err) {
  pthread_mutex_lock(&s->lock);
  const struct stored_trace *t = find_or_load(s, name, o, err);
  if (t) {
    *out = t->trace;
    out->name = xstrdup(t->trace.name);
    out->samples = copy_array(t->trace.samples, out->n, sizeof *out->samples);
    out->batch = t->trace.batch ? copy_array(t->trace.batch, out->n, sizeof *out->batch) : NULL;
  }
  pthread_mutex_unlock(&s->lock);
  return t ? 0 : -1;
}

/* ---- What belongs to a thread ---- */

struct named_params {
  char *name;
  struct params *params;
  struct named_params *next;
};

struct shared_inputs {
  struct trace_store *traces;
  struct named_params *params;   /* kept to the end: the memo of profiles goes by their addresses */
  struct profile_memo *profiles; /* NULL: experiments run on several threads */
};

struct shared_inputs *shared_inputs_for_threads(struct trace_store *traces) {
  struct shared_inputs *s = xcalloc(1, sizeof *s);
  s->traces = traces;
  return s;
}

struct shared_inputs *shared_inputs_new(struct trace_store *traces) {
  struct shared_inputs *s = shared_inputs_for_threads(traces);
  s->profiles = profile_memo_new();
  return s;
}

void shared_inputs_free(struct shared_inputs *s) {
  if (!s)
    return;
  while (s->params) {
    struct named_params *p = s->params;
    s->params = p->next;
    params_free(p->params);
    free(p->name);
    free(p);
  }
  profile_memo_free(s->profiles);
  free(s);
}

int shared_inputs_trace(struct shared_inputs *s, struct trace *out, const char *name,
                        const struct trace_options *options, struct err *err) {
  return copy_trace(s->traces, out, name, options, err);
}

struct params *shared_inputs_params(struct shared_inputs *s, const char *name, struct err *err) {
  struct params *loaded;
  for (struct named_params *p = s->params; p; p = p->next)
    if (strcmp(p->name, name) == 0)
      return p->params;
  if (params_load(&loaded, name, err) < 0)
    return NULL;
  struct named_params *p = xcalloc(1, sizeof *p);
  *p = (struct named_params){.name = xstrdup(name), .params = loaded, .next = s->params};
  s->params = p;
  return loaded;
}

struct profile_memo *shared_inputs_profiles(struct shared_inputs *s) {
  return s->profiles;
}
