#include "kernels/device.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/device_table.h"
#include "sim/base/units.h"

static const struct device_kind *const kinds[] = {&device_cpu, &device_cuda};
enum { KINDS = sizeof kinds / sizeof *kinds };

int device_open(struct device **out, const char *kind, int index, struct err *err) {
  *out = NULL;
  for (int i = 0; i < KINDS; i++)
    if (strcmp(kinds[i]->name, kind) == 0)
      return kinds[i]->open(out, index, err);
  char names[128] = "";
  for (int i = 0; i < KINDS; i++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", kinds[i]->name);
  return err_usage(err, "no device '%s'; there are: %s", kind, names);
}

void device_list(FILE *out) {
  for (int i = 0; i < KINDS; i++)
    fprintf(out, "%s\n", kinds[i]->name);
}

void device_close(struct device *device) {
  if (device)
    device->kind->close(device);
}

int device_resize(struct device *device, void **memory, size_t bytes, struct err *err) {
  return device->kind->resize(device, memory, bytes, err);
}

int device_copy(struct device *device, void *to, const void *from, size_t bytes, struct err *err) {
  return bytes == 0 ? 0 : device->kind->copy(device, to, from, bytes, err);
}

int device_run(struct device *device, const struct operator_call *call, struct err *err) {
  ASSERT((unsigned)call->kind < OPERATOR_KINDS);
  return device->kind->run(device, call, err);
}

int device_mark(struct device *device, struct err *err) { return device->kind->mark(device, err); }

int device_wait(struct device *device, double *time_s, struct err *err) {
  return device->kind->wait(device, time_s, err);
}

int device_memory(struct device *device, size_t *bytes, struct err *err) {
  return device->kind->memory(device, bytes, err);
}

/* bf16 is the upper half of fp32. To nearest, ties to even; NaN stays NaN. */
static uint16_t bf16_from_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  if (x != x)
    return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float float_from_bf16(uint16_t x) {
  const uint32_t bits = (uint32_t)x << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

int device_upload(struct device *device, void *elements, const float *host, size_t n, struct err *err) {
  if (device->kind->element == ELEMENT_FP32)
    return device_copy(device, elements, host, size_mul(n, sizeof *host), err);
  uint16_t *rounded = xmalloc(size_mul(n, sizeof *rounded));
  for (size_t i = 0; i < n; i++)
    rounded[i] = bf16_from_float(host[i]);
  int rc = device_copy(device, elements, rounded, n * sizeof *rounded, err);
  free(rounded);
  return rc;
}

int device_download(struct device *device, float *host, const void *elements, size_t n, struct err *err) {
  if (device->kind->element == ELEMENT_FP32)
    return device_copy(device, host, elements, size_mul(n, sizeof *host), err);
  uint16_t *rounded = xmalloc(size_mul(n, sizeof *rounded));
  int rc = device_copy(device, rounded, elements, n * sizeof *rounded, err);
  for (size_t i = 0; rc == 0 && i < n; i++)
    host[i] = float_from_bf16(rounded[i]);
  free(rounded);
  return rc;
}
