/* import_csv.h: turns other people's CSV tables of kernel times into measured rows (calib/rows.h).
 *
 * Columns understood, by name: those of measured rows, and
 *   kind, pass          instead of an `op` of ours: kind gemm, norm (the first word of `op` says rms_norm or
 * layer_norm); pass fwd or bwd gpu                 device read_method         check head_dim_qk, head_dim_vo head_dim,
 * where they are equal time_ms, time_us, time_ns  time_s tflops, tflops_as_reported TFLOP/s: time_s where the table has
 * no time, by the FLOPs that these sources count: gemm 2 m n k; attention forward 4 batch heads seqlen^2 head_dim,
 * halved if causal, backward 2.5x and forward with backward 3.5x that (the convention of FlashAttention's benchmark,
 * which cuDNN's follows) Any other column is ignored unless it is mapped to one of these.
 *
 * Left out, and counted by reason: rows without a shape or a usable time (a bandwidth alone, an unknown mask, a range
 * instead of a number); rows whose time and TFLOP/s differ by more than 10 % (windowed attention: another amount of
 * work); times printed so coarsely that rounding alone is more than 5 %. */
#ifndef CALIB_IMPORT_CSV_H
#define CALIB_IMPORT_CSV_H
#include <stddef.h>
#include <stdio.h>

#include "calib/warning.h"
#include "sim/base/err.h"

struct import_csv_options {
  const char *map; /* "COLUMN=NAME,...": the input's column COLUMN is what is called NAME above; may be NULL */
  const struct warning_sink *warnings;
};

struct import_csv_result {
  size_t rows, rows_from_flops, rows_left_out; /* written; of these, with a time from TFLOP/s; left out */
};

/* Reads `path` ("-" is stdin), writes CSV to `out`. A table that cannot be read or has no row to convert is an error.
 */
int import_csv(const char *path, FILE *out, const struct import_csv_options *options, struct import_csv_result *result,
               struct err *err);

/* "a, b, c": the names that a column can be mapped to. */
void import_csv_list_names(char *buf, size_t size);

#endif
