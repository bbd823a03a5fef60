/* boosted.h: boosted regression trees for what is left of log times after a formula: which kernel a library picks jumps
 * with tile and wave counts, which no smooth surface follows.
 *
 * Trees of a fixed depth on features cut into at most 256 bins, each fitted to the residuals of those before it,
 * clipped at a multiple of their median so that outliers do not pull. No random numbers: the same rows give the same
 * trees. */
#ifndef CALIB_BOOSTED_H
#define CALIB_BOOSTED_H
#include <stddef.h>

struct boosted;

struct boosted_options {
  int trees, depth; /* depth at most 8 */
  double rate;      /* share of each tree's step that is taken */
  size_t min_rows;  /* in a leaf */
};

/* x: (rows, features), y: (rows). Never fails; boosted_free. */
struct boosted *boosted_fit(const double *x, const double *y, size_t n_rows, size_t n_features,
                            const struct boosted_options *options);
double boosted_predict(const struct boosted *b, const double *x);
void boosted_free(struct boosted *b);

#endif
