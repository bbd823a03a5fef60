/* progress.h: a progress bar on stderr, drawn only when stderr is a terminal; at most ten redraws a second. */
#ifndef SIM_BASE_PROGRESS_H
#define SIM_BASE_PROGRESS_H
#include <stdbool.h>
#include <stdint.h>

struct progress {
  bool enabled;
  const char *label; /* not owned */
  int64_t total, done;
  int64_t started_ns, drawn_ns;
};

void progress_start(struct progress *p, const char *label, int64_t total);
void progress_update(struct progress *p, int64_t done);
void progress_finish(struct progress *p); /* clears the line */

/* Warnings and notes on stderr: "dcpsim: warning: ..." and "dcpsim: ...", one line. Not for errors (those go up as
 * struct err). */
void log_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Monotonic wall clock, for progress and plan_time_s only: never for results. */
int64_t wall_clock_ns(void);

#endif
