/* share.h: where the files live that ship with the program: traces/data, models/presets, calib/params. */
#ifndef SIM_BASE_SHARE_H
#define SIM_BASE_SHARE_H
#include <stddef.h>

/* Full path of `relative` ("models/presets/llama2-7b.json") in the first place that has it: $DCPSIM_SHARE; share/dcpsim
 * of the prefix that the shared library, or else the program, is installed in; the source tree it was built from.
 * 0 found; -1 nowhere (or longer than `size`), buf is then "". */
int share_path(char *buf, size_t size, const char *relative);

#endif
