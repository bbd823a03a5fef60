#include "kernels/fatbin.h"

#ifdef DCPSIM_HAVE_FATBIN
__asm__(".section .rodata\n"
        ".balign 64\n"
        ".globl dcpsim_fatbin\n"
        "dcpsim_fatbin:\n"
        ".incbin \"" DCPSIM_FATBIN_FILE "\"\n"
        "dcpsim_fatbin_end:\n"
        ".balign 8\n"
        ".globl dcpsim_fatbin_size\n"
        "dcpsim_fatbin_size:\n"
        ".quad dcpsim_fatbin_end - dcpsim_fatbin\n"
        ".previous\n");
#endif
