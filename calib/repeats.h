/* repeats.h: repeated timings of one thing: their median, how sure it is, and when to stop. Timings during which the
 * scheduler took the processor away are of something else: they count only where there are not enough others. */
#ifndef CALIB_REPEATS_H
#define CALIB_REPEATS_H
#include <stdbool.h>
#include <stddef.h>

#define REPEATS_MAX 400
#define REPEATS_LEAST 5  /* before a median is sure */
#define REPEATS_FEWEST 3 /* whatever they cost */

struct repeats {
  size_t n;
  double time_s[REPEATS_MAX];
  bool interrupted[REPEATS_MAX];
  double spent_s; /* wall clock, preparations included */
};

void repeats_add(struct repeats *r, double time_s, double spent_s, bool interrupted);

/* How often the scheduler has taken the processor from this thread so far. */
long repeats_interruptions(void);

struct repeats_summary {
  size_t used; /* timings */
  double median_s;
  double spread_frac;     /* between the quartiles, over the median */
  double confidence_frac; /* half the width of the median's 95 % interval (order statistics), over the median; of fewer
                             than 6 repeats: half of the whole range */
};
/* n >= 1. */
struct repeats_summary repeats_summarize(const struct repeats *r);

/* Whether the median is as sure as `confidence_frac`, no more fit, or `limit_s` are spent on at least 3 (three times as
 * long while fewer than 3 are without interruption). */
bool repeats_enough(const struct repeats *r, double confidence_frac, double limit_s);

#endif
