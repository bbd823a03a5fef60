/* sorted.h: doubles in ascending order, and what lies in their middle. There must be no NaN among them. */
#ifndef SIM_BASE_SORTED_H
#define SIM_BASE_SORTED_H
#include <stddef.h>

void sort_doubles(double *v, size_t n);

/* Of sorted values, n > 0: the one at the rank nearest to `percent` (0 to 100) of the way from the first to the last.
 */
double sorted_quantile(const double *sorted, size_t n, double percent);

/* Sorts v, n > 0. Of two in the middle their mean. */
double median_sort(double *v, size_t n);

/* The middle of |v|, the upper of two; v, n > 0, stays as it is. */
double median_abs(const double *v, size_t n);

#endif
