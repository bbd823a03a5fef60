/* fatbin.h: the compiled CUDA kernels, as cuModuleLoadData takes them: machine code for sm_90a (H100, H200), all
 * kernels of kernels/ in one module. Only where DCPSIM_HAVE_FATBIN is defined: where nvcc was found when the program
 * was built. */
#ifndef KERNELS_FATBIN_H
#define KERNELS_FATBIN_H
#include <stdint.h>

#ifdef DCPSIM_HAVE_FATBIN
extern const unsigned char dcpsim_fatbin[];
extern const uint64_t dcpsim_fatbin_size; /* bytes */
#endif

#endif
