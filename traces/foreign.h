/* foreign.h: well-known files that are not traces: what they are and how to convert them. */
#ifndef TRACES_FOREIGN_H
#define TRACES_FOREIGN_H
#include <stddef.h>

#include "sim/base/err.h"

/* -1 with advice if the first bytes are those of such a file (or of any binary file), else 0. */
int foreign_refuse(const char *path, const char *bytes, size_t n, struct err *err);

#endif
