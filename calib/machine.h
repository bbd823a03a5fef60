/* machine.h: what a row says of where it was measured. */
#ifndef CALIB_MACHINE_H
#define CALIB_MACHINE_H
#include <stddef.h>

#include "kernels/communicator.h"
#include "kernels/device.h"

struct machine {
  char device[128];  /* "NVIDIA H200", or the processor's name and its threads: rows of one device carry one name */
  char driver[128];  /* version of the GPU's driver; of the kernel on a CPU */
  char library[160]; /* what computed: cuBLASLt or OpenBLAS, and dcpsim's kernels; MPI or NCCL; versions as far as told
                      */
  char clocks[160];  /* MHz at the start, as far as told */
};

/* `world`: NULL without collectives. Asks nvidia-smi on a CUDA device; "unknown" where nothing tells. */
void machine_describe(struct machine *m, const struct device *device, const struct communicator *world);

/* Bytes of the last cache: what a repetition must not find its arrays in. */
size_t machine_cache_bytes(const struct device *device);

#endif
