/* measure.h: times operators on a device, and checks them against their double references first. */
#ifndef CALIB_MEASURE_H
#define CALIB_MEASURE_H
#include <stdatomic.h>
#include <stdbool.h>

#include "calib/measured_op.h"
#include "calib/repeats.h"
#include "kernels/device.h"
#include "sim/base/rng.h"

struct measure_options {
  double confidence_frac; /* of the median, at which repeating stops */
  double shape_limit_s;   /* seconds of repetitions that one shape may take */
  size_t cache_bytes;     /* device cache that each repetition finds without its arrays; 0: arrays stay in it */
  uint64_t seed;
  const atomic_bool *stop; /* set: the repetition at hand is the last (may be NULL) */
  /* What runs a call: device_run, unless a test replaces it. */
  int (*run)(struct device *device, const struct operator_call *call, struct err *err);
};

struct measure {
  struct device *device;
  struct measure_options options;
  void *arena; /* on the device: all arrays of all copies */
  void *flush; /* cache_bytes that are cleared between repetitions */
  struct rng rng;
};

/* The device must outlive it. */
int measure_init(struct measure *m, struct device *device, const struct measure_options *options, struct err *err);
void measure_release(struct measure *m);

/* Runs the operation on a small shape like `shape` (measured_op.small) with fresh random inputs and outputs full of
 * NaN, on the device and in double. *error_frac: the largest difference over the largest value of its array (infinite
 * where a number is missing). -1 only if the device failed. */
int measure_check(struct measure *m, const struct measured_op *op, const int64_t *shape, double *error_frac,
                  struct err *err);
/* What measure_check's error may be on this device. */
double measure_tolerance(const struct device *device);

/* Repeats the operation until the median is sure enough. Arrays are random; several copies take turns, and the cache is
 * overwritten between repetitions, so that each call reads from memory. */
int measure_time(struct measure *m, const struct measured_op *op, const int64_t *shape, struct repeats *out,
                 struct err *err);

#endif
