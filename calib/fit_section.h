/* fit_section.h: the sections of a parameter file, each from the rows of its operation. */
#ifndef CALIB_FIT_SECTION_H
#define CALIB_FIT_SECTION_H
#include "calib/fit_source.h"

/* One section of the parameter file as JSON text (malloc), without a newline at its end. NULL and an error if there are
 * too few rows of the operation. */
char *fit_gemm(const struct fit_source *source, const struct json_doc *constants, struct err *err);
char *fit_attention(const struct fit_source *source, struct err *err);
char *fit_network(const struct fit_source *source, const struct json_doc *constants, struct err *err);
/* The same from rows of calibrate run; classes of memory without rows come from the constants. */
char *fit_measured_gemm(const struct fit_source *source, const struct json_doc *constants, struct err *err);
char *fit_measured_attention(const struct fit_source *source, struct err *err);
char *fit_measured_memory(const struct fit_source *source, const struct json_doc *constants);

#endif
