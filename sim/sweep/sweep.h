/* sweep.h: runs every point of a sweep that its table does not hold yet, on threads and, under mpirun, on ranks.
 *
 * Points are handed out one by one, to whoever is free. Rows do not depend on who computed them, so tables of any
 * number of threads and ranks are equal once sorted. */
#ifndef SIM_SWEEP_SWEEP_H
#define SIM_SWEEP_SWEEP_H
#include <stdbool.h>
#include <stdint.h>

#include "sim/base/err.h"

struct sweep_request {
  const char *spec_path, *out_path;
  int threads; /* of this process; 0: as many as it has processors */
};

struct sweep_summary {
  bool writer; /* this process is the one that reports: rank 0 */
  int64_t points, done_before, failed;
};

/* Progress and notes go to stderr. -1: the spec or the table cannot be used, or writing failed; what is in the table by
 * then is whole, and the sweep can go on later. err is set on the reporting process only. */
int sweep_run(const struct sweep_request *request, struct sweep_summary *summary, struct err *err);

#endif
