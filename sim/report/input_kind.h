/* input_kind.h: tells a result of `dcpsim simulate` from the table of `dcpsim sweep`. */
#ifndef SIM_REPORT_INPUT_KIND_H
#define SIM_REPORT_INPUT_KIND_H
#include "sim/base/err.h"

enum input_kind { INPUT_RESULT, INPUT_SWEEP };

/* By its first bytes: an object, or the header of the table. Whether the rest is sound is its reader's to say. */
int input_kind_read(enum input_kind *kind, const char *path, struct err *err);

#endif
