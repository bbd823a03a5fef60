#include "traces/mixture.h"

#include <gsl/gsl_randist.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/rng.h"
#include "sim/base/units.h"
#include "traces/generate.h"

#define MIXTURE_MAX_PARTS 32

struct mixture {
  struct trace parts[MIXTURE_MAX_PARTS];
  double weights[MIXTURE_MAX_PARTS];
  int n;
};

static void mixture_release(struct mixture *m) {
  for (int i = 0; i < m->n; i++)
    trace_release(&m->parts[i]);
}

/* A '+' ends a part only where "WEIGHT*" follows, so that names and numbers (1e+3) may contain one. */
static const char *part_end(const char *p) {
  for (; *p; p++) {
    char *after;
    if (*p == '+' && (strtod(p + 1, &after), after > p + 1) && *after == '*')
      break;
  }
  return p;
}

static int load_part(struct trace *part, const char *name, int64_t n, uint64_t seed, int index, struct err *err) {
  char purpose[32];
  if (strncmp(name, "mixture:", 8) == 0)
    return err_usage(err, "a mixture cannot contain a mixture");
  if (!strchr(name, ':'))
    return trace_load(part, name, NULL, err);
  snprintf(purpose, sizeof purpose, "mixture part %d", index);
  return trace_generate(part, name, n, rng_stream_seed(seed, purpose), err);
}

static int add_part(struct mixture *m, const char *p, const char *end, int64_t n, uint64_t seed, struct err *err) {
  char name[1024], *star;
  double weight = strtod(p, &star);
  if (star == p || *star != '*' || star >= end || !isfinite(weight) || weight < 0)
    return err_usage(err, "mixture: expected WEIGHT*TRACE, got '%.*s'", (int)(end - p < 60 ? end - p : 60), p);
  if (m->n == MIXTURE_MAX_PARTS || (size_t)(end - star) > sizeof name)
    return err_usage(err, "mixture: at most %d parts, of names up to %zu bytes", MIXTURE_MAX_PARTS, sizeof name - 1);
  snprintf(name, sizeof name, "%.*s", (int)(end - star - 1), star + 1);
  if (load_part(&m->parts[m->n], name, n, seed, m->n, err))
    return -1;
  m->weights[m->n++] = weight;
  if (m->parts[0].is_2d != m->parts[m->n - 1].is_2d)
    return err_usage(err, "mixture: '%s' and '%s' are not both 1D or both 2D", m->parts[0].name, name);
  return 0;
}

static int parse_mixture(struct mixture *m, const char *p, int64_t n, uint64_t seed, struct err *err) {
  double sum = 0;
  do {
    const char *end = part_end(p);
    if (add_part(m, p, end, n, seed, err))
      return -1;
    p = *end ? end + 1 : end;
  } while (*p);
  for (int i = 0; i < m->n; i++)
    sum += m->weights[i];
  return sum > 0 ? 0 : err_usage(err, "mixture: the weights must have a positive sum");
}

static void draw_mixture(struct trace *out, const struct mixture *m, int64_t n, uint64_t seed) {
  gsl_ran_discrete_t *table = gsl_ran_discrete_preproc((size_t)m->n, m->weights);
  struct rng rng;
  ASSERT(table);
  rng_init(&rng, seed, "mixture");
  out->samples = xmalloc(size_mul((size_t)n, sizeof *out->samples));
  out->n = n;
  for (int64_t i = 0; i < n; i++) {
    const struct trace *part = &m->parts[gsl_ran_discrete(rng.gsl, table)];
    out->samples[i] = part->samples[rng_below(&rng, (uint64_t)part->n)];
  }
  rng_release(&rng);
  gsl_ran_discrete_free(table);
}

int mixture_generate(struct trace *out, const char *spec, int64_t n, uint64_t seed, struct err *err) {
  struct mixture m = {.n = 0};
  if (n < 1 || n > TRACE_MAX_SAMPLES)
    return err_usage(err, "mixture: the number of samples must be from 1 to %u, got %lld", TRACE_MAX_SAMPLES,
                     (long long)n);
  int rc = parse_mixture(&m, spec + strlen("mixture:"), n, seed, err);
  if (rc == 0) {
    *out = (struct trace){.format = "mixture", .is_2d = m.parts[0].is_2d};
    draw_mixture(out, &m, n, seed);
    out->name = xstrdup(spec);
  }
  mixture_release(&m);
  return rc;
}
