/* The host as a device: operators run where they are called, in fp32. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels/blas.h"
#include "kernels/device_table.h"
#include "sim/base/units.h"

struct cpu {
  struct device shared;
  double waited_s; /* clock at the last wait */
};

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int cpu_open(struct device **out, int index, struct err *err) {
  if (index != 0)
    return err_usage(err, "device cpu: there is only number 0, not %d", index);
  struct cpu *cpu = xcalloc(1, sizeof *cpu);
  cpu->shared.kind = &device_cpu;
  snprintf(cpu->shared.name, sizeof cpu->shared.name, "cpu (%s)", blas_name());
  cpu->waited_s = now_s();
  *out = &cpu->shared;
  return 0;
}

static void cpu_close(struct device *device) { free(device); }

static int cpu_resize(struct device *device, void **memory, size_t bytes, struct err *err) {
  enum { ALIGNMENT = 256 };
  free(*memory);
  *memory = NULL;
  if (bytes == 0)
    return 0;
  if (bytes > SIZE_MAX - ALIGNMENT ||
      !(*memory = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)))
    return err_set(err, "device %s: no memory for %zu bytes", device->name, bytes);
  return 0;
}

static int cpu_copy(struct device *device, void *to, const void *from, size_t bytes, struct err *err) {
  (void)device, (void)err;
  memcpy(to, from, bytes);
  return 0;
}

static int cpu_run(struct device *device, const struct operator_call *call, struct err *err) {
  (void)device, (void)err;
  operator_run_cpu(call);
  return 0;
}

static int cpu_mark(struct device *device, struct err *err) {
  (void)err;
  ((struct cpu *)device)->waited_s = now_s();
  return 0;
}

static int cpu_wait(struct device *device, double *time_s, struct err *err) {
  struct cpu *cpu = (struct cpu *)device;
  const double now = now_s();
  (void)err;
  if (time_s)
    *time_s = now - cpu->waited_s;
  cpu->waited_s = now;
  return 0;
}

static int cpu_memory(struct device *device, size_t *bytes, struct err *err) {
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0)
    return err_set(err, "device %s: how much memory this machine has is unknown", device->name);
  *bytes = (size_t)pages * (size_t)page_bytes;
  return 0;
}

const struct device_kind device_cpu = {
    .name = "cpu",
    .element = ELEMENT_FP32,
    .open = cpu_open,
    .close = cpu_close,
    .resize = cpu_resize,
    .copy = cpu_copy,
    .run = cpu_run,
    .mark = cpu_mark,
    .wait = cpu_wait,
    .memory = cpu_memory,
};
