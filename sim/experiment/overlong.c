#include "sim/experiment/overlong.h"

#include <stdlib.h>
#include <string.h>

#include "sim/base/units.h"
#include "sim/experiment/experiment.h"

static void drop(struct experiment *x, int64_t limit) {
  struct sample_set *s = &x->samples;
  size_t n_overlong = 0, cap = 0;
  int64_t kept = 0;
  s->ids = xmalloc(size_mul((size_t)s->n, sizeof *s->ids));
  for (int64_t i = 0; i < s->n; i++) {
    if (sample_tokens(s->samples[i]) > limit) {
      VEC_PUSH(x->overlong_ids, n_overlong, cap, (uint32_t)i);
      x->tokens_overlong += sample_tokens(s->samples[i]);
      continue;
    }
    s->samples[kept] = s->samples[i];
    if (s->batch)
      s->batch[kept] = s->batch[i];
    s->ids[kept++] = (uint32_t)i;
  }
  s->n = kept;
  x->samples_overlong = (int64_t)n_overlong;
}

static void truncate_samples(struct experiment *x, int64_t limit) {
  for (int64_t i = 0; i < x->samples.n; i++) {
    struct sample *sample = &x->samples.samples[i];
    if (sample->a <= limit)
      continue;
    x->samples_cut++;
    x->tokens_cut += sample->a - limit;
    sample->a = (uint32_t)limit;
  }
}

static int split(struct experiment *x, int64_t limit, struct err *err) {
  struct sample_set *s = &x->samples, pieces = {.is_2d = s->is_2d};
  for (int64_t i = 0; i < s->n; i++)
    pieces.n += ceil_div(s->samples[i].a, limit);
  if (pieces.n > TRACE_MAX_SAMPLES)
    return err_set(err, "--max-length %lld splits the trace into %lld pieces, more than %u", (long long)limit,
                   (long long)pieces.n, TRACE_MAX_SAMPLES);
  pieces.samples = xmalloc(size_mul((size_t)pieces.n, sizeof *pieces.samples));
  pieces.ids = xmalloc(size_mul((size_t)pieces.n, sizeof *pieces.ids));
  pieces.offsets = xmalloc(size_mul((size_t)pieces.n, sizeof *pieces.offsets));
  pieces.batch = s->batch ? xmalloc(size_mul((size_t)pieces.n, sizeof *pieces.batch)) : NULL;
  int64_t at = 0;
  for (int64_t i = 0; i < s->n; i++)
    for (int64_t offset = 0; offset < s->samples[i].a; offset += limit) {
      pieces.samples[at] = (struct sample){(uint32_t)int64_min(limit, s->samples[i].a - offset), 1};
      pieces.ids[at] = (uint32_t)i;
      if (s->batch)
        pieces.batch[at] = s->batch[i];
      pieces.offsets[at++] = (uint32_t)offset;
    }
  sample_set_release(s);
  *s = pieces;
  return 0;
}

int overlong_apply(struct experiment *x, struct err *err) {
  const struct experiment_options *o = &x->options;
  struct sample_set *s = &x->samples;
  *s = (struct sample_set){
      .is_2d = x->trace.is_2d, .n = x->trace.n, .samples = x->trace.samples, .batch = x->trace.batch};
  x->trace.samples = NULL;
  x->trace.batch = NULL;
  bool any = false;
  for (int64_t i = 0; o->max_length > 0 && !any && i < s->n; i++)
    any = sample_tokens(s->samples[i]) > o->max_length;
  if (o->max_length > 0 && s->is_2d && strcmp(o->overlong, "drop") != 0)
    return err_usage(err, "--overlong %s is for text: videos can only be dropped", o->overlong);
  if (!any)
    return 0;
  if (strcmp(o->overlong, "split") == 0)
    return split(x, o->max_length, err);
  if (strcmp(o->overlong, "truncate") == 0)
    truncate_samples(x, o->max_length);
  else
    drop(x, o->max_length);
  return 0;
}
