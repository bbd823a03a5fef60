/* nonlinear.h: least squares on relative errors for formulas whose constants are positive, robust to outliers
 * (gsl_multifit_nlinear, Levenberg-Marquardt, weights from the last round's residuals). */
#ifndef CALIB_NONLINEAR_H
#define CALIB_NONLINEAR_H
#include <stddef.h>

struct nonlinear {
  size_t n, p; /* residuals, constants */
  /* Fills out[n] with log(formula / measured) for the constants c[p]. */
  void (*residuals)(const double *c, const void *context, double *out);
  const void *context;
  double prior_weight; /* pull of each log constant to its start, in log units of one residual */
  int rounds, iterations;
};

/* c[p]: the start, replaced by the fit. Constants stay within a factor e^8 of their start. */
void nonlinear_fit(const struct nonlinear *problem, double *c);

#endif
