/* device_table.h: the rows of device.c, one per file device_NAME.c. */
#ifndef KERNELS_DEVICE_TABLE_H
#define KERNELS_DEVICE_TABLE_H
#include "kernels/device.h"

extern const struct device_kind device_cpu;
extern const struct device_kind device_cuda;

#endif
