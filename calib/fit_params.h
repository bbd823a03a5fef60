/* fit_params.h: a parameter file (models/params.h) from measured rows.
 *
 * The rows of one device make the tables of GEMM (fit_gemm.c), attention (fit_attention.c) and collectives
 * (fit_network.c); the constants that no row gives come from one small file, each with its source, and are copied. Each
 * operation has a formula of its kernels, whose constants are fitted to all rows by least squares on relative errors
 * (outliers weigh less), and a correction of what the rows say beyond it. Both are then written as one table that rises
 * with work, which is all that the models look up. The same rows and program give the same bytes. */
#ifndef CALIB_FIT_PARAMS_H
#define CALIB_FIT_PARAMS_H
#include <stdio.h>

#include "calib/fit_source.h"
#include "calib/warning.h"

/* All sections. */
struct fit_sections {
  char *gemm, *attention, *network;
};
enum fit_section { SECTION_GEMM = 1, SECTION_ATTENTION = 2, SECTION_NETWORK = 4, SECTION_ALL = 7 };
/* Fits the sections in `which` anew, replacing what is there. Others that are missing come from the defaults. */
int fit_update(struct fit_sections *sections, int which, const struct fit_source *source,
               const struct json_doc *constants, struct err *err);
void fit_sections_release(struct fit_sections *sections);

/* The whole file: constants, sections and `about`, the value of the key "fit" (JSON text). malloc. */
char *fit_text(const struct fit_sections *sections, const struct fit_source *source, const struct json_doc *constants,
               const char *about);

/* Reads calib/data/constants_DEVICE.json, or `path` if not NULL. */
int fit_constants_read(struct json_doc *constants, const char *device, const char *path, struct err *err);

/* Fits everything (with defaults: all that has rows) and writes the file: `out`. `about` gets rows, hashes, errors and
 * ranges. */
int fit_write(FILE *out, const struct fit_source *source, const struct json_doc *constants,
              const struct warning_sink *warnings, struct err *err);

#endif
