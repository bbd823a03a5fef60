/* device.h: where operators run. A device is a row of a table: "cpu" (fp32, OpenBLAS where it is found) or "cuda"
 * (bf16, one GPU). Calibration and execution use the functions below and know no row.
 *
 * A device does what it is asked in order. device_run may return before the work is done (a failure of it may show in a
 * later call); device_copy and device_wait return when everything before them is done. A device belongs to one thread.
 * Errors are one line naming device, what was asked, its shape, and what the driver said; after an error of a CUDA
 * device only device_close is of use. */
#ifndef KERNELS_DEVICE_H
#define KERNELS_DEVICE_H
#include <stddef.h>
#include <stdio.h>

#include "kernels/element.h"
#include "kernels/operator.h"
#include "sim/base/err.h"

struct device;

/* One row. All functions are given arguments that the wrappers below have checked. */
struct device_kind {
  const char *name;
  enum element_type element;
  int (*open)(struct device **out, int index, struct err *err);
  void (*close)(struct device *device);
  /* As realloc without contents: *memory freed, then `bytes` allocated (0: NULL). */
  int (*resize)(struct device *device, void **memory, size_t bytes, struct err *err);
  int (*copy)(struct device *device, void *to, const void *from, size_t bytes, struct err *err);
  int (*run)(struct device *device, const struct operator_call *call, struct err *err);
  int (*mark)(struct device *device, struct err *err);
  int (*wait)(struct device *device, double *time_s, struct err *err);
  int (*memory)(struct device *device, size_t *bytes, struct err *err);
};

/* The part of a device that all kinds share; a kind's own struct begins with it. */
struct device {
  const struct device_kind *kind;
  int index;
  char name[96];      /* for people: "NVIDIA H200", "cpu" */
  void *stream;       /* cuda: the stream of device_run, for collectives to join; else NULL */
  const char *choice; /* kernels asked for in the environment, "attention_forward by wgmma"; NULL: the usual ones */
};

/* `kind`: a row's name; an unknown one is a usage error that lists them. index: which GPU; the CPU has 0 only.
 * In the environment, DCPSIM_ATTENTION=wgmma makes "cuda" run attention forward at head dims 64 and 128 by a kernel
 * that has not run on hardware so far (attention_wgmma.cu). No driver, no such GPU, a GPU other than sm_90 and a build
 * without CUDA kernels are errors that say so. */
int device_open(struct device **out, const char *kind, int index, struct err *err);
void device_close(struct device *device); /* NULL is fine; frees no memory of device_resize on the CPU */
void device_list(FILE *out);

/* Memory that operators can use, aligned to 256 bytes; contents undefined. *memory is NULL or of an earlier call, whose
 * contents are lost. bytes = 0 frees. On failure *memory is NULL. */
int device_resize(struct device *device, void **memory, size_t bytes, struct err *err);

/* Between the host and the device or within either; may not overlap. */
int device_copy(struct device *device, void *to, const void *from, size_t bytes, struct err *err);

int device_run(struct device *device, const struct operator_call *call, struct err *err);

/* The time of the next wait begins when the device gets here. Returns at once, unlike a wait. */
int device_mark(struct device *device, struct err *err);

/* *time_s (may be NULL): seconds that passed on the device since the wait or mark before. */
int device_wait(struct device *device, double *time_s, struct err *err);

/* *bytes: what device_resize can still give, as far as the device knows. The CPU: this machine's memory, whoever has
 * it. */
int device_memory(struct device *device, size_t *bytes, struct err *err);

/* Between fp32 on the host and elements on the device, n of them: rounded to nearest even where elements are bf16. */
int device_upload(struct device *device, void *elements, const float *host, size_t n, struct err *err);
int device_download(struct device *device, float *host, const void *elements, size_t n, struct err *err);

#endif
