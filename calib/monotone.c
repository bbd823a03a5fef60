#include "calib/monotone.h"

#include <math.h>
#include <stdlib.h>

#include "sim/base/units.h"

struct pool {
  double sum;
  size_t n;
};

static double mean_of(const struct pool *p) { return p->sum / (double)p->n; }

double monotone_line(double *v, size_t n, size_t stride) {
  struct pool small[128], *pools = n <= 128 ? small : xcalloc(n, sizeof *pools);
  size_t count = 0, at = 0;
  double moved = 0;
  for (size_t i = 0; i < n; i++) {
    pools[count++] = (struct pool){v[i * stride], 1};
    for (; count > 1 && mean_of(&pools[count - 2]) > mean_of(&pools[count - 1]); count--) {
      pools[count - 2].sum += pools[count - 1].sum;
      pools[count - 2].n += pools[count - 1].n;
    }
  }
  for (size_t k = 0; k < count; at += pools[k++].n)
    for (size_t i = 0; pools[k].n > 1 && i < pools[k].n; i++) {
      double *x = &v[(at + i) * stride];
      moved = fmax(moved, fabs(*x - mean_of(&pools[k])));
      *x = mean_of(&pools[k]);
    }
  if (pools != small)
    free(pools);
  return moved;
}

struct axis_lines {
  size_t n, stride, total;
};

static struct axis_lines lines_of(const size_t *axes, size_t n_axes, size_t axis) {
  struct axis_lines l = {axes[axis], 1, 1};
  for (size_t a = 0; a < n_axes; a++) {
    l.total *= axes[a];
    if (a > axis)
      l.stride *= axes[a];
  }
  return l;
}

void monotone_table(double *v, const size_t *axes, size_t n_axes, int passes) {
  double moved = 1;
  for (int pass = 0; pass < passes && moved > 1e-5; pass++) {
    moved = 0;
    for (size_t a = 0; a < n_axes; a++) {
      struct axis_lines l = lines_of(axes, n_axes, a);
      for (size_t i = 0; i < l.total; i++)
        if (i / l.stride % l.n == 0)
          moved = fmax(moved, monotone_line(v + i, l.n, l.stride));
    }
  }
  for (size_t a = 0; a < n_axes; a++) {
    struct axis_lines l = lines_of(axes, n_axes, a);
    for (size_t i = 0; i < l.total; i++)
      if (i / l.stride % l.n > 0)
        v[i] = fmax(v[i], v[i - l.stride]);
  }
}
