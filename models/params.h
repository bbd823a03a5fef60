/* params.h: a parameter file (calib/params/NAME.json, schema dcpsim.params/1): every number that the cost models use,
 * each with its source. Opaque to all but models/. */
#ifndef MODELS_PARAMS_H
#define MODELS_PARAMS_H
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

struct params;

/* `name_or_path`: a shipped name (h200_sxm, h100_sxm) or a file. Ownership to the caller: params_free. */
int params_load(struct params **out, const char *name_or_path, struct err *err);
void params_free(struct params *p);
const char *params_name(const struct params *p);   /* as given or found: "h200_sxm" or the path */
const char *params_sha256(const struct params *p); /* 64 hex digits of the file's bytes */
void params_list(FILE *out);
const char *params_gpu(const struct params *p);       /* "h200_sxm": what the rows were measured on */
int64_t params_reserve_bytes(const struct params *p); /* device memory that context, communicators and allocator take */

#endif
