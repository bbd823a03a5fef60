/* monotone.h: least-squares rising sequences and tables (pool adjacent violators). */
#ifndef CALIB_MONOTONE_H
#define CALIB_MONOTONE_H
#include <stddef.h>

/* Makes v[0], v[stride], ... v[(n-1)*stride] rise, moving them as little as possible in squares. Returns the largest
 * move. */
double monotone_line(double *v, size_t n, size_t stride);

/* Makes a table of axes[n_axes] nodes (last axis innermost) rise along every axis: lines of each axis in turn until all
 * hold or `passes` are done, then a running maximum for what is left. */
void monotone_table(double *v, const size_t *axes, size_t n_axes, int passes);

#endif
