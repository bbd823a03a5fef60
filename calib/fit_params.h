/* fit_params.h: a parameter file (models/params.h) from measured rows.
 *
 * The rows of one device make the tables of GEMM (fit_gemm.c), attention (fit_attention.c) and collectives
 * (fit_network.c); the constants that no row gives come from one small file, each with its source, and are copied. Each
 * operation has a formula of its kernels, whose constants are fitted to all rows by least squares on relative errors
 * (outliers weigh less), and a correction of what the rows say beyond it. Both are then written as one table that rises
 * with work, which is all that the models look up. The same rows and program give the same bytes. */
#ifndef CALIB_FIT_PARAMS_H
#define CALIB_FIT_PARAMS_H
#include <stdbool.h>
#include <stdio.h>

#include "calib/rows.h"
#include "calib/warning.h"
#include "models/params.h"
#include "sim/base/json.h"

/* Rows to fit on. `skip[f][i]` leaves row i of file f out; `skip` or `skip[f]` may be NULL. */
struct fit_rows {
  const struct rows *files;
  size_t n_files;
  const bool *const *skip;
};

struct fit_source {
  const char *device; /* "h200_sxm": the name of the parameter file; rows whose column used_for lacks it are ignored */
  struct fit_rows own;
  /* Rows of a device with the same compute units and ports and another memory (H100 for H200): gemm rows, as ratios to
   * their own device's formula, show which kernel is picked for shapes that `own` lacks; rows of collectives how a
   * curve bends at sizes that `own` lacks. */
  struct fit_rows sibling;
  /* A parameter file (root object) that gives what has no rows: whole sections, attention masks, backward over forward.
   * NULL: rows of every operation are needed. */
  const json_t *defaults;
  /* Set by fit_source_describe. */
  bool measured;     /* rows of calibrate run: sections of fit_measured.c, which knows no kernels */
  int element_bytes; /* 4: rows of fp32 (a CPU); else 2 */
};

/* Finds out whether the own rows are of calibrate run. Error: only some are, or their data types differ. */
int fit_source_describe(struct fit_source *source, struct err *err);

/* One section of the parameter file as JSON text (malloc), without a newline at its end. NULL and an error if there are
 * too few rows of the operation. */
char *fit_gemm(const struct fit_source *source, const struct json_doc *constants, struct err *err);
char *fit_attention(const struct fit_source *source, struct err *err);
char *fit_network(const struct fit_source *source, const struct json_doc *constants, struct err *err);
/* The same from rows of calibrate run; classes of memory without rows come from the constants. */
char *fit_measured_gemm(const struct fit_source *source, const struct json_doc *constants, struct err *err);
char *fit_measured_attention(const struct fit_source *source, struct err *err);
char *fit_measured_memory(const struct fit_source *source, const struct json_doc *constants);

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

/* Whether row i of file f takes part: not skipped, meant for the device, and of what the models take from rows: not of
 * several groups at once, uneven exchanges and barriers. */
bool fit_uses(const struct fit_source *source, const struct fit_rows *rows, size_t f, size_t i);

#endif
