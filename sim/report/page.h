/* page.h: a study as one HTML file that needs nothing else: results of `dcpsim simulate` and tables of `dcpsim sweep`
 * with plots, inputs, uncertainty, what is known about the errors of the parameter files, and commands to run again. */
#ifndef SIM_REPORT_PAGE_H
#define SIM_REPORT_PAGE_H
#include "sim/base/err.h"

#define PAGE_MAX_INPUTS 64

/* Writes out_path, which is complete afterwards or untouched. paths: 1 to PAGE_MAX_INPUTS files, each read several
 * times, so none may be a pipe. */
int page_write(const char *const *paths, int n, const char *out_path, struct err *err);

#endif
