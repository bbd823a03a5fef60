/* params.h: a parameter file (calib/params/NAME.json, schema dcpsim.params/1): every number that the cost models use,
 * each with its source. Opaque to all but models/. */
#ifndef MODELS_PARAMS_H
#define MODELS_PARAMS_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "sim/base/err.h"

struct params;

/* `name_or_path`: a shipped name (h200_sxm, h100_sxm) or a file. Ownership to the caller: params_free. */
int params_load(struct params **out, const char *name_or_path, struct err *err);
/* The same from text in memory; `name` is what params_name() says and messages call it. */
int params_parse(struct params **out, const char *name, const char *text, struct err *err);
/* A copy of its own, to be moved: no file is read again. Ownership to the caller. */
struct params *params_copy(const struct params *p);
void params_free(struct params *p);
/* Moves every fitted quantity by a draw from its own error: the fit's recorded one, or the declared one of what no row
 * gives (params_move.c). Same seed, same shifts; best rates follow, so that bounds still hold. */
void params_move(struct params *p, uint64_t seed);
const char *params_name(const struct params *p);   /* as given or found: "h200_sxm" or the path */
const char *params_sha256(const struct params *p); /* 64 hex digits of the file's bytes */
void params_list(FILE *out);
const char *params_gpu(const struct params *p); /* "h200_sxm": what the rows were measured on */

/* Whether attention was asked for a head dim that no table encloses, by any cost function so far; then `text` says so,
 * in a line without newline. For one warning at the end of a run; may be asked while other threads ask for times. How
 * much GEMMs smaller than any measured matter depends on what ran: gemm_is_measured() tells of each. */
bool params_range_warning(const struct params *p, char *text, size_t size);
/* Bytes of an element on the device the rows were measured on: 2 (bf16), or 4 for a CPU's fp32. The models count 2
 * bytes an element everywhere; parameters for 4 have rates that make that the right time (what moves is twice as much).
 */
int params_element_bytes(const struct params *p);
int64_t params_reserve_bytes(const struct params *p); /* device memory that context, communicators and allocator take */

#endif
