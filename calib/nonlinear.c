#include "calib/nonlinear.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/base/sorted.h"
#include "sim/base/units.h"

#define RANGE 8.0   /* of log constants about their start */
#define OUTLIER 2.0 /* residuals beyond this many medians weigh less */
#define LEAST_SCALE 0.01

struct state {
  const struct nonlinear *problem;
  const double *start;
  double *c, *f; /* scratch [p], [n] */
};

static double constant(double start, double x) { return start * exp(fmax(-RANGE, fmin(RANGE, x))); }

/* x: logs of constants over their start. */
static int evaluate(const gsl_vector *x, void *data, gsl_vector *f) {
  const struct state *s = data;
  const struct nonlinear *problem = s->problem;
  for (size_t i = 0; i < problem->p; i++)
    s->c[i] = constant(s->start[i], gsl_vector_get(x, i));
  problem->residuals(s->c, problem->context, s->f);
  for (size_t i = 0; i < problem->n; i++) /* f may be a column of a matrix */
    gsl_vector_set(f, i, isfinite(s->f[i]) ? s->f[i] : 10);
  for (size_t i = 0; i < problem->p; i++)
    gsl_vector_set(f, problem->n + i, problem->prior_weight * gsl_vector_get(x, i));
  return GSL_SUCCESS;
}

/* Weight 1 up to OUTLIER medians, then falling as 1/|r|: the square root of a squared loss becomes an absolute one. */
static void set_weights(const gsl_vector *f, size_t n, gsl_vector *w) {
  double *sorted = xcalloc(n, sizeof *sorted);
  for (size_t i = 0; i < n; i++)
    sorted[i] = fabs(gsl_vector_get(f, i));
  sort_doubles(sorted, n);
  double scale = OUTLIER * fmax(LEAST_SCALE, sorted[n / 2]);
  for (size_t i = 0; i < n; i++)
    gsl_vector_set(w, i, fmin(1, scale / fmax(1e-12, fabs(gsl_vector_get(f, i)))));
  free(sorted);
}

void nonlinear_fit(const struct nonlinear *problem, double *c) {
  const size_t n = problem->n + problem->p, p = problem->p;
  double *start = xcalloc(p, sizeof *start);
  struct state state = {problem, start, xcalloc(p, sizeof(double)), xcalloc(problem->n, sizeof(double))};
  gsl_multifit_nlinear_fdf fdf = {.f = evaluate, .n = n, .p = p, .params = &state};
  gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
  gsl_multifit_nlinear_workspace *work = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, n, p);
  gsl_vector *x = gsl_vector_calloc(p), *w = gsl_vector_alloc(n), *f = gsl_vector_alloc(n);
  memcpy(start, c, p * sizeof *start);
  gsl_vector_set_all(w, 1);
  for (int round = 0; round < problem->rounds; round++) {
    evaluate(x, &state, f);
    set_weights(f, problem->n, w);
    gsl_multifit_nlinear_winit(x, w, &fdf, work);
    for (int i = 0; i < problem->iterations; i++)
      if (gsl_multifit_nlinear_iterate(work) != GSL_SUCCESS)
        break;
    gsl_vector_memcpy(x, gsl_multifit_nlinear_position(work));
  }
  for (size_t i = 0; i < p; i++)
    c[i] = constant(start[i], gsl_vector_get(x, i));
  gsl_vector_free(x);
  gsl_vector_free(w);
  gsl_vector_free(f);
  gsl_multifit_nlinear_free(work);
  free(state.c);
  free(state.f);
  free(start);
}
