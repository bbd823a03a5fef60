/* published.h: measured speedups to set beside simulated ones: CSV with the columns `case` (a policy) and `value` (its
 * speedup, above 0); other columns and lines that begin with # are ignored. */
#ifndef SIM_REPORT_PUBLISHED_H
#define SIM_REPORT_PUBLISHED_H
#include "sim/report/result_view.h"

struct published {
  int policy; /* index into the result's */
  double value;
};

#define PUBLISHED_MAX 256

/* Reads into published[PUBLISHED_MAX]; *n of them, at least one. A case that is no policy of the result is refused. */
int published_read(struct published *published, int *n, const char *path, const struct result_view *v, struct err *err);

#endif
