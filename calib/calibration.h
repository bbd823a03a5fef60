/* calibration.h: `calibrate run`: measures a plan of shapes on this machine and appends rows to a folder as they come.
 * One process measures operators, several (mpirun) collectives; the first writes. */
#ifndef CALIB_CALIBRATION_H
#define CALIB_CALIBRATION_H
#include "calib/measure.h"
#include "calib/run_plan.h"
#include "calib/warning.h"
#include "kernels/communicator.h"

struct calibration_options {
  const char *out;                 /* folder, made if it is not there */
  const char *ops;                 /* list of run_plan_ops, or NULL */
  const struct transformer *model; /* or NULL */
  int64_t max_tokens, max_bytes;   /* of run_plan.h; 0: the device's usual */
  int64_t ranks_per_node;          /* collectives: so many ranks make a node; 0: those of one host */
  double budget_s;                 /* no shape is begun after so long; 0: no limit */
  struct measure_options measure;  /* cache_bytes is set by the device unless `warm` */
  bool warm;                       /* arrays stay in the cache */
  /* communicator_run, unless a test replaces it. */
  int (*collective)(struct communicator *, const struct communicator_call *, struct err *);
  const struct warning_sink *warnings;
  void (*progress)(void *to, size_t done, size_t total);
  void *progress_to;
};

struct calibration_count { /* of one operation */
  size_t planned, measured, had, refused;
  double spread_frac; /* sum over the measured */
  double worst_check;
};

struct calibration {
  struct calibration_count ops[ROW_OPS];
  size_t planned, measured, had, refused; /* shapes: in the plan, measured now, in the files already, not
                                             written: the check failed, or the device has no kernel */
  size_t wrong;                           /* of the refused: the check failed */
  size_t repaired;                        /* files whose torn last line was cut off */
  int nodes, ranks_per_node;              /* as the ranks lie; 1 and 1: one process */
  bool out_of_budget, stopped;
  double time_s;
};

/* On failure the rows written so far stay. `world`: of several processes, or of one. */
int calibration_run(struct calibration *out, struct device *device, struct communicator *world,
                    const struct calibration_options *options, struct err *err);

#endif
