#include "sim/base/sorted.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/units.h"

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

void sort_doubles(double *v, size_t n) { qsort(v, n, sizeof *v, ascending); }

double sorted_quantile(const double *sorted, size_t n, double percent) {
  return sorted[(size_t)floor((double)(n - 1) * percent / 100 + 0.5)];
}

double median_sort(double *v, size_t n) {
  sort_doubles(v, n);
  return n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

double median_abs(const double *v, size_t n) {
  double *sorted = xcalloc(n, sizeof *sorted);
  for (size_t i = 0; i < n; i++)
    sorted[i] = fabs(v[i]);
  sort_doubles(sorted, n);
  const double median = sorted[n / 2];
  free(sorted);
  return median;
}
