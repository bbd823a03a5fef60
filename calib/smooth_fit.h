/* smooth_fit.h: times as a sum of terms with coefficients >= 0, fitted on relative errors (outliers weigh less), times
 * a smooth correction over the logs of the shape: what the rows say beyond the sum. For rows of any device, where no
 * formula of its kernels is known. */
#ifndef CALIB_SMOOTH_FIT_H
#define CALIB_SMOOTH_FIT_H
#include <stddef.h>

#define SMOOTH_TERMS_MAX 8
#define SMOOTH_AXES_MAX 3

struct smooth_point {
  double term[SMOOTH_TERMS_MAX]; /* >= 0 */
  double place[SMOOTH_AXES_MAX]; /* logs of the shape */
  double time_s;
  double weight; /* 0..1: how sure the time is */
};

struct smooth_fit {
  int terms, axes;
  double coefficient[SMOOTH_TERMS_MAX];
  double width; /* of the correction's kernel, in logs */
  size_t n;
  struct smooth_point *points; /* owned */
  double *miss;                /* log of time over sum, owned [n] */
};

/* Copies the points; n >= 1. The kernel's width is the one that predicts each row best from all others. */
void smooth_fit_make(struct smooth_fit *f, const struct smooth_point *points, size_t n, int terms, int axes);
void smooth_fit_release(struct smooth_fit *f);

/* Log seconds; only term and place of `at` count. */
double smooth_fit_log_s(const struct smooth_fit *f, const struct smooth_point *at);

#endif
